import HubBase
import HubCore
import HubWire
import Testing

/// Writes down what a broker tells, as text.
private final class BrokerLog: BrokerDelegate {
    var lines: [String] = []
    var onReceived: (() -> Void)?

    func published(_ result: Result<PublishResult, WireError>, tag: RequestTag) {
        switch result {
        case .success(let result): lines.append("published \(result.position.offset)\(result.isDuplicate ? " again" : "")")
        case .failure(let error): lines.append("refused \(error.code)")
        }
    }
    func readMoved(_ result: Result<UInt64, WireError>, tag: RequestTag) {
        switch result {
        case .success(let offset): lines.append("read \(offset)")
        case .failure(let error): lines.append("refused \(error.code)")
        }
    }
    func subscribed(_ channel: Name, _ result: Result<Position, WireError>, tag: RequestTag) {
        switch result {
        case .success(let position): lines.append("subscribed at \(position.offset)")
        case .failure(let error): lines.append("refused \(error.code)")
        }
    }
    func historyRead(_ channel: Name, _ result: Result<HistoryPage, WireError>, tag: RequestTag) { lines.append("history") }
    func readMarks(_ channel: Name, _ result: Result<[ReadMark], WireError>, tag: RequestTag) { lines.append("marks") }
    func probed(_ result: Result<Void, WireError>, tag: RequestTag) {
        if case .success = result { lines.append("probed") } else { lines.append("probe failed") }
    }
    func received(_ publication: PositionedPublication, channel: Name) {
        lines.append("received \(publication.position.offset)")
        onReceived?()
    }
    func received(_ publication: Publication, channel: Name) { lines.append("received \(publication.messageClass)") }
    func resync(_ channel: Name, to position: Position, reason: ResyncReason) {
        lines.append("resync to \(position.offset), \(reason.rawValue)")
    }
    func brokerHealth(_ health: BackendHealth) { lines.append("health \(health)") }
}

private final class Bench {
    let broker: MemoryBroker
    let log = BrokerLog()
    var now = Instant(nanoseconds: 1_000_000_000)
    private var lastId = 0

    init(_ options: HistoryOptions = HistoryOptions(), limits: MemoryLimits = MemoryLimits()) {
        broker = MemoryBroker(namespaces: ["": options], chance: Chance(seed: 1), limits: limits)
        broker.delegate = log
        broker.start(at: now)
        _ = lines()
    }

    func publish(_ count: Int = 1, to channel: Name = "room", id: String? = nil) {
        for _ in 0..<count {
            lastId += 1
            let publication = Publication(
                messageClass: .chat, user: "alice", device: "", messageId: Name(trusted: [UInt8]((id ?? "m\(lastId)").utf8)), time: 1,
                payload: [1, 2, 3])
            broker.publish(publication, to: channel, attempt: nil, tag: .none, at: now)
        }
    }

    func subscribe(_ channel: Name = "room") { broker.subscribe(channel, tag: .none, at: now) }

    func pass(_ span: Span, step: Span = .milliseconds(100)) {
        let end = now + span
        while now < end {
            now = now + step
            broker.advance(at: now)
        }
    }

    /// What was told since the last call.
    func lines() -> [String] {
        broker.advance(at: now)
        defer { log.lines = [] }
        return log.lines
    }
}

