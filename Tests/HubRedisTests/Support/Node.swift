import HubBase
import HubCore
import HubRedis
import HubWire

/// A node on a fixture's Redis: broker and store on one backend, as the gateway has them, and what they told.
final class Node: BrokerDelegate, PresenceStoreDelegate {
    let fixture: RedisFixture
    let name: Name
    let backend: RedisBackend
    let broker: RedisBroker
    let store: RedisPresenceStore
    private var lastTag: UInt64 = 0

    /// What a subscriber saw of a channel, in order.
    enum Seen: Equatable {
        case message(PositionedPublication)
        case resync(Position, ResyncReason)
    }

    private(set) var published: [RequestTag: Result<PublishResult, WireError>] = [:]
    private(set) var answers: [RequestTag: Int] = [:]
    private(set) var subscriptions: [RequestTag: Result<Position, WireError>] = [:]
    private(set) var moved: [RequestTag: Result<UInt64, WireError>] = [:]
    private(set) var pages: [RequestTag: Result<HistoryPage, WireError>] = [:]
    private(set) var marks: [RequestTag: Result<[ReadMark], WireError>] = [:]
    private(set) var applied: [RequestTag: Result<[UInt64], WireError>] = [:]
    private(set) var refreshed: [RequestTag: Result<[Int], WireError>] = [:]
    private(set) var sweeps: [RequestTag: Result<Int, WireError>] = [:]
    private(set) var probes: [RequestTag: Bool] = [:]
    /// Why probes failed.
    private(set) var probeErrors: [RequestTag: ErrorCode] = [:]
    /// Keys that hold something else, as they were told.
    private(set) var foreign: [String] = []
    /// Channels that this node gave a new epoch, with what it had acknowledged there.
    private(set) var renewals: [Name: [Position]] = [:]
    private(set) var inspections: [RequestTag: Result<PresenceRecord, WireError>] = [:]
    private(set) var reads: [RequestTag: Result<PresenceSnapshot, WireError>] = [:]
    private(set) var nodeLists: [RequestTag: Result<[NodeEntry], WireError>] = [:]
    private(set) var seen: [Name: [Seen]] = [:]
    /// `typing` and `read`.
    private(set) var signs: [Name: [Publication]] = [:]
    private(set) var changes: [PresenceChange] = []
    private(set) var feedGaps = 0
    private(set) var health: [BackendHealth] = []
    private(set) var storeHealth: [BackendHealth] = []

    init(_ fixture: RedisFixture, _ name: Name, url: String? = nil) {
        self.fixture = fixture
        self.name = name
        backend = fixture.backend(incarnation: name, name: name, url: url)
        broker = RedisBroker(backend)
        store = RedisPresenceStore(backend)
        broker.delegate = self
        store.delegate = self
        let (broker, store) = (broker, store)
        fixture.stepped.inTurn.append {
            broker.advance(at: $0)
            store.advance(at: $0)
        }
        broker.start(at: fixture.now)
        store.start(at: fixture.now)
    }

    var isUp: Bool { health.last == .up && storeHealth.last == .up }
    func goUp() -> Bool { fixture.run(limit: .seconds(10)) { isUp } }

    private func tag() -> RequestTag {
        lastTag += 1
        return RequestTag(high: 1, low: lastTag)
    }

    func publish(_ text: String, id: String, to channel: Name, attempt: PublishAttempt? = nil) -> RequestTag {
        let tag = tag()
        let publication = Publication(
            messageClass: .chat, user: "alice", device: "phone", messageId: Name(trusted: [UInt8](id.utf8)), time: 1_700_000_000_000,
            payload: [UInt8]("{\"text\":\"\(text)\"}".utf8))
        broker.publish(publication, to: channel, attempt: attempt, tag: tag, at: fixture.now)
        return tag
    }

    func readHistory(_ channel: Name, _ query: HistoryQuery) -> RequestTag {
        let tag = tag()
        broker.readHistory(of: channel, query, tag: tag, at: fixture.now)
        return tag
    }

