import HubBase
import HubClient
import HubWire
import Testing

@Suite("The client machine: subscriptions and positions")
struct SubscriptionTests {
    private static func chat(_ position: String) -> String {
        #"{"type":"chat","channel":"room:1","user":"bob","time":1,"messageId":"m","offset":0,"position":"\#(position)","payload":{}}"#
    }

    private static func subscribed(at position: String) -> Driven {
        var driven = Driven.open()
        driven.machine.subscribe("room:1")
        _ = driven.requests()
        driven.receive(#"{"type":"ack","id":1,"channel":"room:1","offset":0,"position":"\#(position)"}"#)
        return driven
    }

    private static func order(_ received: ClientMachine.Received) -> Subscription.Order? {
        guard case .publication(_, subscription: 0, let order) = received else { return nil }
        return order
    }

    @Test("a wish is asked for once, and again with the last position on the next connection")
    func resubscribes() {
        var driven = Driven()
        driven.machine.subscribe("room:1")
        driven.machine.subscribe("room:1")
        driven.machine.start(now: driven.now)
        driven.machine.transportOpened(now: driven.now)
        #expect(driven.requests() == [])
        driven.receive(Driven.welcome)
        #expect(driven.requests() == [.subscribe(id: 1, "room:1", position: nil)])
        #expect(driven.machine.followed[0].state == .asked(request: 1))
        driven.receive(#"{"type":"ack","id":1,"channel":"room:1","offset":7,"position":"abcdefgh.7.ijklmnop"}"#)
        #expect(driven.machine.followed[0].state == .active)
        driven.receive(Self.chat("abcdefgh.8.qrstuvwx"))
        #expect(driven.requests() == [])
        _ = driven.end(.closed(code: 4008, reason: ""))
        #expect(driven.requests() == [])
        driven.comeBack()
        #expect(driven.requests() == [.subscribe(id: 2, "room:1", position: Position("abcdefgh.8.qrstuvwx"))])
    }

    @Test("an application's own position is where the first subscription recovers from")
    func saved() {
        var driven = Driven.open()
        driven.machine.subscribe("room:1", from: Position("abcdefgh.3.ijklmnop"))
        #expect(driven.requests() == [.subscribe(id: 1, "room:1", position: Position("abcdefgh.3.ijklmnop"))])
    }

    @Test(
        "a publication is the next, a repeat, behind a gap, or of another epoch",
        arguments: [
            ("abcdefgh.7.aaaaaaaa", "abcdefgh.8.bbbbbbbb", Subscription.Order.next),
            ("abcdefgh.7.aaaaaaaa", "abcdefgh.7.aaaaaaaa", .again),
            ("abcdefgh.7.aaaaaaaa", "abcdefgh.3.cccccccc", .again),
            ("abcdefgh.7.aaaaaaaa", "abcdefgh.10.bbbbbbbb", .gap(2)),
            ("abcdefgh.7.aaaaaaaa", "hgfedcba.1.bbbbbbbb", .otherEpoch),
            (".0.", "hgfedcba.1.bbbbbbbb", .next),
            (".0.", "hgfedcba.3.bbbbbbbb", .gap(2)),
        ])
    func order(_ last: String, _ next: String, _ order: Subscription.Order) {
        var driven = Self.subscribed(at: last)
        #expect(Self.order(driven.receive(Self.chat(next))) == order)
        let kept = order == .again ? last : next
        #expect(driven.machine.followed[0].position == Position(kept))
    }

    @Test("typing has no position and changes none")
    func typing() {
        var driven = Self.subscribed(at: "abcdefgh.7.aaaaaaaa")
        let received = driven.receive(#"{"type":"typing","channel":"room:1","user":"bob","time":1,"payload":{"isTyping":true}}"#)
        #expect(Self.order(received) == .unknown)
        #expect(driven.machine.followed[0].position == Position("abcdefgh.7.aaaaaaaa"))
    }

    @Test("a channel name with escapes is found, RFC 8259 §7")
    func escapes() {
        var driven = Driven.open()
        driven.machine.subscribe("a\"b")
        _ = driven.requests()
        driven.receive(#"{"type":"ack","id":1,"channel":"a\"b","offset":0,"position":".0.aaaaaaaa"}"#)
        let text = #"{"type":"chat","channel":"\u0061\"b","user":"bob","time":1,"offset":1,"position":"abcdefgh.1.aaaaaaaa","payload":{}}"#
        #expect(Self.order(driven.receive(text)) != nil)
    }

    @Test("a publication of a channel that the hub itself subscribed us to is delivered all the same")
    func inbox() {
        var driven = Driven.open()
        guard case .publication(_, subscription: nil, .unknown) = driven.receive(Self.chat("abcdefgh.1.aaaaaaaa")) else {
            Issue.record("not delivered")
            return
        }
    }

    @Test(
        "a refusal that may pass is asked again after the named time, a final one isn't",
        arguments: [
            (#""code":"unavailable","message":"","retry":true,"retryAfter":5000"#, 5000),
            (#""code":"overloaded","message":"","retry":true"#, 2000),
            (#""code":"forbidden","message":"","retry":false"#, nil),
        ] as [(String, UInt64?)])
    func refusals(_ fields: String, _ after: UInt64?) {
        var driven = Driven.open()
        driven.machine.subscribe("room:1")
        _ = driven.requests()
        driven.receive(#"{"type":"error","id":1,\#(fields)}"#)
        #expect(driven.requests() == [])
        guard let after else {
            #expect(driven.machine.followed.isEmpty)
            #expect(driven.machine.deadline == nil)
            return
        }
        #expect(driven.machine.deadline == driven.now + .milliseconds(after))
        driven.milliseconds += after
        #expect(driven.requests() == [.subscribe(id: 2, "room:1", position: nil)])
    }

    @Test("a subscription whose answer never comes is asked for again")
    func unanswered() {
        var driven = Driven.open()
        driven.machine.subscribe("room:1")
        _ = driven.requests()
        driven.milliseconds += 10_000
        #expect(driven.machine.nextTimedOut(now: driven.now)?.kind == .subscribe)
        #expect(driven.requests() == [.subscribe(id: 2, "room:1", position: nil)])
    }

    @Test("unsubscribe is said only for what was asked for, and undone by a new wish")
    func unsubscribe() {
        var driven = Driven.open()
        driven.machine.subscribe("room:1")
        driven.machine.unsubscribe("room:1")
        #expect(driven.requests() == [])
        driven.machine.subscribe("room:1")
        _ = driven.requests()
        driven.machine.unsubscribe("room:1")
        driven.machine.unsubscribe("room:2")
        #expect(driven.requests() == [.unsubscribe(id: 2, "room:1")])
        driven.machine.subscribe("room:1")
        #expect(driven.requests() == [.subscribe(id: 3, "room:1", position: nil)])
    }

    @Test("resync moves the position to where the hub says; unsubscribed takes the wish away")
    func system() {
        var driven = Self.subscribed(at: "abcdefgh.7.aaaaaaaa")
        let resync = #"{"type":"system","event":"resync","channel":"room:1","position":"hgfedcba.2.bbbbbbbb","reason":"trimmed"}"#
        guard case .resync(_, subscription: 0) = driven.receive(resync) else { Issue.record("no resync"); return }
        #expect(driven.machine.followed[0].position == Position("hgfedcba.2.bbbbbbbb"))
        let gone = #"{"type":"system","event":"unsubscribed","channel":"room:1","code":"forbidden"}"#
        guard case .unsubscribed(_, let subscription) = driven.receive(gone) else { Issue.record("not unsubscribed"); return }
        #expect(subscription.channel == "room:1")
        #expect(driven.machine.followed.isEmpty)
    }
}