@Suite("The embedded broker's faults and limits")
struct MemoryBrokerFaultTests {
    @Test("a hole is filled from history before what follows it, and told when history doesn't reach")
    func hole() {
        let bench = Bench()
        bench.subscribe()
        bench.publish()
        _ = bench.lines()
        bench.broker.dropFeed(2)
        bench.publish(3)
        #expect(
            bench.lines() == ["published 2", "published 3", "published 4", "received 2", "received 3", "received 4"])
        bench.broker.dropFeed(101)
        bench.publish(102)
        #expect(bench.lines().suffix(3) == ["published 106", "resync to 105, gap", "received 106"])
        bench.publish()
        #expect(bench.lines() == ["published 107", "received 107"])
    }

    @Test("a lost last publication, which no successor reveals, is found by the walk over the channels")
    func lostTail() {
        let bench = Bench()
        bench.subscribe()
        bench.publish()
        bench.broker.dropFeed(1)
        bench.publish()
        #expect(bench.lines() == ["subscribed at 0", "published 1", "received 1", "published 2"])
        bench.pass(.seconds(11))
        #expect(bench.lines() == ["received 2"])
        bench.pass(.seconds(30))
        bench.publish()
        #expect(bench.lines() == ["published 3", "received 3"])
    }

    @Test("after all data was lost the channel begins anew, and says so", arguments: [true, false])
    func dataLoss(_ publishesAfter: Bool) {
        let bench = Bench()
        bench.subscribe()
        bench.publish(3, id: nil)
        _ = bench.lines()
        bench.broker.loseAllData()
        if publishesAfter {
            bench.publish()
            #expect(bench.lines() == ["published 1", "resync to 0, epochChanged", "received 1"])
        } else {
            bench.pass(.seconds(11))
            #expect(bench.lines() == ["resync to 0, epochChanged"])
        }
    }

    @Test("offsets that are given out again after a roll back aren't taken for what came before, redis-design §0.6")
    func rollBack() {
        let bench = Bench()
        bench.subscribe()
        bench.publish(5)
        _ = bench.lines()
        bench.broker.rollBack("room", by: 2)
        bench.publish()
        #expect(bench.lines() == ["published 4", "resync to 3, epochChanged", "received 4"])
        bench.publish(2)
        #expect(bench.lines() == ["published 5", "received 5", "published 6", "received 6"])
    }

    @Test("who follows an empty channel for days is told once its origin ends, and not before")
    func originEnds() {
        let bench = Bench()
        bench.subscribe()
        bench.pass(.seconds(4 * 86_400), step: .seconds(60))
        #expect(bench.lines() == ["subscribed at 0"])
        bench.pass(.seconds(2 * 86_400), step: .seconds(60))
        #expect(bench.lines() == ["resync to 0, epochChanged"])
        bench.publish()
        #expect(bench.lines() == ["published 1", "received 1"])
    }

    @Test("a channel that was only wanted hears whatever happens to it, and counts like any other until nobody wants it")
    func quiet() {
        var limits = MemoryLimits()
        limits.channels = 3
        let bench = Bench(limits: limits)
        for channel in ["a", "b", "c", "d"] as [Name] { bench.subscribe(channel) }
        bench.subscribe("a")
        #expect(bench.lines() == ["subscribed at 0", "subscribed at 0", "subscribed at 0", "refused storeFull", "subscribed at 0"])
        #expect(bench.broker.held.channels == 3)
        let typing = Publication(messageClass: .typing, user: "alice", device: "", messageId: .empty, time: 1, payload: [])
        bench.broker.broadcast(typing, to: "a", at: bench.now)
        bench.broker.broadcast(typing, to: "nobody's", at: bench.now)
        var read = typing
        read.messageClass = .read
        bench.publish(to: "b")
        bench.broker.markRead(read, offset: 1, in: "b", tag: .none, at: bench.now)
        bench.publish(to: "c")
        bench.publish(to: "e")
        #expect(
            bench.lines() == [
                "received typing", "published 1", "received 1", "read 1", "received read", "published 1", "received 1",
                "refused storeFull",
            ])
        for channel in ["a", "b", "c"] as [Name] { bench.broker.unsubscribe(channel, at: bench.now) }
        #expect(bench.broker.held.channels == 2)
        bench.subscribe("e")
        bench.broker.unsubscribe("e", at: bench.now)
        bench.subscribe("a")
        #expect(bench.lines() == ["subscribed at 0", "subscribed at 0"])
        #expect(bench.broker.held.channels == 3)
        bench.publish(to: "a")
        #expect(bench.lines() == ["published 1", "received 1"])
    }

    @Test("a retry whose first attempt was rolled back is uncertain, and isn't published")
    func takenBack() {
        let bench = Bench()
        bench.publish(3)
        bench.publish(id: "last")
        bench.publish(id: "last")
        #expect(bench.lines().suffix(2) == ["published 4", "published 4 again"])
        bench.broker.rollBack("room", by: 1)
        bench.publish(id: "last")
        #expect(bench.lines() == ["refused uncertain"])
    }

    @Test("who subscribes again before earlier publications were delivered gets none of them twice")
    func subscribedAgain() {
        let bench = Bench()
        bench.subscribe()
        bench.publish(2)
        bench.broker.unsubscribe("room", at: bench.now)
        bench.subscribe()
        bench.publish()
        #expect(bench.lines() == ["subscribed at 2", "published 1", "published 2", "subscribed at 2", "published 3", "received 3"])
    }

    @Test("read positions of a channel that begins anew begin anew too")
    func readsBeginAnew() {
        let bench = Bench()
        let read = Publication(messageClass: .read, user: "alice", device: "", messageId: .empty, time: 1, payload: [])
        bench.publish(3)
        // The read position outlives the channel's own memory of where it was.
        bench.pass(.seconds(6 * 86_400), step: .seconds(3_600))
        bench.broker.markRead(read, offset: 3, in: "room", tag: .none, at: bench.now)
        bench.pass(.seconds(2 * 86_400), step: .seconds(3_600))
        bench.publish()
        bench.broker.markRead(read, offset: 1, in: "room", tag: .none, at: bench.now)
        #expect(bench.lines() == ["published 1", "published 2", "published 3", "read 3", "published 1", "read 1"])
        let readPositions = bench.broker.held.readPositions
        #expect(readPositions == 1)
    }

    @Test("a call that fails has no effect")
    func failure() {
        let bench = Bench()
        bench.subscribe()
        _ = bench.lines()
        bench.broker.failNext(2, with: WireError(.storeFull, "full"))
        bench.publish(3)
        #expect(bench.lines() == ["refused storeFull", "refused storeFull", "published 1", "received 1"])
        bench.broker.setHealth(.down("gone"))
        bench.broker.probe(tag: .none, at: bench.now)
        #expect(bench.lines() == ["health down(\"gone\")", "probe failed"])
        bench.broker.setHealth(.up)
        bench.broker.probe(tag: .none, at: bench.now)
        #expect(bench.lines() == ["health up", "probed"])
    }

    @Test("history keeps its size, and goes as a whole after its time; positions go on")
    func historyEnds() {
        var options = HistoryOptions()
        options.size = 3
        options.ttl = .seconds(60)
        let bench = Bench(options)
        bench.publish(10)
        bench.pass(.seconds(1))
        #expect(bench.broker.held.publications == 3)
        bench.pass(.seconds(75))
        #expect(bench.broker.held.publications == 0)
        _ = bench.lines()
        bench.publish()
        #expect(bench.lines() == ["published 11"])
    }

    @Test("what is over leaves nothing behind: ids after their window, channels after 7 days")
    func nothingLeft() {
        let bench = Bench()
        for number in 0..<1_000 { bench.publish(to: Name(trusted: [UInt8]("room-\(number)".utf8))) }
        bench.subscribe("typing only")
        bench.broker.unsubscribe("typing only", at: bench.now)
        #expect(
            bench.broker.held
                == MemoryBroker.Held(channels: 1_000, publications: 1_000, messageIds: 1_000, readPositions: 0, bytes: 259_000))
        bench.pass(.seconds(620), step: .seconds(1))
        #expect(bench.broker.held.messageIds == 0)
        bench.pass(.seconds(3_600), step: .seconds(1))
        #expect(bench.broker.held.bytes == 0)
        bench.pass(.seconds(7 * 86_400), step: .seconds(600))
        bench.pass(.seconds(60), step: .seconds(1))
        #expect(bench.broker.held == MemoryBroker.Held(channels: 0, publications: 0, messageIds: 0, readPositions: 0, bytes: 0))
    }

    @Test("an id that is used again after its window is remembered for a whole window again")
    func idAgain() {
        var options = HistoryOptions()
        options.dedup = .seconds(10)
        let bench = Bench(options)
        bench.publish(id: "x")
        bench.pass(.seconds(11), step: .seconds(11))
        bench.publish(id: "x")
        bench.publish(10)
        bench.pass(.seconds(5))
        bench.publish(id: "x")
        let lines = bench.lines()
        #expect(lines.first == "published 1" && lines.contains("published 2") && lines.last == "published 2 again")
    }

    @Test("beyond a limit calls are refused with storeFull, and what was taken stays")
    func limits() {
        var limits = MemoryLimits()
        limits.channels = 2
        limits.messageIds = 3
        limits.readPositions = 1
        let bench = Bench(limits: limits)
        bench.publish(4, to: "a")
        bench.publish(id: "m1")
        bench.publish(to: "c")
        bench.subscribe("d")
        let read = Publication(messageClass: .read, user: "alice", device: "", messageId: .empty, time: 1, payload: [])
        var other = read
        other.user = "bob"
        bench.broker.markRead(read, offset: 1, in: "a", tag: .none, at: bench.now)
        bench.broker.markRead(other, offset: 1, in: "a", tag: .none, at: bench.now)
        bench.broker.markRead(read, offset: 2, in: "a", tag: .none, at: bench.now)
        #expect(
            bench.lines() == [
                "published 1", "published 2", "published 3", "refused storeFull", "refused storeFull", "refused storeFull",
                "refused storeFull", "read 1", "refused storeFull", "read 2",
            ])
    }

    @Test("the byte limit of history counts what each publication costs")
    func byteLimit() {
        var limits = MemoryLimits()
        limits.historyBytes = 1_000
        let bench = Bench(limits: limits)
        bench.publish(4)
        #expect(bench.lines() == ["published 1", "published 2", "published 3", "refused storeFull"])
        bench.pass(.seconds(3_700), step: .seconds(1))
        bench.publish()
        #expect(bench.lines() == ["published 4"])
    }

    @Test("what a delegate asks for while it is told is answered in the same advance, after what was queued before")
    func reentrance() {
        let bench = Bench()
        bench.subscribe()
        _ = bench.lines()
        var left = 2
        bench.log.onReceived = {
            guard left > 0 else { return }
            left -= 1
            bench.publish()
            bench.broker.advance(at: bench.now)
        }
        bench.publish(2)
        #expect(
            bench.lines() == [
                "published 1", "received 1", "published 2", "received 2", "published 3", "received 3", "published 4", "received 4",
            ])
    }
}

