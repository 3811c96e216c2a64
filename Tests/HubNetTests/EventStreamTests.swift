import Glibc
import HubBase
import HubNet
import Testing

/// Streams of server-sent events as connections among WebSockets.
@Suite struct EventStreamTests {
    private static let get = "GET /sse HTTP/1.1\r\nHost: test\r\n\r\n"

    private func fixture(_ limits: NetLimits = NetLimits(), _ script: @escaping @Sendable (LoopFixture.Handler) -> Void = { _ in }) throws
        -> LoopFixture
    {
        try LoopFixture(limits) { handler in
            handler.onRequest = { request, _ in
                switch String(decoding: request.path.bytes(in: request.head), as: UTF8.self) {
                case "/sse": .stream(retry: .milliseconds(1500))
                case "/ws": .upgrade(subprotocol: nil)
                default: .respond(HTTPResponse(status: 200))
                }
            }
            script(handler)
        }
    }

    private func open(_ fixture: LoopFixture, _ request: String = get, receiveBuffer: Int32? = nil) throws -> (RawClient, ConnectionID) {
        let before = fixture.opens.all.count
        let client = RawClient(port: fixture.port, receiveBuffer: receiveBuffer)
        client.send(request)
        let head = try client.readHead()
        #expect(head.hasPrefix("HTTP/1.1 200") && head.contains("\r\nContent-Type: text/event-stream\r\n"))
        #expect(try event(client) == "retry: 1500\n\n")
        return (client, fixture.opens.wait(for: before + 1)[before])
    }

    private func event(_ client: RawClient) throws -> String {
        var bytes: [UInt8] = []
        while !bytes.suffix(2).elementsEqual([10, 10]) { bytes += try client.read(1) }
        return String(decoding: bytes, as: UTF8.self)
    }

    private static func send(_ loop: NetLoop, _ text: String, count: Int = 0, to id: ConnectionID, as sendClass: SendClass, key: UInt64 = 0)
    {
        loop.sendMessage(.text, to: id, as: sendClass, key: key) { $0.append([UInt8](text.utf8) + [UInt8](repeating: 0x20, count: count)) }
    }

