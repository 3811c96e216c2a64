import HubBase
import HubClient
import HubWire
import Testing

@Suite("The client machine: requests and answers")
struct ClientRequestTests {
    @Test("an answer goes to the request with its id, with the caller's own number")
    func answers() {
        var driven = Driven.open()
        let first = driven.machine.begin(.publish, context: 11, now: driven.now)
        let second = driven.machine.begin(.publish, context: 22, now: driven.now)
        #expect(first == 1 && second == 2)
        guard
            case .acknowledged(let request, let envelope) = driven.receive(
                #"{"type":"ack","id":2,"channel":"a:1","offset":5,"position":"abcdefgh.5.ijklmnop"}"#)
        else { Issue.record("no ack"); return }
        #expect(request.context == 22 && envelope.offset == 5)
        guard
            case .refused(let refused, _, let error) = driven.receive(
                #"{"type":"error","id":1,"code":"rateLimited","message":"slow \"down\"","retry":true,"retryAfter":9}"#)
        else { Issue.record("no refusal"); return }
        #expect(refused.context == 11)
        #expect(error == WireError(.rateLimited, #"slow "down""#, retryAfter: 9))
    }

    @Test(
        "what answers nothing of ours is no answer",
        arguments: [
            #"{"type":"ack","id":1}"#, #"{"type":"ack"}"#, #"{"type":"pong"}"#, #"{"type":"tomorrow","id":1}"#,
            #"{"type":"ack","id":18446744073709551615}"#,
        ])
    func strangers(_ text: String) {
        var driven = Driven.open()
        guard case .ignored = driven.receive(text) else { Issue.record("not ignored"); return }
    }

    @Test("a second answer to one request is ignored")
    func twice() {
        var driven = Driven.open()
        _ = driven.machine.begin(.other, now: driven.now)
        driven.receive(#"{"type":"ack","id":1}"#)
        guard case .ignored = driven.receive(#"{"type":"ack","id":1}"#) else { Issue.record("not ignored"); return }
    }

    @Test("what is no envelope is a violation", arguments: ["", "{", "[]", "{\"type\":1}", "{\"type\":\"ack\",\"id\":1"])
    func violations(_ text: String) {
        var driven = Driven.open()
        guard case .violation = driven.receive(text) else { Issue.record("taken"); return }
    }

    @Test("a request times out at its deadline, oldest first")
    func timeOut() {
        var driven = Driven.open()
        _ = driven.machine.begin(.publish, context: 1, now: driven.now)
        driven.milliseconds += 1
        _ = driven.machine.begin(.publish, context: 2, now: driven.now)
        let deadline = Instant(nanoseconds: 11_000_000_000)
        #expect(driven.machine.deadline == deadline)
        #expect(driven.machine.nextTimedOut(now: Instant(nanoseconds: deadline.nanoseconds - 1)) == nil)
        #expect(driven.machine.nextTimedOut(now: deadline)?.context == 1)
        #expect(driven.machine.nextTimedOut(now: deadline) == nil)
    }

    @Test("what was in flight at the end is handed out as lost, and its late answer on the next connection means nothing")
    func lost() {
        var driven = Driven.open()
        _ = driven.machine.begin(.publish, context: 1, now: driven.now)
        _ = driven.machine.begin(.publish, context: 2, now: driven.now)
        #expect(driven.machine.nextLost() == nil)
        _ = driven.end(.failed("reset"))
        #expect(driven.machine.nextLost()?.context == 1)
        #expect(driven.machine.nextLost()?.context == 2)
        #expect(driven.machine.nextLost() == nil)
        driven.comeBack()
        guard case .ignored = driven.receive(#"{"type":"ack","id":1}"#) else { Issue.record("not ignored"); return }
    }

    @Test("no request without an open connection, none above the limit")
    func limits() {
        var options = ClientMachine.Options()
        options.requestsMax = 2
        var closed = Driven(options)
        #expect(closed.machine.begin(.publish, now: closed.now) == nil)
        var driven = Driven.open(options)
        #expect(driven.machine.begin(.publish, now: driven.now) != nil)
        #expect(driven.machine.begin(.publish, now: driven.now) != nil)
        #expect(driven.machine.begin(.publish, now: driven.now) == nil)
        driven.machine.subscribe("room:1")
        #expect(driven.requests() == [])
        driven.receive(#"{"type":"ack","id":1}"#)
        #expect(driven.requests().count == 1)
    }

    @Test("a watch list goes out in pages, again on every connection; unwatch takes out")
    func watch() {
        var options = ClientMachine.Options()
        options.watchMax = 2
        var driven = Driven.open(options)
        driven.machine.watch(["a", "b", "c", "a"])
        #expect(driven.requests() == [.watch(id: 1, ["a", "b"]), .watch(id: 2, ["c"])])
        driven.machine.unwatch(["b", "z"])
        #expect(driven.requests() == [.unwatch(id: 3, ["b"])])
        driven.machine.watch(["c", "d"])
        #expect(driven.requests() == [.watch(id: 4, ["d"])])
        _ = driven.end(.failed("reset"))
        driven.comeBack()
        #expect(driven.requests() == [.watch(id: 5, ["a", "c"]), .watch(id: 6, ["d"])])
    }

    @Test("a status that was asked for is asked for again on every connection")
    func status() {
        var driven = Driven.open()
        #expect(driven.requests() == [])
        driven.machine.setStatus(.away)
        #expect(driven.requests() == [.presence(id: 1, .away)])
        _ = driven.end(.closed(code: 4011, reason: ""))
        driven.comeBack()
        #expect(driven.requests() == [.presence(id: 2, .away)])
    }
}
