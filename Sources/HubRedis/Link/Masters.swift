import HubBase
import HubNet

/// A master that has some of the lanes, with its two links. Without a cluster there's one, which has all of them.
final class Master {
    /// Its name among the masters of this process.
    let number: Int
    let link: RedisLink
    let subscriber: RedisSubscriber
    let since: Instant
    fileprivate(set) var lanes = LaneSet() { didSet { subscriber.lanes = lanes } }
    /// Both links have been up once.
    fileprivate(set) var wasUp = false

    init(number: Int, link: RedisLink, subscriber: RedisSubscriber, since: Instant) {
        self.number = number
        self.link = link
        self.subscriber = subscriber
        self.since = since
    }

    var isUp: Bool { link.isUp && subscriber.isUp }
    var problem: String? { link.problem ?? subscriber.problem }

    /// It's new, and may well be reached for the first time in a moment.
    func isJoining(at now: Instant) -> Bool { !wasUp && now.since(since) < Masters.youth }
}

/// Who has which lane, and the links to all of them: made when a master gets its first lane, ended when it has none left and owes nothing.
final class Masters {
    let isCluster: Bool
    private(set) var all: [Master] = []
    private var owners = [Master?](repeating: nil, count: Lane.count)
    /// When a master itself said last that a lane is elsewhere.
    private var redirected = [Instant?](repeating: nil, count: Lane.count)
    private var made = 0
    private var isStarted = false
    private let loop: NetLoop
    /// Owns this, so it's there as long as it.
    private unowned(unsafe) let backend: RedisBackend

    /// What a master of a cluster that joins may need to be reached, before it counts as away.
    static let youth: Span = .seconds(3)
    /// A redirection comes from the master concerned: other nodes hear of the change by gossip, and their view waits so long.
    static let gossip: Span = .seconds(2)

    init(loop: NetLoop, isCluster: Bool, backend: RedisBackend) {
        self.loop = loop
        self.isCluster = isCluster
        self.backend = backend
    }

    func master(of lane: Int) -> Master? { isCluster ? owners[lane] : all.first }

    var hasLink: Bool { all.contains { $0.link.isUp } }
    var owedReplies: Int { all.reduce(0) { $0 + $1.link.owedReplies + $1.link.held.count } }

    // MARK: Life

    func start(at now: Instant) {
        isStarted = true
        for master in all { start(master, at: now) }
    }

    private func start(_ master: Master, at now: Instant) {
        master.link.start(at: now)
        master.subscriber.start(at: now)
    }

    func stop() {
        isStarted = false
        for master in all {
            master.link.stop()
            master.subscriber.stop()
        }
    }

    func advance(at now: Instant) {
        for master in all {
            master.link.advance(at: now)
            master.subscriber.advance(at: now)
            if master.isUp { master.wasUp = true }
        }
        guard isCluster else { return }
        for master in all where master.lanes.isEmpty && master.link.isIdle {
            master.link.stop()
            master.subscriber.stop()
            all.removeAll { $0 === master }
        }
    }

    func flush() { for master in all { master.link.flush() } }

    /// All lanes are somebody's, and all their links hold; nil. Else the reason, "" while the first attempt is under way. `wasUp`: a master
    /// that joined just now is given time then.
    func problem(wasUp: Bool, at now: Instant) -> String? {
        var isWaiting = false
        for master in all where !master.lanes.isEmpty && !master.isUp {
            if wasUp && master.isJoining(at: now) { continue }
            if let problem = master.problem { return problem }
            isWaiting = true
        }
        if isCluster, let lane = owners.firstIndex(where: { $0 == nil }) {
            return all.isEmpty ? "" : "slot \(backend.keys.slots[lane]) of the cluster is nobody's"
        }
        return isWaiting || all.isEmpty ? "" : nil
    }

    /// In a cluster, how many of the masters are away, in words for everybody: which ones, the log says. nil: all of them, or none.
    var outage: String? {
        let serving = all.filter { !$0.lanes.isEmpty }
        let away = serving.count { !$0.isUp }
        guard isCluster, away > 0, away < serving.count else { return nil }
        return "\(away) of \(serving.count) masters of the Redis cluster \(away == 1 ? "is" : "are") away, and so are the channels there"
    }

    // MARK: Who has what

    /// The only master; nil: where it is isn't known yet.
    func setOnly(_ place: RedisURL.Place?) {
        let master = make(place)
        master.lanes = .all
    }

    /// The only master is elsewhere now.
    func moveOnly(to place: RedisURL.Place, because reason: String) {
        guard let master = all.first else { return }
        master.link.move(to: place, because: reason)
        master.subscriber.move(to: place, because: reason)
    }

    /// One node's view of the cluster. What it doesn't know stays as it was.
    func assign(_ slots: ClusterSlots) {
        var lanes: [RedisURL.Place: LaneSet] = [:]
        for (lane, place) in slots.owners.enumerated() {
            if let told = redirected[lane], loop.now.since(told) < Masters.gossip { continue }
            if let place { lanes[place, default: LaneSet()].insert(lane) }
        }
        for (place, lanes) in lanes { move(lanes, to: place) }
        backend.lanesMoved()
    }

    /// A master's own word about its former lanes.
    func redirect(_ lanes: LaneSet, to place: RedisURL.Place) {
        for lane in lanes { redirected[lane] = loop.now }
        move(lanes, to: place)
        backend.lanesMoved()
    }

    private func move(_ lanes: LaneSet, to place: RedisURL.Place) {
        var moved = LaneSet()
        for lane in lanes where owners[lane]?.link.place != place { moved.insert(lane) }
        guard !moved.isEmpty else { return }
        let target = all.first { $0.link.place == place } ?? make(place)
        for lane in moved {
            let before = owners[lane]
            owners[lane] = target
            target.lanes.insert(lane)
            before?.lanes.remove(lane)
            before?.subscriber.forgive(lane)
            backend.link.laneMoved(lane)
        }
        backend.subscriber.set.linkLost(in: moved)
        // Moved, or taken over by a replica: nobody says which.
        backend.doubt(in: moved)
        // Who has the deployment's configuration checks it; a link that isn't up yet does when it comes up.
        if moved.contains(Lane.configuration) { target.link.checkConfigurationIfUp() }
    }

    private func make(_ place: RedisURL.Place?) -> Master {
        made += 1
        let (link, subscriber) = backend.makeLinks(place)
        let master = Master(number: made, link: link, subscriber: subscriber, since: loop.now)
        all.append(master)
        if isStarted { start(master, at: loop.now) }
        return master
    }
}