    @Test("a broadcast to WebSockets and streams is written once for each form, and leaves in one write each")
    func mixed() throws {
        let fixture = try fixture()
        let streams = try (0..<20).map { _ in try open(fixture) }
        let sockets = try (0..<20).map { _ in try fixture.join() }
        let ids = zip(streams, sockets).flatMap { [$0.1, $1.1] }
        let before = fixture.counters
        fixture.perform { loop, _ in
            for number in 0..<3 {
                let frame = loop.makeFrame(.text) { $0.append([UInt8]("message \(number)".utf8)) }
                ids.map(\.index).withUnsafeBufferPointer { loop.broadcast(frame, to: $0, as: .publication) }
            }
        }
        for (client, _) in streams { for number in 0..<3 { #expect(try event(client) == "data: message \(number)\n\n") } }
        for (client, _) in sockets { for number in 0..<3 { #expect(try client.readFrame().text == "message \(number)") } }
        let after = fixture.counters
        #expect(after.events - before.events == 3)
        #expect(after.writes - before.writes == 40)
        #expect(after.framesOut - before.framesOut == 120)
        #expect(after.streamsOpened == 20)
    }

    @Test("a frame's label is the id of its event on streams that follow its topic, and only there")
    func labels() throws {
        let fixture = try fixture()
        let streams = try (0..<4).map { _ in try open(fixture) }
        let ids = streams.map(\.1)
        let before = fixture.counters.events
        fixture.perform { loop, _ in
            loop.follow(7, on: ids[1])
            loop.follow(7, on: ids[2])
            loop.follow(8, on: ids[3])
            for number in 0..<3 {
                let frame = loop.makeFrame(.text) { $0.append([UInt8]("\(number)".utf8)) }
                if number != 1 { loop.label(frame, topic: 7) { $0.append([UInt8]("at \(number)".utf8)) } }
                ids.map(\.index).withUnsafeBufferPointer { loop.broadcast(frame, to: $0, as: .publication) }
                for id in ids { loop.send(frame, to: id, as: .publication) }
            }
            loop.follow(0, on: ids[1])
            let last = loop.makeFrame(.text) { $0.append([UInt8]("last".utf8)) }
            loop.label(last, topic: 7) { $0.append([UInt8]("end".utf8)) }
            ids.map(\.index).withUnsafeBufferPointer { loop.broadcast(last, to: $0, as: .publication) }
        }
        for (place, (client, _)) in streams.enumerated() {
            for number in 0..<3 {
                let isLabelled = (place == 1 || place == 2) && number != 1
                for _ in 0..<2 { #expect(try event(client) == (isLabelled ? "id: at \(number)\n" : "") + "data: \(number)\n\n") }
            }
            #expect(try event(client) == (place == 2 ? "id: end\n" : "") + "data: last\n\n")
        }
        // Each frame once, and the three that are labelled once more.
        #expect(fixture.counters.events - before == 4 + 3)
    }

    @Test("a stream ends with its close as an event, at once: there's no closing handshake; it's told once")
    func closing() throws {
        let fixture = try fixture()
        let (client, id) = try open(fixture)
        fixture.perform { loop, _ in
            Self.send(loop, "before", to: id, as: .publication)
            loop.close(id, code: 1001, reason: "bye")
            Self.send(loop, "after", to: id, as: .publication)
            loop.close(id, code: 4008, reason: "again")
        }
        #expect(try event(client) == "data: before\n\n")
        #expect(try event(client) == "event: close\ndata: {\"code\":1001,\"reason\":\"bye\"}\n\n")
        #expect(client.readEnd() == .endOfStream)
        #expect(fixture.ends.wait(for: 1) == [.us(code: 1001)])
        client.finishSending()
        #expect(fixture.eventually { $0.connectionCount == 0 })
        #expect(fixture.ends.all.count == 1 && fixture.counters.closeTimeouts == 0)
    }

    @Test("what comes after a stream's GET is thrown away, in the same bytes or later, and kept nowhere; the peer's end is its end")
    func input() throws {
        let messages = Watch<Int>()
        let fixture = try fixture { handler in handler.onMessage = { bytes, _, _ in messages.note(bytes.count) } }
        let (client, id) = try open(
            fixture, Self.get + "GET /other HTTP/1.1\r\nHost: test\r\n\r\n" + String(repeating: "\u{1}", count: 5000))
        for _ in 0..<20 { client.send([UInt8](repeating: 0x81, count: 100_000)) }
        fixture.perform { loop, _ in Self.send(loop, "still here", to: id, as: .publication) }
        #expect(try event(client) == "data: still here\n\n")
        #expect(messages.all.isEmpty)
        client.finishSending()
        #expect(fixture.ends.wait(for: 1).count == 1)
        #expect(fixture.eventually { $0.connectionCount == 0 })
    }

    @Test("HEAD gets the stream's head alone, and the connection ends")
    func head() throws {
        let fixture = try fixture()
        let client = RawClient(port: fixture.port)
        client.send("HEAD /sse HTTP/1.1\r\nHost: test\r\n\r\n")
        #expect(try client.readHead().contains("\r\nContent-Type: text/event-stream\r\n"))
        #expect(client.readEnd() == .endOfStream)
        #expect(fixture.opens.all.isEmpty && fixture.ends.all.isEmpty)
    }

    @Test("an idle stream gets comments, one an interval, and is never found silent while its kernel answers")
    func comments() throws {
        var limits = NetLimits()
        limits.ping = .milliseconds(800)
        limits.pong = .milliseconds(500)
        let fixture = try fixture(limits)
        let (client, id) = try open(fixture)
        let start = fixture.perform { loop, _ in loop.now }
        for _ in 0..<3 { #expect(try event(client) == ":\n\n") }
        // Never earlier than an interval after the sign before it, to which the kernel's clock is true within some milliseconds.
        #expect(fixture.perform { loop, _ in loop.now.since(start) } > .milliseconds(2200))
        #expect(fixture.perform { loop, _ in loop.isOpen(id) && loop.now.since(loop.lastInbound(id)) < .seconds(5) })
        #expect(fixture.counters.pongTimeouts == 0)
    }

    @Test("a stream that is spoken to gets no comments")
    func busy() throws {
        var limits = NetLimits()
        limits.ping = .milliseconds(400)
        limits.pong = .milliseconds(300)
        let fixture = try fixture(limits)
        for _ in 0..<20 {
            let (client, id) = try open(fixture)
            var last = fixture.perform { loop, _ in loop.now }
            var longest = Span.zero
            for number in 0..<100 {
                let now = fixture.perform { loop, _ in
                    Self.send(loop, "\(number)", to: id, as: .publication)
                    return loop.now
                }
                longest = max(longest, now.since(last))
                last = now
                StallClock.pass(milliseconds: 12)
            }
            var comments = 0
            while case let text = try event(client), text != "data: 99\n\n" { comments += text == ":\n\n" ? 1 : 0 }
            // Where the machine stood still for half an interval, a comment would be right.
            if longest < .milliseconds(200) {
                #expect(comments == 0)
                return
            }
        }
        // On a machine that is that slow nothing can be said.
    }

    @Test("a peer that acknowledges nothing is found within ping and pong; those beside it live on")
    func silent() throws {
        var limits = NetLimits()
        limits.ping = .milliseconds(1600)
        limits.pong = .milliseconds(1500)
        let fixture = try fixture(limits)
        let (gone, _) = try open(fixture)
        let (other, living) = try open(fixture)
        // Its kernel drops what comes: a socket filter that takes nothing.
        var takeNothing = sock_filter(code: 0x06, jt: 0, jf: 0, k: 0)
        withUnsafeMutablePointer(to: &takeNothing) { filter in
            var program = sock_fprog(len: 1, filter: filter)
            let result = setsockopt(gone.descriptor, SOL_SOCKET, 26, &program, socklen_t(MemoryLayout<sock_fprog>.size))
            #expect(result == 0)
        }
        guard case .silent(let lastHeard, let reason)? = fixture.ends.wait(for: 1).first else {
            Issue.record("it ended otherwise: \(fixture.ends.all)")
            return
        }
        #expect(reason == "silent: no sign of life within 1500ms")
        let now = fixture.perform { loop, _ in loop.now }
        #expect(now.since(lastHeard) >= limits.ping + limits.pong)
        #expect(fixture.counters.pongTimeouts == 1)
        #expect(fixture.perform { loop, _ in loop.isOpen(living) })
        withExtendedLifetime(other) {}
    }

    /// Layout of linux/filter.h, which Swift's Glibc hides.
    private struct sock_filter {
        var code: UInt16
        var jt: UInt8
        var jf: UInt8
        var k: UInt32
    }
    private struct sock_fprog {
        var len: UInt16
        var filter: UnsafeMutablePointer<sock_filter>
    }

    // MARK: Slow readers

    private static func fill(_ fixture: LoopFixture, _ id: ConnectionID) -> Int {
        var sent = 0
        while fixture.perform({ loop, _ in loop.queuedBytes(id) }) == 0 {
            fixture.perform { [sent] loop, _ in Self.send(loop, "fill \(sent)\n", count: 60_000, to: id, as: .publication) }
            sent += 1
        }
        return sent
    }

    @Test("a stream's full queue loses typing and out-of-date values, whole events only; every publication arrives in order")
    func thinning() throws {
        var limits = NetLimits()
        limits.outboundBytes = 512 * 1024
        let told = Watch<DroppedFrames>()
        let fixture = try fixture(limits) { handler in handler.onDrained = { _, dropped in told.note(dropped) } }
        let (client, id) = try open(fixture, receiveBuffer: 4096)
        fixture.perform { loop, _ in loop.follow(1, on: id) }
        let filled = Self.fill(fixture, id)
        for number in 0..<300 {
            fixture.perform { loop, _ in
                let typing = loop.makeFrame(.text) {
                    $0.append([UInt8]("typing \(number)\n\n\r".utf8) + [UInt8](repeating: 0x20, count: 2000))
                }
                loop.send(typing, to: id, as: .typing)
                Self.send(loop, "read \(number)", count: 500, to: id, as: .read, key: 1)
                if number % 10 == 0 {
                    let chat = loop.makeFrame(.text) { $0.append([UInt8]("chat \(number)\n".utf8) + [UInt8](repeating: 0x20, count: 1000)) }
                    loop.label(chat, topic: 1) { $0.append(decimal: UInt64(number)) }
                    loop.send(chat, to: id, as: .publication)
                }
                #expect(loop.queuedBytes(id) <= 512 * 1024)
            }
        }
        fixture.perform { loop, _ in Self.send(loop, "end", to: id, as: .publication) }
        for number in 0..<filled { #expect(try event(client).hasPrefix("data: fill \(number)\ndata: ")) }
        var chats: [String] = []
        var typing = 0
        var lastRead = -1
        while true {
            let text = try event(client)
            if text.hasPrefix("data: end") { break }
            if text.hasPrefix("data: typing ") {
                typing += 1
            } else if text.hasPrefix("data: read ") {
                let number = Int(text.split(separator: " ")[2])!
                #expect(number > lastRead)
                lastRead = number
            } else {
                chats.append(String(text.split(separator: "\n")[0]))
                #expect(text.contains("\ndata: chat "))
            }
        }
        #expect(chats == (0..<30).map { "id: \($0 * 10)" })
        #expect(lastRead == 299 && typing < 300)
        #expect(told.wait { $0.reduce(0) { $0 + $1.typing } == 300 - UInt64(typing) }.isEmpty == false)
        #expect(fixture.counters.closedTooSlow == 0)
    }

    @Test("past its limit a stream is closed with 4008 behind whole events, and reported")
    func tooSlow() throws {
        var limits = NetLimits()
        limits.outboundBytes = 128 * 1024
        let fixture = try fixture(limits)
        let (client, id) = try open(fixture, receiveBuffer: 4096)
        _ = Self.fill(fixture, id)
        var sent = 0
        while fixture.perform({ loop, _ in loop.isOpen(id) }) {
            fixture.perform { [sent] loop, _ in
                Self.send(loop, "more \(sent)", count: 20_000, to: id, as: .publication)
            }
            sent += 1
        }
        #expect(fixture.ends.wait(for: 1) == [.us(code: 4008)])
        #expect(fixture.counters.closedTooSlow == 1 && fixture.counters.framesDropped > 0)
        #expect(fixture.perform { loop, _ in loop.queuedBytes(id) } <= 128 * 1024)
        var last = ""
        while true {
            let text = try event(client)
            if text.hasPrefix("event: close") {
                last = text
                break
            }
            #expect(text.hasPrefix("data: fill ") || text.hasPrefix("data: more "))
        }
        #expect(last == "event: close\ndata: {\"code\":4008,\"reason\":\"too slow: the outbound queue is full\"}\n\n")
        #expect(client.readEnd() == .endOfStream)
        client.finishSending()
        #expect(fixture.eventually { $0.connectionCount == 0 })
    }

    @Test("streams over TLS: large events arrive whole, and the end is told")
    func secure() throws {
        let fixture = try LoopFixture(tls: try TLSTests.context()) { handler in
            handler.onRequest = { _, _ in .stream(retry: .milliseconds(1500)) }
        }
        let client = RawClient(port: fixture.port)
        try client.secure()
        client.send(Self.get)
        _ = try client.readHead()
        #expect(try event(client) == "retry: 1500\n\n")
        let id = fixture.opens.wait(for: 1)[0]
        let text = String(repeating: "0123456789\n", count: 20_000)
        fixture.perform { loop, _ in
            Self.send(loop, text, to: id, as: .publication)
            loop.close(id, code: 1000, reason: "")
        }
        let wanted = "data: " + text.dropLast().split(separator: "\n").joined(separator: "\ndata: ") + "\ndata: \n\n"
        #expect(String(decoding: try client.read(wanted.utf8.count), as: UTF8.self) == wanted)
        #expect(try event(client).hasPrefix("id: close.1000\n"))
    }
}