private final class StoreLog: PresenceStoreDelegate {
    var changes: [(changes: [PresenceChange], gap: Bool)] = []
    var results: [String] = []
    func applied(_ result: Result<[UInt64], WireError>, tag: RequestTag) {
        if case .failure(let error) = result { results.append("\(error.code)") } else { results.append("applied") }
    }
    func refreshed(_ result: Result<[Int], WireError>, tag: RequestTag) { results.append("\((try? result.get()) ?? [])") }
    func swept(_ result: Result<Int, WireError>, partition: Int, tag: RequestTag) {}
    func read(_ result: Result<PresenceSnapshot, WireError>, tag: RequestTag) {
        if case .success(let snapshot) = result { results.append("\(snapshot.changes[0].status) \(snapshot.isWarming)") }
    }
    func inspected(_ result: Result<PresenceRecord, WireError>, tag: RequestTag) {}
    func nodes(_ result: Result<[NodeEntry], WireError>, tag: RequestTag) {}
    func changed(_ changes: [PresenceChange], partition: Int, gap: Bool) { self.changes.append((changes, gap)) }
    func storeHealth(_ health: BackendHealth) {}
}

@Suite("The embedded presence store's faults and limits")
struct MemoryPresenceFaultTests {
    private let log = StoreLog()
    private let start = Instant(nanoseconds: 1_000_000_000)

