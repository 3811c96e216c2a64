import HubBase
import HubNet
import Testing

@Suite struct LoopTests {
    @Test("a wake makes woken be called, from another thread and from the loop's own")
    func wakes() throws {
        let woken = Watch<Int>()
        let fixture = try LoopFixture { handler in
            var count = 0
            let loop = handler.loop
            handler.onWoken = {
                count += 1
                woken.note(count)
                // From its own thread, within woken: it must lead to another turn.
                if count < 5 { loop.wake() }
            }
        }
        _ = fixture.perform { _, _ in 0 }
        #expect(woken.wait(for: 5).count >= 5)
    }

    @Test("no message is lost between a post and its wake: 4 threads, 20,000 messages")
    func noLostWake() throws {
        let mailbox = Mailbox<Int>()
        let seen = Watch<Int>()
        let fixture = try LoopFixture { handler in
            var batch: [Int] = []
            var sum = 0
            handler.onWoken = {
                mailbox.take(into: &batch)
                sum += batch.count
                batch.removeAll(keepingCapacity: true)
                seen.note(sum)
            }
        }
        let signal = fixture.perform { loop, _ in loop.signal }
        var threads: [LoopThread] = []
        for _ in 0..<4 {
            threads.append(
                try LoopThread(name: "poster") {
                    for number in 0..<5000 {
                        mailbox.post(number)
                        signal.wake()
                    }
                })
        }
        for thread in threads { thread.join() }
        #expect(seen.wait { $0.last == 20_000 }.last == 20_000)
    }

    @Test("timers fire in the order of their deadlines, a cancelled one doesn't")
    func timers() throws {
        let fired = Watch<UInt64>()
        let fixture = try LoopFixture { handler in handler.onTimer = { _, value in fired.note(value) } }
        fixture.perform { loop, _ in
            _ = loop.schedule(after: .milliseconds(90), kind: 1, value: 3)
            _ = loop.schedule(after: .milliseconds(20), kind: 1, value: 1)
            let cancelled = loop.schedule(after: .milliseconds(40), kind: 1, value: 66)
            _ = loop.schedule(after: .milliseconds(60), kind: 1, value: 2)
            loop.cancel(cancelled)
        }
        #expect(fired.wait(for: 3) == [1, 2, 3])
    }

    @Test("a tick makes turns end although nothing happens")
    func tick() throws {
        let turns = Watch<Int>()
        let fixture = try LoopFixture(tick: .milliseconds(5)) { handler in handler.onTurnEnding = { turns.note(1) } }
        #expect(turns.wait(for: 5).count >= 5)
        fixture.stop()
    }

    @Test("stop ends run, closes the sockets and tells each open connection's end once")
    func stops() throws {
        let fixture = try LoopFixture()
        let (client, _) = try fixture.join()
        let (other, _) = try fixture.join()
        fixture.stop()
        #expect(fixture.ends.all == [.lost("the loop has stopped"), .lost("the loop has stopped")])
        #expect(client.readEnd() != .deadline)
        #expect(other.readEnd() != .deadline)
    }
}
