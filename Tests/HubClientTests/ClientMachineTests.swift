import HubBase
import HubClient
import HubWire
import Testing

@Suite("The client machine: connection")
struct ClientMachineTests {
    @Test("connects, is welcomed, and says where it is")
    func opens() {
        var driven = Driven()
        #expect(driven.machine.state == .idle)
        #expect(driven.machine.deadline == nil)
        driven.machine.start(now: driven.now)
        #expect(driven.machine.state == .connecting(until: driven.now + .seconds(10)))
        driven.machine.transportOpened(now: driven.now)
        #expect(driven.machine.state == .greeting(until: driven.now + .seconds(10)))
        guard case .welcome(let welcome) = driven.receive(Driven.welcome) else { Issue.record("no welcome"); return }
        #expect(welcome.node == "n1" && welcome.user == "alice" && welcome.connection == "n1.7" && welcome.ping == .seconds(20))
        #expect(driven.machine.state == .open(since: driven.now))
        #expect(driven.machine.node == "n1")
    }

    @Test("a token goes in a connect envelope before the welcome, once a connection, where headers can't carry it")
    func connectEnvelope() {
        var options = ClientMachine.Options()
        options.connectsByEnvelope = true
        var driven = Driven(options)
        driven.machine.subscribe("room:1")
        driven.machine.start(now: driven.now)
        #expect(driven.requests() == [])
        driven.machine.transportOpened(now: driven.now)
        #expect(driven.requests() == [.connect(id: 1)])
        driven.receive(Driven.welcome)
        #expect(driven.requests() == [.subscribe(id: 2, "room:1", position: nil)])
        _ = driven.end(.failed("reset"))
        driven.comeBack()
        #expect(driven.requests().contains(.subscribe(id: 3, "room:1", position: nil)))
    }

