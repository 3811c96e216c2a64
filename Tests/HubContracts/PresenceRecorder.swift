import HubBase
import HubCore
import HubWire

/// Writes down what a presence store tells, in order.
final class PresenceRecorder: PresenceStoreDelegate {
    private(set) var applied: [RequestTag: Result<[UInt64], WireError>] = [:]
    private(set) var refreshed: [RequestTag: Result<[Int], WireError>] = [:]
    private(set) var swept: [RequestTag: Result<Int, WireError>] = [:]
    private(set) var snapshots: [RequestTag: Result<PresenceSnapshot, WireError>] = [:]
    private(set) var records: [RequestTag: Result<PresenceRecord, WireError>] = [:]
    private(set) var nodeLists: [RequestTag: Result<[NodeEntry], WireError>] = [:]
    private(set) var changes: [PresenceChange] = []
    private(set) var health: [BackendHealth] = []
    private(set) var lost: [Int] = []
    /// Set while a call of the store runs: nothing may be told then.
    var isInsideCall = false
    private(set) var toldInsideCall = 0

    private func note() {
        if isInsideCall { toldInsideCall += 1 }
    }

    func applied(_ result: Result<[UInt64], WireError>, tag: RequestTag) {
        note()
        applied[tag] = result
    }
    func refreshed(_ result: Result<[Int], WireError>, tag: RequestTag) {
        note()
        refreshed[tag] = result
    }
    func swept(_ result: Result<Int, WireError>, partition: Int, tag: RequestTag) {
        note()
        swept[tag] = result
    }
    func read(_ result: Result<PresenceSnapshot, WireError>, tag: RequestTag) {
        note()
        snapshots[tag] = result
    }
    func inspected(_ result: Result<PresenceRecord, WireError>, tag: RequestTag) {
        note()
        records[tag] = result
    }
    func nodes(_ result: Result<[NodeEntry], WireError>, tag: RequestTag) {
        note()
        nodeLists[tag] = result
    }
    func changed(_ changes: [PresenceChange], partition: Int, gap: Bool) {
        note()
        self.changes += changes
    }
    func lost(partition: Int) {
        note()
        lost.append(partition)
    }
    func storeHealth(_ health: BackendHealth) {
        note()
        self.health.append(health)
    }

    func changes(of user: Name) -> [PresenceChange] { changes.filter { $0.user == user } }
    func states(of user: Name) -> [PresenceStatus] { changes(of: user).map(\.status) }
}

/// One node of a check: its store, what it told, and calls that make their own tags and wait for the answers.
final class PresenceNode {
    let store: any PresenceStore
    let incarnation: Name
    let recorder = PresenceRecorder()
    private let fixture: any PresenceStoreFixture
    private var lastTag: UInt64 = 0

    init(_ fixture: any PresenceStoreFixture, _ incarnation: Name, _ name: Name) {
        self.fixture = fixture
        self.incarnation = incarnation
        store = fixture.makeNode(incarnation: incarnation, name: name)
        store.delegate = recorder
        store.start(at: fixture.now)
    }

    /// Two nodes of one backend where there can be two, else the same one twice.
    static func pair(_ fixture: any PresenceStoreFixture) -> (PresenceNode, PresenceNode) {
        let first = PresenceNode(fixture, "aaaaaaaaaaaa", "north")
        let second = fixture.nodeLimit > 1 ? PresenceNode(fixture, "bbbbbbbbbbbb", "south") : first
        _ = fixture.run { first.recorder.health.contains(.up) && second.recorder.health.contains(.up) }
        return (first, second)
    }

    func call(_ body: (RequestTag) -> Void) -> RequestTag {
        lastTag += 1
        let tag = RequestTag(high: 9, low: lastTag)
        recorder.isInsideCall = true
        body(tag)
        recorder.isInsideCall = false
        return tag
    }

    func operation(
        _ kind: PresenceOperation.Kind, _ user: Name, _ connection: Name, floor: UInt64 = 0, isAsked: Bool = false, device: Name = "phone",
        age: Span = .zero, isKnown: Bool = false, was: ConnectionState? = nil, loss: PresenceOperation.Loss = .none
    ) -> PresenceOperation {
        PresenceOperation(
            kind: kind, user: user, connection: connection, node: incarnation, device: device, age: age, versionFloor: floor,
            isAsked: isAsked, isKnown: isKnown, was: was, loss: loss)
    }

    /// The version after one operation; nil when it was refused or not answered.
    @discardableResult
    func apply(
        _ kind: PresenceOperation.Kind, _ user: Name, _ connection: Name, floor: UInt64 = 0, isAsked: Bool = false, device: Name = "phone",
        age: Span = .zero, isKnown: Bool = false, was: ConnectionState? = nil, loss: PresenceOperation.Loss = .none
    ) -> UInt64? {
        let operation = operation(
            kind, user, connection, floor: floor, isAsked: isAsked, device: device, age: age, isKnown: isKnown, was: was,
            loss: loss)
        let tag = call { store.apply([operation], partition: Partition.of(user), tag: $0, at: fixture.now) }
        _ = fixture.run { recorder.applied[tag] != nil }
        guard case .success(let versions)? = recorder.applied[tag], versions.count == 1 else { return nil }
        return versions[0]
    }

    /// The indexes that are missing; nil when it was refused or not answered.
    func refresh(_ leases: [Lease], coversRecords: Bool = true) -> [Int]? {
        let renewal = LeaseRenewal(leases: leases, coversRecords: coversRecords)
        let tag = call { store.refresh(renewal, partition: Partition.of(leases[0].user), tag: $0, at: fixture.now) }
        _ = fixture.run { recorder.refreshed[tag] != nil }
        guard case .success(let missing)? = recorder.refreshed[tag] else { return nil }
        return missing
    }

    func sweep(_ partition: Int) -> RequestTag {
        call { store.sweep(partition: partition, tag: $0, at: fixture.now) }
    }

    func read(_ users: [Name]) -> PresenceSnapshot? {
        let tag = call { store.read(users, tag: $0, at: fixture.now) }
        _ = fixture.run { recorder.snapshots[tag] != nil }
        guard case .success(let snapshot)? = recorder.snapshots[tag] else { return nil }
        return snapshot
    }

    func inspect(_ user: Name, explains: Bool = true) -> PresenceRecord? {
        let tag = call { store.inspect(user, explains: explains, tag: $0, at: fixture.now) }
        _ = fixture.run { recorder.records[tag] != nil }
        guard case .success(let record)? = recorder.records[tag] else { return nil }
        return record
    }

    func announce(connections: UInt64, notAsked: [AskKind] = []) -> [NodeEntry]? {
        let tag = call { store.announce(NodeFacts(connections: connections, notAsked: notAsked), tag: $0, at: fixture.now) }
        _ = fixture.run { recorder.nodeLists[tag] != nil }
        guard case .success(let entries)? = recorder.nodeLists[tag] else { return nil }
        return entries
    }
}