    private func makeStore(usersMax: Int = 1_000) -> MemoryPresenceStore {
        let store = MemoryPresenceStore(
            timers: PresenceTimers(), node: "nodenodenode", nodeName: "north", wallClockAtStart: 1_800_000_000_000, startedAt: start,
            usersMax: usersMax)
        store.delegate = log
        store.start(at: start)
        return store
    }

    private func up(_ store: MemoryPresenceStore, _ user: Name, _ state: ConnectionState = .online, at now: Instant) {
        let operation = PresenceOperation(
            kind: .up(state), user: user, connection: "c-1", node: "nodenodenode", device: "", versionFloor: 0)
        store.apply([operation], partition: Partition.of(user), tag: .none, at: now)
    }

    @Test("a lost message of the feed shows as a gap with the next one, or by itself within 30 s")
    func feedGap() {
        let store = makeStore()
        store.dropFeed(1)
        up(store, "alice", at: start)
        up(store, "alice", .away, at: start)
        store.advance(at: start)
        #expect(log.changes.map(\.gap) == [true])
        #expect(log.changes.map { $0.changes.map(\.status) } == [[.away]])
        store.dropFeed(1)
        up(store, "alice", .online, at: start)
        var now = start
        while now < start + .seconds(31) {
            now = now + .seconds(1)
            store.advance(at: now)
        }
        #expect(log.changes.map(\.gap) == [true, true])
        #expect(log.changes.last?.changes == [])
    }

    @Test("beyond its limit of users a new one is refused with storeFull; known ones go on")
    func usersLimit() {
        let store = makeStore(usersMax: 1)
        up(store, "alice", at: start)
        up(store, "bob", at: start)
        up(store, "alice", .away, at: start)
        store.advance(at: start)
        #expect(log.results == ["applied", "storeFull", "applied"])
    }

    @Test("after all data was lost refresh reports every lease, and reads are warming until a hold after the first sweep")
    func dataLoss() {
        let store = makeStore()
        up(store, "alice", at: start)
        store.loseAllData()
        let partition = Partition.of("alice")
        let renewal = LeaseRenewal(leases: [Lease(user: "alice", connection: "c-1")], coversRecords: true)
        store.refresh(renewal, partition: partition, tag: .none, at: start)
        store.read(["alice"], tag: .none, at: start)
        store.sweep(partition: partition, tag: .none, at: start)
        store.read(["alice"], tag: .none, at: start + .seconds(39))
        store.read(["alice"], tag: .none, at: start + .seconds(40))
        store.advance(at: start + .seconds(40))
        #expect(log.results == ["applied", "[0]", "offline true", "offline true", "offline false"])
    }

    @Test("an offline user is remembered for tombstoneTTL, then forgotten")
    func tombstone() {
        let store = makeStore()
        up(store, "alice", at: start)
        let down = PresenceOperation(
            kind: .down(grace: .zero), user: "alice", connection: "c-1", node: "nodenodenode", device: "", versionFloor: 0)
        store.apply([down], partition: Partition.of("alice"), tag: .none, at: start)
        store.advance(at: start)
        #expect(store.userCount == 1)
        var now = start + .seconds(7 * 86_400 - 100)
        store.advance(at: now)
        #expect(store.userCount == 1)
        for _ in 0..<200 {
            now = now + .seconds(1)
            store.advance(at: now)
        }
        #expect(store.userCount == 0)
    }
}
