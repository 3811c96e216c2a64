import HubBase
import HubNet
import Testing

/// What a reader that is too slow gets, and what it costs the others.
@Suite struct BackpressureTests {
    private static func send(
        _ loop: NetLoop, _ text: String, count: Int, to id: ConnectionID, as sendClass: SendClass, key: UInt64 = 0
    ) {
        loop.sendMessage(.text, to: id, as: sendClass, key: key) {
            $0.append([UInt8](text.utf8) + [UInt8](repeating: 0x20, count: count))
        }
    }

    /// Sends until something waits, so that what follows meets a full socket.
    private static func fill(_ fixture: LoopFixture, _ id: ConnectionID) -> Int {
        var sent = 0
        while fixture.perform({ loop, _ in loop.queuedBytes(id) }) == 0 {
            fixture.perform { [sent] loop, _ in Self.send(loop, "fill \(sent)", count: 60_000, to: id, as: .publication) }
            sent += 1
        }
        return sent
    }

    @Test("past half of the limit typing goes first; every publication arrives, in order; what was dropped is told, B41")
    func typingGoesFirst() throws {
        var limits = NetLimits()
        limits.outboundBytes = 512 * 1024
        let told = Watch<DroppedFrames>()
        let fixture = try LoopFixture(limits) { handler in handler.onDrained = { _, dropped in told.note(dropped) } }
        let (client, id) = try fixture.join(receiveBuffer: 4096)
        let filled = Self.fill(fixture, id)
        for number in 0..<300 {
            fixture.perform { loop, _ in
                Self.send(loop, "typing \(number)", count: 2000, to: id, as: .typing)
                if number % 10 == 0 { Self.send(loop, "chat \(number)", count: 1000, to: id, as: .publication) }
                #expect(loop.queuedBytes(id) <= 512 * 1024)
            }
        }
        #expect(fixture.perform { loop, _ in loop.isOpen(id) })
        fixture.perform { loop, _ in Self.send(loop, "end", count: 0, to: id, as: .publication) }
        var chats: [String] = []
        var typing = 0
        for number in 0..<filled { #expect(try client.readFrame().text.hasPrefix("fill \(number) ")) }
        while true {
            let text = try client.readFrame().text
            if text.hasPrefix("end") { break }
            if text.hasPrefix("chat") { chats.append(String(text.split(separator: " ")[1])) } else { typing += 1 }
        }
        #expect(chats == (0..<30).map { "\($0 * 10)" })
        let dropped = told.wait(for: 1)
        #expect(dropped.reduce(0) { $0 + $1.typing } == 300 - UInt64(typing))
        #expect(typing < 300)
        #expect(fixture.counters.dropped == DroppedFrames(typing: 300 - UInt64(typing)))
        #expect(fixture.counters.closedTooSlow == 0 && fixture.counters.framesDropped == 0)
    }

    @Test("read positions are conflated: the last of each key arrives, however many were sent, and the connection stays open")
    func conflation() throws {
        var limits = NetLimits()
        limits.outboundBytes = 512 * 1024
        let fixture = try LoopFixture(limits)
        let (client, id) = try fixture.join(receiveBuffer: 4096)
        let filled = Self.fill(fixture, id)
        // 40 MB of them, in a queue of 512 KB.
        for round in 0..<1000 {
            fixture.perform { loop, _ in
                for key in 1...20 { Self.send(loop, "read \(key) \(round)", count: 2000, to: id, as: .read, key: UInt64(key)) }
            }
        }
        fixture.perform { loop, _ in Self.send(loop, "end", count: 0, to: id, as: .publication) }
        #expect(fixture.perform { loop, _ in loop.isOpen(id) })
        for _ in 0..<filled { _ = try client.readFrame() }
        var last: [Int: Int] = [:]
        while true {
            let words = try client.readFrame().text.split(separator: " ")
            if words[0] == "end" { break }
            let key = Int(words[1])!, round = Int(words[2])!
            #expect(round > last[key] ?? -1, "a newer value was followed by an older one")
            last[key] = round
        }
        #expect(last == Dictionary(uniqueKeysWithValues: (1...20).map { ($0, 999) }))
        #expect(fixture.counters.dropped.read > 10_000)
    }

    @Test("a reader at a fifth of the pace, in the end: everything, or a close with 4008 behind whole publications without a hole, B41")
    func slowPace() throws {
        var limits = NetLimits()
        limits.outboundBytes = 128 * 1024
        let fixture = try LoopFixture(limits)
        let (client, id) = try fixture.join(receiveBuffer: 4096)
        for number in 0..<3000 where fixture.perform({ loop, _ in loop.isOpen(id) }) {
            fixture.perform { loop, _ in Self.send(loop, "chat \(number)", count: 4000, to: id, as: .publication) }
            if number % 5 == 0 { #expect(try client.readFrame().text.hasPrefix("chat \(number / 5) ")) }
        }
        var expected: Int?
        while true {
            let frame = try client.readFrame()
            if frame.opcode == 8 {
                #expect(frame.code == 4008)
                break
            }
            let number = Int(frame.text.split(separator: " ")[1])!
            #expect(number == expected ?? number)
            expected = number + 1
        }
        #expect(fixture.counters.closedTooSlow == 1)
    }

    @Test("the node's memory for queues is bounded: the largest are closed with 4008, the others go on, B40")
    func sendMemory() throws {
        var limits = NetLimits()
        limits.outboundBytes = 4 * 1024 * 1024
        limits.sendMemory = SendBudget(limit: 2 * 1024 * 1024)
        let budget = limits.sendMemory
        let fixture = try LoopFixture(limits)
        var slow: [(RawClient, ConnectionID)] = []
        for _ in 0..<8 { slow.append(try fixture.join(receiveBuffer: 4096)) }
        let (quick, quickID) = try fixture.join()
        let ids = slow.map(\.1) + [quickID]
        let text = String(repeating: "x", count: 20_000)
        for round in 0..<400 {
            fixture.perform { loop, _ in
                let frame = loop.makeFrame(.text) { $0.append([UInt8]("\(round) \(text)".utf8)) }
                ids.map(\.index).withUnsafeBufferPointer { loop.broadcast(frame, to: $0, as: .publication) }
            }
            #expect(budget.inUse <= 2 * 1024 * 1024 + 8 * 32 * 1024)
            #expect(try quick.readFrame().text.hasPrefix("\(round) "))
        }
        #expect(fixture.counters.closedTooSlow == 8)
        for (client, _) in slow {
            var frame = try client.readFrame()
            var next = 0
            while frame.opcode == 1 {
                #expect(frame.text.hasPrefix("\(next) "))
                next += 1
                frame = try client.readFrame()
            }
            #expect(frame.opcode == 8 && frame.code == 4008)
            client.sendClose(4008)
        }
        fixture.ends.wait(for: 8)
        #expect(fixture.perform { loop, _ in loop.isOpen(quickID) })
        #expect(fixture.perform { _, _ in budget.inUse } == 0)
    }

    @Test("an eighth of the budget is for small queues: who stalls for a moment isn't cut off for those who have stalled for long")
    func smallQueues() {
        let budget = SendBudget(limit: 800_000)
        #expect(budget.take(700_000, of: 700_000))
        #expect(!budget.take(20_000, of: 20_000))
        #expect(budget.take(16 * 1024, of: 16 * 1024))
        #expect(budget.inUse == 716_384)
        budget.adjust(by: -716_384)
        #expect(budget.inUse == 0)
    }

    @Test("a reader that takes bytes slowly isn't silent, although the ping waits behind what is queued")
    func slowIsNotSilent() throws {
        var limits = NetLimits()
        limits.outboundBytes = 64 * 1024 * 1024
        limits.ping = .milliseconds(200)
        limits.pong = .milliseconds(300)
        let fixture = try LoopFixture(limits)
        let (client, id) = try fixture.join(receiveBuffer: 4096)
        let joined = fixture.perform { loop, _ in
            for number in 0..<400 { Self.send(loop, "chat \(number)", count: 60_000, to: id, as: .publication) }
            return loop.now
        }
        // Never a byte from the client; it only reads, for several times ping and pong together.
        for number in 0..<40 {
            #expect(try client.readFrame().text.hasPrefix("chat \(number) "))
            StallClock.pass(milliseconds: 50)
        }
        #expect(fixture.perform { loop, _ in loop.isOpen(id) })
        #expect(fixture.ends.all.isEmpty)
        // Now it stops reading, too.
        guard case .silent(let lastHeard, let reason)? = fixture.ends.wait(for: 1).first else {
            Issue.record("a peer that neither sends nor reads is kept")
            return
        }
        #expect(reason.hasPrefix("silent"))
        // What it acknowledged was a sign of life.
        #expect(lastHeard >= joined + .milliseconds(1_500))
    }
}
