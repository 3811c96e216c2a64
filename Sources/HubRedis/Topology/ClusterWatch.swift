import HubBase
import HubNet

/// Asks one node of the cluster after another who has what: at the start, every 5 s, and soon whenever somebody says that it changed.
///
/// A node that was cut off may tell of old times: its word counts only while it says that the cluster is whole (`cluster_state:ok`), and not
/// when its epoch is behind one that was heard before.
final class ClusterWatch: ConnectionOwner {
    static let interval: Span = .seconds(5)
    /// Between two questions that others ask for.
    static let pause: Span = .milliseconds(100)
    static let deadline: Span = .seconds(3)
    /// After so long without a word that counts, any epoch does: the cluster may have been made anew.
    static let epochHolds: Span = .seconds(30)

    private let connection: RedisConnection<ClusterWatch>
    private let loop: NetLoop
    /// Owns this, so it's there as long as it.
    private unowned(unsafe) let backend: RedisBackend
    private let seeds: [RedisURL.Place]
    private var nodes: [RedisURL.Place] = []
    private var turn = 0
    private var isSoon = true
    private var asked = Instant(nanoseconds: 0)
    /// Answers to the question under way that are owed.
    private var owed = 0
    private var facts: ClusterFacts?
    private var epoch: UInt64 = 0
    private var heard: Instant?
    /// Why nothing is known; nil while nothing has failed.
    private(set) var problem: String?

    init(_ seeds: [RedisURL.Place], access: RedisAccess, loop: NetLoop, chance: Chance, backend: RedisBackend) {
        self.seeds = seeds
        self.loop = loop
        self.backend = backend
        connection = RedisConnection(loop: loop, place: seeds[0], access: access, chance: chance)
        connection.owner = self
    }

    func start(at now: Instant) { connection.start(at: now) }
    func stop() { connection.stop() }
    func askSoon() { isSoon = true }

    func advance(at now: Instant) {
        if connection.isOpen {
            let since = now.since(asked)
            if owed > 0 {
                if since >= ClusterWatch.deadline { connection.drop("no answer within \(ClusterWatch.deadline)") }
            } else if since >= ClusterWatch.interval || isSoon && since >= ClusterWatch.pause {
                ask(at: now)
            }
        }
        connection.advance(at: now)
    }

    private func ask(at now: Instant) {
        isSoon = false
        asked = now
        owed = 2
        facts = nil
        for word: StaticString in ["INFO", "SLOTS"] {
            connection.out.command(2)
            connection.out.argument("CLUSTER")
            connection.out.argument(word)
        }
        connection.flush()
    }

    func opened() { ask(at: loop.now) }

    func received(_ reply: borrowing Reply) {
        guard owed > 0 else { return connection.drop("an answer that nobody asked for") }
        owed -= 1
        if reply.isError {
            let text = reply.errorText
            let isAlone = text.hasPrefix("ERR This instance has cluster support disabled")
            return connection.drop(isAlone ? "this Redis is no cluster: name it by redis.url" : RedisFault.advice(text))
        }
        if owed == 1 {
            facts = reply.string(0).flatMap { ClusterFacts($0) }
        } else {
            judge(reply)
        }
    }

    private func judge(_ reply: borrowing Reply) {
        guard let facts, let slots = ClusterSlots(reply, slots: backend.keys.slots, asked: connection.place) else {
            return connection.drop("not what a cluster's node answers")
        }
        let isForgotten = heard.map { loop.now.since($0) >= ClusterWatch.epochHolds } ?? true
        guard facts.isWhole else { return connection.drop("the cluster says that it's down (cluster_state)") }
        guard facts.epoch >= epoch || isForgotten else { return connection.drop("this node is behind the others of the cluster") }
        epoch = facts.epoch
        heard = loop.now
        problem = nil
        nodes = slots.nodes
        backend.masters.assign(slots)
    }

    func ended(_ reason: String) {
        problem = reason
        owed = 0
        isSoon = true
        // The next one is asked: those that were named last, then those of the configuration.
        let all = nodes + seeds.filter { !nodes.contains($0) }
        turn += 1
        connection.place = all[turn % all.count]
    }
}

/// What CLUSTER INFO says of the cluster as one node sees it.
package struct ClusterFacts: Equatable {
    package private(set) var isWhole = false
    /// Grows with each failover and each slot that moves.
    package private(set) var epoch: UInt64 = 0

    /// nil when it has neither line. Lines of `name:value`, ended by CR LF.
    package init?(_ text: UnsafeRawBufferPointer) {
        var isKnown = false
        for line in text.prefix(8192).split(whereSeparator: { $0 == 13 || $0 == 10 }) {
            let line = UnsafeRawBufferPointer(rebasing: line)
            if line.hasPrefix("cluster_state:") {
                isWhole = line.equals("cluster_state:ok")
                isKnown = true
            } else if line.hasPrefix("cluster_current_epoch:") {
                epoch = UnsafeRawBufferPointer(rebasing: line[22...]).decimal ?? 0
            }
        }
        guard isKnown else { return nil }
    }
}