    func readMarks(_ channel: Name, of user: Name = "alice", limit: Int = 10) -> RequestTag {
        let tag = tag()
        broker.readMarks(of: channel, user: user, limit: limit, tag: tag, at: fixture.now)
        return tag
    }

    func markRead(_ offset: UInt64, by user: Name = "alice", in channel: Name) -> RequestTag {
        let tag = tag()
        let publication = Publication(
            messageClass: .read, user: user, device: "", messageId: .empty, time: 1_700_000_000_000,
            payload: [UInt8]("{\"offset\":\(offset)}".utf8))
        broker.markRead(publication, offset: offset, in: channel, tag: tag, at: fixture.now)
        return tag
    }

    func subscribe(_ channel: Name) -> Result<Position, WireError>? {
        let tag = tag()
        broker.subscribe(channel, tag: tag, at: fixture.now)
        _ = fixture.run { subscriptions[tag] != nil }
        return subscriptions[tag]
    }

    /// Whether a subscription finds a channel that has nothing yet.
    func findsNothing(_ channel: Name) -> Bool {
        if case .success(let position)? = subscribe(channel) { position.isOrigin && position.tag != .none } else { false }
    }

    /// Where a channel stands.
    func tip(_ channel: Name) -> Position? {
        let tag = readHistory(channel, HistoryQuery(limit: 1))
        _ = fixture.run { pages[tag] != nil }
        return try? pages[tag]?.get().tip
    }

    func apply(_ kind: PresenceOperation.Kind, _ users: [Name], connection: Name = "aaaaaaaaaaaa-1") -> RequestTag {
        let tag = tag()
        let operations = users.map {
            PresenceOperation(
                kind: kind, user: $0, connection: connection, node: "north", device: "phone", versionFloor: 0)
        }
        store.apply(operations, partition: Partition.of(users[0]), tag: tag, at: fixture.now)
        return tag
    }

    func refresh(_ users: [Name], connection: Name = "aaaaaaaaaaaa-1", coversRecords: Bool = true) -> RequestTag {
        let tag = tag()
        let renewal = LeaseRenewal(leases: users.map { Lease(user: $0, connection: connection) }, coversRecords: coversRecords)
        store.refresh(renewal, partition: Partition.of(users[0]), tag: tag, at: fixture.now)
        return tag
    }

    func sweep(_ partition: Int) -> RequestTag {
        let tag = tag()
        store.sweep(partition: partition, tag: tag, at: fixture.now)
        return tag
    }

    func probe() -> RequestTag {
        let tag = tag()
        broker.probe(tag: tag, at: fixture.now)
        return tag
    }

    func read(_ users: [Name]) -> RequestTag {
        let tag = tag()
        store.read(users, tag: tag, at: fixture.now)
        return tag
    }

    func inspect(_ user: Name) -> RequestTag {
        let tag = tag()
        store.inspect(user, explains: false, tag: tag, at: fixture.now)
        return tag
    }

    /// What `announce` answers.
    func list() -> Result<[NodeEntry], WireError>? {
        let tag = tag()
        store.announce(NodeFacts(connections: 3), tag: tag, at: fixture.now)
        _ = fixture.run { nodeLists[tag] != nil }
        return nodeLists[tag]
    }

    /// The incarnations of the nodes that live, this one among them.
    func announce() -> [Name] {
        let tag = tag()
        store.announce(NodeFacts(connections: 3), tag: tag, at: fixture.now)
        _ = fixture.run { nodeLists[tag] != nil }
        return ((try? nodeLists[tag]?.get()) ?? []).map(\.incarnation)
    }