    @Test("each phase has a deadline", arguments: [0, 1, 2])
    func deadlines(_ phase: Int) {
        var driven = phase == 2 ? Driven.open() : Driven()
        if phase < 2 { driven.machine.start(now: driven.now) }
        if phase == 1 { driven.machine.transportOpened(now: driven.now) }
        if phase == 2 { #expect(driven.machine.stop(now: driven.now) == .close) }
        guard let deadline = driven.machine.deadline else { Issue.record("no deadline"); return }
        let early = Instant(nanoseconds: deadline.nanoseconds - 1)
        #expect(driven.machine.deadlinePassed(now: early) == .nothing)
        let ends: [TransportEnd] = [
            .failed("no connection within 10s"), .unwelcomed(after: .seconds(10)), .failed("no answer to our close within 5s"),
        ]
        guard driven.machine.deadlinePassed(now: deadline) == .abort(ends[phase]) else { Issue.record("not aborted"); return }
    }

    @Test(
        "an end leads to waiting, to a new token, or to the end of it",
        arguments: [
            (.closed(code: 4001, reason: ""), .finished(.tokenInvalid)),
            (.closed(code: 4003, reason: ""), .finished(.disconnected)),
            (.refused(status: 403, retryAfter: nil), .finished(.refused(status: 403))),
            (.closed(code: 4002, reason: ""), .fetchToken),
            (.refused(status: 401, retryAfter: nil), .fetchToken),
        ] as [(TransportEnd, ClientMachine.AfterEnd)])
    func ends(_ end: TransportEnd, _ after: ClientMachine.AfterEnd) {
        var driven = Driven.open()
        #expect(driven.end(end) == after)
        #expect(driven.machine.deadline == nil)
    }

    @Test("after the wait it connects, not earlier, and says meanwhile why it waits")
    func waits() {
        var driven = Driven.open()
        let end = TransportEnd.closed(code: 1013, reason: "5000")
        guard case .wait(let delay) = driven.end(end) else { Issue.record("no wait"); return }
        #expect(delay >= .seconds(5))
        #expect(driven.machine.state == .waiting(until: driven.now + delay, .init(end: end, failures: 1)))
        #expect(driven.machine.deadlinePassed(now: driven.now + .seconds(4)) == .nothing)
        #expect(driven.machine.deadlinePassed(now: driven.now + delay) == .connect)
    }

    @Test("failures in a row widen the window; only a connection that held for a while ends the row")
    func failures() {
        var driven = Driven.open()
        for expected in 1...5 {
            _ = driven.end(.failed("reset"))
            guard case .waiting(_, let reason) = driven.machine.state else { Issue.record("not waiting"); return }
            #expect(reason.failures == expected)
            driven.comeBack()
        }
        driven.milliseconds += 10_000
        _ = driven.end(.failed("reset"))
        guard case .waiting(_, let reason) = driven.machine.state else { Issue.record("not waiting"); return }
        #expect(reason.failures == 1)
    }

    @Test("a new token that fails as well is the end; one that worked isn't held against the next")
    func tokens() {
        var driven = Driven.open()
        #expect(driven.end(.closed(code: 4002, reason: "")) == .fetchToken)
        driven.machine.tokenRenewed(now: driven.now)
        driven.machine.transportOpened(now: driven.now)
        driven.receive(Driven.welcome)
        #expect(driven.end(.closed(code: 4002, reason: "")) == .fetchToken)
        driven.machine.tokenRenewed(now: driven.now)
        #expect(driven.end(.refused(status: 401, retryAfter: nil)) == .finished(.tokenInvalid))

        var other = Driven.open()
        _ = other.end(.closed(code: 4002, reason: ""))
        other.machine.tokenUnavailable()
        #expect(other.machine.state == .closed(.noToken))
    }

    @Test("a drain's return time counts when the close says none")
    func drain() {
        var driven = Driven.open()
        driven.receive(#"{"type":"system","event":"drain","returnAfter":7000}"#)
        guard case .wait(let delay) = driven.end(.closed(code: 1012, reason: "")) else { Issue.record("no wait"); return }
        #expect(delay >= .seconds(7) && delay < .seconds(8))
        driven.comeBack()
        guard case .wait(let next) = driven.end(.closed(code: 1012, reason: "")) else { Issue.record("no wait"); return }
        #expect(next < .seconds(4), "the hint is used once")
    }

    @Test("stopping: a close while open, an abort while connecting, nothing else later")
    func stops() {
        var driven = Driven.open()
        #expect(driven.machine.stop(now: driven.now) == .close)
        #expect(driven.machine.stop(now: driven.now) == .nothing)
        #expect(driven.end(.closed(code: 1000, reason: "")) == .finished(.asked))

        var connecting = Driven()
        connecting.machine.start(now: connecting.now)
        #expect(connecting.machine.stop(now: connecting.now) == .abort)
        #expect(connecting.end(.failed("dropped")) == .finished(.asked))

        var waiting = Driven.open()
        _ = waiting.end(.failed("reset"))
        #expect(waiting.machine.stop(now: waiting.now) == .nothing)
        #expect(waiting.machine.state == .closed(.asked))
        #expect(waiting.machine.deadline == nil)
    }

    @Test("who stopped may come back, and asks for what it follows from where it stood; nobody else may")
    func restarts() {
        var driven = Driven.open()
        driven.machine.subscribe("room:1")
        _ = driven.requests()
        driven.receive(#"{"type":"ack","id":1,"channel":"room:1","offset":7,"position":"abcdefgh.7.aaaaaaaa"}"#)
        driven.machine.restart(now: driven.now)
        if case .open = driven.machine.state {} else { Issue.record("restarted while open") }
        _ = driven.machine.stop(now: driven.now)
        _ = driven.end(.closed(code: 1000, reason: ""))
        driven.machine.restart(now: driven.now)
        driven.machine.transportOpened(now: driven.now)
        driven.receive(Driven.welcome)
        #expect(driven.requests() == [.subscribe(id: 2, "room:1", position: Position("abcdefgh.7.aaaaaaaa"))])

        var refused = Driven.open()
        _ = refused.end(.closed(code: 4003, reason: ""))
        refused.machine.restart(now: refused.now)
        #expect(refused.machine.state == .closed(.disconnected))
    }
}
