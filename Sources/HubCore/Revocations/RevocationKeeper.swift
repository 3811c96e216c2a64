import HubBase
import HubWire

/// Knows the revocations of all nodes: they're kept in a channel that no client can name, so they have what every channel has: an order, a history
/// that outlives nodes, delivery to every node, and word of whatever was missed.
///
/// A machine: answers, publications and the time in, actions out. It reads the channel's history when it starts and whenever the link to the
/// others was lost; until that's done it isn't current, and the node lets nobody in. What it knows is never forgotten before its time, so that a
/// history that is lost meanwhile is written anew by those who know it: every few seconds it looks where the channel stands, since a Redis can
/// lose its data without losing a link. What is about to be pushed out of the history by newer ones is written anew, too.
package struct RevocationKeeper {
    package enum Action: Sendable, Equatable {
        case subscribe
        case read(HistoryQuery)
        /// Answer: `checked`.
        case check(HistoryQuery)
        case publish(Publication)
        /// For the node's loops. `isLive`: said just now.
        case tell([Revocation], isLive: Bool)
        /// What came isn't a revocation.
        case foreign
    }

    private enum State: Equatable {
        case waiting(until: Instant)
        case subscribing
        case reading
        case current
    }

    /// Its first byte is a control character: no client's channel, no namespace of a configuration.
    package static let channel = Name(trusted: [1] + Array("revocations".utf8))
    package static var namespace: String { String(decoding: channel.bytes, as: UTF8.self) }

    package static func options(lifeMax: Span) -> HistoryOptions {
        var options = HistoryOptions()
        // Those that have expired lie among those that hold.
        options.size = RevocationList.countMax * 2
        options.ttl = lifeMax + .seconds(3600)
        return options
    }

    private static let retry = Span.seconds(1)
    private static let pageLimit = 1000
    /// How often it looks where the channel stands.
    package static let checkInterval = Span.seconds(3)
    /// What's written anew in one tick: the others' publications have their turn as well.
    package static let rewritesPerTick = 50
    /// Publications after which all are read again, and how far from the history's end one counts as good as lost.
    private static let rereadAfter = UInt64(RevocationList.countMax / 2)
    private static let depthMax = UInt64(RevocationList.countMax * 2) - 2 * rereadAfter

    package private(set) var list = RevocationList()
    private var state: State
    private var isUp = false
    /// Known before anything was read, for the loops.
    private var untold: [Revocation]
    /// It has read all since the link was lost last.
    private var hasRead = false
    /// Read in this reading so far.
    private var read: Set<Revocation> = []
    /// Still to be written anew.
    private var lost: [Revocation] = []
    /// Where the channel stood when it was last looked at, and when all was read.
    private var tip = Position.start
    private var readTo: UInt64 = 0
    private var checkAt: Instant
    private var expiredAt: UInt64 = 0

    /// `known`: what outlived the last process elsewhere than in the channel.
    package init(known: [Revocation] = [], at now: Instant) {
        state = .waiting(until: now)
        checkAt = now
        untold = known
        for revocation in known { list.add(revocation) }
    }

    /// Whether it knows all that the others know.
    package var isCurrent: Bool { state == .current || hasRead }

    // MARK: The broker's word

    package mutating func health(_ health: BackendHealth, at now: Instant) {
        switch health {
        case .down: isUp = false
        case .up: isUp = true
        }
        resync(at: now)
    }

    package mutating func tick(at now: Instant, wall: UInt64) -> [Action] {
        if wall >= expiredAt &+ 10_000 || wall < expiredAt {
            expiredAt = wall
            list.expire(at: wall)
        }
        var actions: [Action] = untold.isEmpty ? [] : [.tell(untold, isLive: false)]
        untold = []
        guard isUp else { return actions }
        switch state {
        case .waiting(let until) where now >= until:
            state = .subscribing
            actions.append(.subscribe)
        case .current:
            actions += rewrites(wall)
            if now >= checkAt {
                checkAt = now + Self.checkInterval
                actions.append(.check(HistoryQuery(isReverse: true, limit: 1)))
            }
        default: break
        }
        return actions
    }

    package mutating func subscribed(_ result: Result<Position, WireError>, at now: Instant) -> [Action] {
        guard state == .subscribing else { return [] }
        guard case .success = result else {
            state = .waiting(until: now + Self.retry)
            return []
        }
        state = .reading
        read = []
        return [.read(HistoryQuery(limit: Self.pageLimit))]
    }

    package mutating func historyRead(_ result: Result<HistoryPage, WireError>, at now: Instant, wall: UInt64) -> [Action] {
        guard state == .reading else { return [] }
        guard case .success(let page) = result else {
            state = .waiting(until: now + Self.retry)
            return []
        }
        var found: [Revocation] = []
        for entry in page.publications {
            guard let revocation = Revocation(payload: entry.publication.payload) else { continue }
            if page.tip.offset < entry.position.offset &+ Self.depthMax { read.insert(revocation) }
            if revocation.expires > wall, list.add(revocation) { found.append(revocation) }
        }
        var actions: [Action] = found.isEmpty ? [] : [.tell(found, isLive: false)]
        if page.hasMore, let last = page.publications.last {
            actions.append(.read(HistoryQuery(after: .offset(last.position.offset), limit: Self.pageLimit)))
        } else {
            state = .current
            hasRead = true
            tip = page.tip
            readTo = page.tip.offset
            checkAt = now + Self.checkInterval
            lost = list.all.filter { $0.expires > wall && !read.contains($0) }
            read = []
            actions += rewrites(wall)
        }
        return actions
    }

    /// What others have lost is said again; several nodes say it with the same id, so it counts once.
    private mutating func rewrites(_ wall: UInt64) -> [Action] {
        defer { lost.removeLast(min(lost.count, Self.rewritesPerTick)) }
        return lost.suffix(Self.rewritesPerTick).filter { $0.expires > wall }.map { .publish(Self.publication($0, wall: wall)) }
    }

    /// One that was written anew.
    package mutating func rewritten(_ result: Result<PublishResult, WireError>, at now: Instant) {
        guard case .failure = result, state == .current else { return }
        readAgain(at: now + Self.checkInterval)
    }

    /// Where the channel stands: elsewhere than it was, or much further, all is read again. The node is current meanwhile.
    package mutating func checked(_ result: Result<HistoryPage, WireError>, at now: Instant) {
        guard state == .current, case .success(let page) = result else { return }
        let isSame = page.tip.epoch == tip.epoch && (page.tip.offset > tip.offset || page.tip == tip)
        tip = page.tip
        if !isSame || page.tip.offset &- readTo > Self.rereadAfter { readAgain(at: now) }
    }

    private mutating func readAgain(at time: Instant) { state = .waiting(until: time) }

    package mutating func received(_ publication: Publication, wall: UInt64) -> [Action] {
        guard let revocation = Revocation(payload: publication.payload) else { return [.foreign] }
        guard revocation.expires > wall, list.add(revocation) else { return [] }
        return [.tell([revocation], isLive: true)]
    }

    /// Some may have been missed.
    package mutating func resync(at now: Instant) {
        hasRead = false
        readAgain(at: now)
    }

    // MARK: Saying one

    package static func publication(_ revocation: Revocation, wall: UInt64) -> Publication {
        Publication(
            messageClass: .event, user: .empty, device: .empty, messageId: revocation.id, time: wall, payload: revocation.payload)
    }
}
