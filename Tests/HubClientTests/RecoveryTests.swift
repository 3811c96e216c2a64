import HubBase
import HubClient
import HubWire
import Testing

@Suite("The client machine: what it missed, and what it sends again")
struct RecoveryTests {
    private static func chat(_ offset: Int) -> String {
        #"{"type":"chat","channel":"room:1","user":"bob","time":1,"messageId":"m\#(offset)","offset":\#(offset),"position":"abcdefgh.\#(offset).aaaaaaaa","payload":\#(offset)}"#
    }

    private static func position(_ offset: Int) -> Position { Position("abcdefgh.\(offset).aaaaaaaa") }

    /// Subscribed at 7, and back after a lost connection.
    private static func back() -> Driven {
        var driven = Driven.open()
        driven.machine.subscribe("room:1")
        _ = driven.requests()
        driven.receive(#"{"type":"ack","id":1,"channel":"room:1","offset":7,"position":"abcdefgh.7.aaaaaaaa"}"#)
        _ = driven.end(.failed("gone"))
        driven.comeBack()
        return driven
    }

    private static func isIgnored(_ received: ClientMachine.Received) -> Bool { if case .ignored = received { true } else { false } }

    private static func missed(_ driven: inout Driven, _ message: String) -> [(UInt64?, Subscription.Order)] {
        driven.receive(message)
        return driven.machine.takeMissed().map { missed in
            guard case .missed(let envelope, let order) = missed.received else { return (nil, .unknown) }
            return (envelope.offset, order)
        }
    }

    @Test("what came in the ack is handed out before it, in order, and the position goes along")
    func page() {
        var driven = Self.back()
        #expect(driven.requests() == [.subscribe(id: 2, "room:1", position: Self.position(7))])
        let missed = Self.missed(
            &driven,
            #"{"type":"ack","id":2,"channel":"room:1","offset":9,"position":"abcdefgh.9.aaaaaaaa","recovered":true,"publications":[\#(Self.chat(8)),\#(Self.chat(9))]}"#
        )
        #expect(missed.map(\.0) == [8, 9] && missed.map(\.1) == [.next, .next])
        #expect(driven.machine.takeMissed().isEmpty)
        #expect(driven.machine.followed[0].state == .active && driven.machine.followed[0].position == Self.position(9))
    }

    @Test("more than a page is asked for by history until there is no more")
    func pages() {
        var driven = Self.back()
        _ = driven.requests()
        let first = Self.missed(
            &driven,
            #"{"type":"ack","id":2,"channel":"room:1","offset":8,"position":"abcdefgh.8.aaaaaaaa","recovered":true,"publications":[\#(Self.chat(8))],"more":true}"#
        )
        #expect(first.count == 1)
        #expect(driven.requests() == [.history(id: 3, "room:1", since: Self.position(8))])
        #expect(driven.requests() == [])
        let second = Self.missed(
            &driven,
            #"{"type":"ack","id":3,"channel":"room:1","offset":9,"position":"abcdefgh.9.aaaaaaaa","recovered":true,"publications":[\#(Self.chat(9))]}"#
        )
        #expect(second.map(\.0) == [9])
        #expect(driven.machine.followed[0].state == .active)
        #expect(driven.requests() == [])
    }

    @Test("a page that is refused for now is begun again by a subscribe from where it stood")
    func refused() {
        var driven = Self.back()
        _ = driven.requests()
        _ = Self.missed(
            &driven,
            #"{"type":"ack","id":2,"channel":"room:1","offset":8,"position":"abcdefgh.8.aaaaaaaa","recovered":true,"publications":[\#(Self.chat(8))],"more":true}"#
        )
        _ = driven.requests()
        driven.receive(#"{"type":"error","id":3,"code":"unavailable","message":"later","retry":true,"retryAfter":500}"#)
        #expect(driven.requests() == [])
        driven.milliseconds += 501
        #expect(driven.requests() == [.subscribe(id: 4, "room:1", position: Self.position(8))])
    }

    @Test(
        "an answer that came too late isn't believed, nor what follows it live: the next one brings all of it, and nothing is passed over")
    func late() {
        var driven = Self.back()
        let first = driven.requests()
        guard case .subscribe(let id, _, let position) = first.first else {
            Issue.record("\(first)")
            return
        }
        driven.milliseconds += 10_001
        #expect(driven.machine.nextTimedOut(now: driven.now)?.id == id)
        driven.receive(
            #"{"type":"ack","id":\#(id),"channel":"room:1","offset":9,"position":"abcdefgh.9.aaaaaaaa","recovered":true,"publications":[]}"#
        )
        #expect(Self.isIgnored(driven.receive(Self.chat(10))) == true)
        #expect(driven.requests() == [.subscribe(id: id + 1, "room:1", position: position)])
        #expect(Self.isIgnored(driven.receive(Self.chat(11))) == true)
        #expect(driven.machine.followed[0].position == position)
    }

    @Test("what can't be recovered moves the position, and the application is told")
    func lost() {
        var driven = Self.back()
        _ = driven.requests()
        guard
            case .acknowledged(_, let envelope) = driven.receive(
                #"{"type":"ack","id":2,"channel":"room:1","offset":3,"position":"hgfedcba.3.bbbbbbbb","recovered":false,"reason":"epochChanged"}"#
            )
        else { return #expect(Bool(false)) }
        #expect(envelope.recovered == false)
        #expect(driven.machine.followed[0].position == Position("hgfedcba.3.bbbbbbbb"))
    }

    @Test("many channels are asked for at once after a reconnect, and each has its own answer")
    func many() {
        var driven = Driven.open()
        for channel: Name in ["a", "b", "c", "d"] { driven.machine.subscribe(channel, from: Self.position(1)) }
        let requests = driven.requests()
        #expect(
            requests == [
                .subscribeAll(id: 1, ["a", "b", "c", "d"].map { .init(channel: $0, position: Self.position(1)) })
            ])
        guard
            case .subscribed(_, let outcomes) = driven.receive(
                #"{"type":"ack","id":1,"channels":[{"channel":"a","offset":1,"position":"abcdefgh.1.aaaaaaaa","recovered":true},{"channel":"b","code":"forbidden","message":"no","retry":false},{"channel":"c","code":"unavailable","message":"later","retry":true},{"channel":"d","offset":2,"position":"abcdefgh.2.aaaaaaaa","recovered":true,"publications":[{"type":"chat","channel":"d","offset":2,"position":"abcdefgh.2.aaaaaaaa","time":1,"messageId":"m","payload":1}]}]}"#
            )
        else { return #expect(Bool(false)) }
        #expect(
            outcomes.map(\.channel) == ["a", "b", "c", "d"] && outcomes.map { $0.error?.code } == [nil, .forbidden, .unavailable, nil])
        #expect(driven.machine.takeMissed().count == 1)
        #expect(driven.machine.followed.map(\.channel) == ["a", "c", "d"])
        driven.milliseconds += 2_001
        #expect(driven.requests() == [.subscribe(id: 2, "c", position: Self.position(1))])
    }

    // MARK: The outbox

    private static let message = OutgoingMessage(channel: "room:1", messageId: "m1", payload: Array("1".utf8), context: 42)

    @Test("a message without an answer is sent again with the same id, its age and where the channel stood")
    func again() {
        var driven = Driven.open()
        driven.machine.subscribe("room:1")
        _ = driven.requests()
        driven.receive(#"{"type":"ack","id":1,"channel":"room:1","offset":7,"position":"abcdefgh.7.aaaaaaaa"}"#)
        #expect(driven.machine.publish(Self.message) == true)
        #expect(driven.requests() == [.publish(id: 2, Self.message, age: nil, since: nil)])
        driven.milliseconds += 1_500
        _ = driven.end(.failed("gone"))
        #expect(driven.machine.nextLost() == nil)
        driven.comeBack()
        let age = driven.milliseconds - 1_000
        #expect(
            driven.requests() == [
                .subscribe(id: 3, "room:1", position: Self.position(7)), .publish(id: 4, Self.message, age: age, since: Self.position(7)),
            ])
        guard
            case .acknowledged(let request, _) = driven.receive(
                #"{"type":"ack","id":4,"channel":"room:1","messageId":"m1","offset":8,"position":"abcdefgh.8.aaaaaaaa","duplicate":true}"#)
        else { return #expect(Bool(false)) }
        #expect(request.kind == .outbox && request.context == 42)
        #expect(driven.requests() == [])
    }

    @Test("a refusal that may change is waited out, and none of the channel overtakes it; one for good is told")
    func waits() {
        var driven = Driven.open()
        var second = Self.message
        second.messageId = "m2"
        _ = driven.machine.publish(Self.message)
        #expect(driven.requests().count == 1)
        driven.receive(#"{"type":"error","id":1,"code":"unavailable","message":"later","retry":true,"retryAfter":700}"#)
        _ = driven.machine.publish(second)
        #expect(driven.requests() == [])
        #expect(driven.machine.deadline != nil)
        driven.milliseconds += 701
        #expect(driven.requests().count == 2)
        guard
            case .refused(let request, _, let error) = driven.receive(
                #"{"type":"error","id":2,"code":"forbidden","message":"no","retry":false}"#)
        else { return #expect(Bool(false)) }
        #expect(request.kind == .outbox && error.code == .forbidden)
    }

    @Test("one that isn't answered in time is sent again on the same connection")
    func timesOut() {
        var driven = Driven.open()
        _ = driven.machine.publish(Self.message)
        _ = driven.requests()
        driven.milliseconds += 10_001
        #expect(driven.machine.nextTimedOut(now: driven.now)?.kind == .outbox)
        #expect(driven.requests() == [.publish(id: 2, Self.message, age: 10_001, since: nil)])
    }

    @Test("the outbox is bounded by count and by bytes")
    func bounded() {
        var options = ClientMachine.Options()
        options.outboxMax = 2
        var driven = Driven.open(options)
        #expect(driven.machine.publish(Self.message) == true)
        #expect(driven.machine.publish(Self.message) == true)
        #expect(driven.machine.publish(Self.message) == false)
        options.outboxBytesMax = 3
        var small = Driven.open(options)
        #expect(small.machine.publish(OutgoingMessage(channel: "c", messageId: "m", payload: Array("1234".utf8))) == false)
    }
}