    /// Judges what was seen of a channel as a client would: every hole is announced, nothing twice. Says what's wrong, or nothing.
    func complaints(_ channel: Name, from start: Position = .start) -> [String] {
        var complaints: [String] = []
        var at = start
        var payloads = Set<[UInt8]>()
        for one in seen[channel] ?? [] {
            switch one {
            case .resync(let position, _): at = position
            case .message(let next):
                let isFirst = at == .start && next.position.offset == 1
                if !isFirst && !at.isContinued(by: next.position, previous: next.previous) {
                    complaints.append("\(next.position) doesn't continue \(at)")
                }
                if !payloads.insert(next.publication.messageId.bytes).inserted {
                    complaints.append("\(next.publication.messageId) came twice")
                }
                at = next.position
            }
        }
        return complaints
    }

    /// Where subscribers of a channel are.
    func place(_ channel: Name) -> Position? {
        switch seen[channel]?.last {
        case .message(let message)?: message.position
        case .resync(let position, _)?: position
        case nil: nil
        }
    }

    func messages(_ channel: Name) -> [PositionedPublication] {
        (seen[channel] ?? []).compactMap { if case .message(let message) = $0 { message } else { nil } }
    }
    func resyncs(_ channel: Name) -> [ResyncReason] {
        (seen[channel] ?? []).compactMap { if case .resync(_, let reason) = $0 { reason } else { nil } }
    }

    // MARK: Delegates

    func published(_ result: Result<PublishResult, WireError>, tag: RequestTag) {
        published[tag] = result
        answers[tag, default: 0] += 1
    }
    func readMoved(_ result: Result<UInt64, WireError>, tag: RequestTag) { moved[tag] = result }
    func subscribed(_ channel: Name, _ result: Result<Position, WireError>, tag: RequestTag) { subscriptions[tag] = result }
    func historyRead(_ channel: Name, _ result: Result<HistoryPage, WireError>, tag: RequestTag) { pages[tag] = result }
    func readMarks(_ channel: Name, _ result: Result<[ReadMark], WireError>, tag: RequestTag) { marks[tag] = result }
    func probed(_ result: Result<Void, WireError>, tag: RequestTag) {
        switch result {
        case .success: probes[tag] = true
        case .failure(let error):
            probes[tag] = false
            probeErrors[tag] = error.code
        }
    }
    func renewed(_ channel: Name, wasAcknowledged position: Position) { renewals[channel, default: []].append(position) }
    func foreignKey(_ key: [UInt8]) { foreign.append(String(decoding: key, as: UTF8.self)) }
    func received(_ publication: PositionedPublication, channel: Name) { seen[channel, default: []].append(.message(publication)) }
    func received(_ publication: Publication, channel: Name) { signs[channel, default: []].append(publication) }
    func resync(_ channel: Name, to position: Position, reason: ResyncReason) {
        seen[channel, default: []].append(.resync(position, reason))
    }
    func brokerHealth(_ health: BackendHealth) { self.health.append(health) }
    func applied(_ result: Result<[UInt64], WireError>, tag: RequestTag) { applied[tag] = result }
    func refreshed(_ result: Result<[Int], WireError>, tag: RequestTag) { refreshed[tag] = result }
    func swept(_ result: Result<Int, WireError>, partition: Int, tag: RequestTag) { sweeps[tag] = result }
    func read(_ result: Result<PresenceSnapshot, WireError>, tag: RequestTag) { reads[tag] = result }
    func inspected(_ result: Result<PresenceRecord, WireError>, tag: RequestTag) { inspections[tag] = result }
    func nodes(_ result: Result<[NodeEntry], WireError>, tag: RequestTag) { nodeLists[tag] = result }
    func changed(_ changes: [PresenceChange], partition: Int, gap: Bool) {
        self.changes += changes
        if gap { feedGaps += 1 }
    }
    func storeHealth(_ health: BackendHealth) { storeHealth.append(health) }
}

/// Users of one partition.
func users(_ count: Int, of partition: Int, _ prefix: String) -> [Name] {
    var users: [Name] = []
    var number = 0
    while users.count < count {
        let user = Name(trusted: [UInt8]("\(prefix)-\(number)".utf8))
        if Partition.of(user) == partition { users.append(user) }
        number += 1
    }
    return users
}
