import HubBase
import HubCore
import HubWire

/// Writes down what a broker tells, in order.
final class BrokerRecorder: BrokerDelegate {
    enum Event: Equatable {
        case published(Result<PublishResult, WireError>, RequestTag)
        case readMoved(Result<UInt64, WireError>, RequestTag)
        case subscribed(Name, Result<Position, WireError>, RequestTag)
        case historyRead(Name, Result<HistoryPage, WireError>, RequestTag)
        case readMarks(Name, Result<[ReadMark], WireError>, RequestTag)
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
    func historyRead(_ channel: Name, _ result: Result<HistoryPage, WireError>, tag: RequestTag) {
        note(.historyRead(channel, result, tag))
    }
    func readMarks(_ channel: Name, _ result: Result<[ReadMark], WireError>, tag: RequestTag) { note(.readMarks(channel, result, tag)) }
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
    func readRefusal(_ tag: RequestTag) -> WireError? {
        for case .readMoved(.failure(let error), tag) in events { return error }
        return nil
    }
    func subscription(_ tag: RequestTag) -> Position? {
        for case .subscribed(_, .success(let position), tag) in events { return position }
        return nil
    }
    func page(_ tag: RequestTag) -> HistoryPage? {
        for case .historyRead(_, .success(let page), tag) in events { return page }
        return nil
    }
    func marks(_ tag: RequestTag) -> [ReadMark]? {
        for case .readMarks(_, .success(let marks), tag) in events { return marks }
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

    func publish(_ publication: Publication, to channel: Name, attempt: PublishAttempt? = nil) -> RequestTag {
        call { broker.publish(publication, to: channel, attempt: attempt, tag: $0, at: fixture.now) }
    }
    func readHistory(_ channel: Name, _ query: HistoryQuery) -> RequestTag {
        call { broker.readHistory(of: channel, query, tag: $0, at: fixture.now) }
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
    func published(
        _ publication: Publication, to channel: Name, attempt: PublishAttempt? = nil
    ) -> Result<PublishResult, WireError>? {
        let tag = publish(publication, to: channel, attempt: attempt)
        _ = fixture.run { recorder.answer(tag) != nil }
        return recorder.answer(tag)
    }

    /// Publishes `m1`, `m2`, … at times 1,000, 2,000, … and waits for the answers; their positions.
    @discardableResult
    func filled(_ channel: Name, _ numbers: ClosedRange<Int>, bytes: Int = 10) -> [Position] {
        let tags = numbers.map { number in
            var publication = Publication.chat(String(repeating: "x", count: bytes), id: "m\(number)")
            publication.time = UInt64(number) * 1_000
            return publish(publication, to: channel)
        }
        _ = fixture.run { tags.allSatisfy { recorder.answer($0) != nil } }
        return tags.compactMap { if case .success(let result)? = recorder.answer($0) { result.position } else { nil } }
    }

    /// Reads a page and waits for it; nil when it's refused or doesn't come.
    func page(_ channel: Name, _ query: HistoryQuery) -> HistoryPage? {
        let tag = readHistory(channel, query)
        _ = fixture.run { recorder.page(tag) != nil }
        return recorder.page(tag)
    }

    /// Where a channel stands; of one that has nothing, its origin.
    func tip(_ channel: Name) -> Position { page(channel, HistoryQuery(limit: 1))?.tip ?? .start }

    /// Reads marks and waits for them.
    func marks(_ channel: Name, of user: Name, limit: Int) -> [ReadMark]? {
        let tag = call { broker.readMarks(of: channel, user: user, limit: limit, tag: $0, at: fixture.now) }
        _ = fixture.run { recorder.marks(tag) != nil }
        return recorder.marks(tag)
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
