import HubBase
import HubCore
import HubWire

/// Writes down what a broker tells, in order.
final class BrokerRecorder: BrokerDelegate {
    enum Event: Equatable {
        case published(Result<PublishResult, WireError>, RequestTag)
        case readMoved(Result<UInt64, WireError>, RequestTag)
        case subscribed(Name, Result<Position, WireError>, RequestTag)
        case probed(isFine: Bool, RequestTag)
        case durable(PositionedPublication, Name)
        case ephemeral(Publication, Name)
        case resync(Name, Position, ResyncReason)
        case health(BackendHealth)
    }

    private(set) var events: [Event] = []
    /// Set while a call of the broker runs: nothing may be told then.
    var isInsideCall = false
    private(set) var toldInsideCall = 0

    private func note(_ event: Event) {
        if isInsideCall { toldInsideCall += 1 }
        events.append(event)
    }

    func published(_ result: Result<PublishResult, WireError>, tag: RequestTag) { note(.published(result, tag)) }
    func readMoved(_ result: Result<UInt64, WireError>, tag: RequestTag) { note(.readMoved(result, tag)) }
    func subscribed(_ channel: Name, _ result: Result<Position, WireError>, tag: RequestTag) { note(.subscribed(channel, result, tag)) }
    func probed(_ result: Result<Void, WireError>, tag: RequestTag) {
        if case .success = result { note(.probed(isFine: true, tag)) } else { note(.probed(isFine: false, tag)) }
    }
    func received(_ publication: PositionedPublication, channel: Name) { note(.durable(publication, channel)) }
    func received(_ publication: Publication, channel: Name) { note(.ephemeral(publication, channel)) }
    func resync(_ channel: Name, to position: Position, reason: ResyncReason) { note(.resync(channel, position, reason)) }
    func brokerHealth(_ health: BackendHealth) { note(.health(health)) }

    // What the checks ask.

    func answer(_ tag: RequestTag) -> Result<PublishResult, WireError>? {
        for case .published(let result, tag) in events { return result }
        return nil
    }
    func read(_ tag: RequestTag) -> UInt64? {
        for case .readMoved(.success(let offset), tag) in events { return offset }
        return nil
    }
    func subscription(_ tag: RequestTag) -> Position? {
        for case .subscribed(_, .success(let position), tag) in events { return position }
        return nil
    }
    func durable(in channel: Name) -> [PositionedPublication] {
        events.compactMap { if case .durable(let publication, channel) = $0 { publication } else { nil } }
    }
    func ephemeral(in channel: Name) -> [Publication] {
        events.compactMap { if case .ephemeral(let publication, channel) = $0 { publication } else { nil } }
    }
    func resyncs(of channel: Name) -> Int {
        events.reduce(0) { count, event in if case .resync(channel, _, _) = event { count + 1 } else { count } }
    }
    func place(where matches: (Event) -> Bool) -> Int? { events.firstIndex(where: matches) }
}

/// One node of a check: its broker, what it told, and calls that make their own tags.
final class BrokerNode {
    let broker: any Broker
    let recorder = BrokerRecorder()
    private let fixture: any BrokerFixture
    private var lastTag: UInt64 = 0

    init(_ fixture: any BrokerFixture) {
        self.fixture = fixture
        broker = fixture.makeNode()
        broker.delegate = recorder
        broker.start(at: fixture.now)
    }

    /// Two nodes of one backend where there can be two, else the same one twice.
    static func pair(_ fixture: any BrokerFixture) -> (BrokerNode, BrokerNode) {
        let first = BrokerNode(fixture)
        let second = fixture.nodeLimit > 1 ? BrokerNode(fixture) : first
        _ = fixture.run {
            first.recorder.events.contains(.health(.up)) && second.recorder.events.contains(.health(.up))
        }
        return (first, second)
    }

    private func call(_ body: (RequestTag) -> Void) -> RequestTag {
        lastTag += 1
        let tag = RequestTag(high: 7, low: lastTag)
        recorder.isInsideCall = true
        body(tag)
        recorder.isInsideCall = false
        return tag
    }

    func publish(_ publication: Publication, to channel: Name) -> RequestTag {
        call { broker.publish(publication, to: channel, tag: $0, at: fixture.now) }
    }
    func subscribe(_ channel: Name) -> RequestTag {
        call { broker.subscribe(channel, tag: $0, at: fixture.now) }
    }
    func markRead(_ publication: Publication, offset: UInt64, in channel: Name) -> RequestTag {
        call { broker.markRead(publication, offset: offset, in: channel, tag: $0, at: fixture.now) }
    }
    func broadcast(_ publication: Publication, to channel: Name) {
        _ = call { _ in broker.broadcast(publication, to: channel, at: fixture.now) }
    }
    func probe() -> RequestTag {
        call { broker.probe(tag: $0, at: fixture.now) }
    }

    /// Publishes and waits for the answer; nil when none came.
    func published(_ publication: Publication, to channel: Name) -> Result<PublishResult, WireError>? {
        let tag = publish(publication, to: channel)
        _ = fixture.run { recorder.answer(tag) != nil }
        return recorder.answer(tag)
    }

    /// Subscribes and waits for the answer.
    func subscribed(_ channel: Name) -> Position? {
        let tag = subscribe(channel)
        _ = fixture.run { recorder.subscription(tag) != nil }
        return recorder.subscription(tag)
    }
}

extension Publication {
    static func chat(_ text: String, id: String, from user: Name = "alice") -> Publication {
        Publication(
            messageClass: .chat, user: user, device: "phone", messageId: Name(trusted: [UInt8](id.utf8)), time: 1_700_000_000_000,
            payload: [UInt8]("{\"text\":\"\(text)\"}".utf8))
    }

    static func typing(from user: Name = "alice") -> Publication {
        Publication(
            messageClass: .typing, user: user, device: "phone", messageId: .empty, time: 1_700_000_000_000,
            payload: [UInt8]("{\"isTyping\":true}".utf8))
    }

    static func read(_ offset: UInt64, from user: Name = "alice") -> Publication {
        Publication(
            messageClass: .read, user: user, device: "phone", messageId: .empty, time: 1_700_000_000_000,
            payload: [UInt8]("{\"offset\":\(offset)}".utf8))
    }
}
