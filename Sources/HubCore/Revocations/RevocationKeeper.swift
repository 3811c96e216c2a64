import HubBase
import HubWire

/// Knows the revocations of all nodes: they're kept in a channel that no client can name, so they have what every channel has: an order, a history
/// that outlives nodes, delivery to every node, and word of whatever was missed.
///
/// A machine: answers, publications and the time in, actions out. It reads the channel's history when it starts and whenever the link to the
/// others was lost; until that's done it isn't current, and the node lets nobody in. What it knows is never forgotten before its time, so that a
/// history that is lost meanwhile is written anew by those who know it.
package struct RevocationKeeper {
    package enum Action: Sendable, Equatable {
        case subscribe
        case read(HistoryQuery)
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

    package private(set) var list = RevocationList()
    private var state: State
    private var isUp = false
    /// Read in this reading so far.
    private var read: Set<Revocation> = []
    private var expiredAt: UInt64 = 0

    package init(at now: Instant) { state = .waiting(until: now) }

    /// Whether it knows all that the others know.
    package var isCurrent: Bool { state == .current }

    // MARK: The broker's word

    package mutating func health(_ health: BackendHealth, at now: Instant) {
        switch health {
        case .down: isUp = false
        case .up:
            isUp = true
            state = .waiting(until: now)
        }
    }

    package mutating func tick(at now: Instant, wall: UInt64) -> [Action] {
        if wall >= expiredAt &+ 10_000 || wall < expiredAt {
            expiredAt = wall
            list.expire(at: wall)
        }
        guard isUp, case .waiting(let until) = state, now >= until else { return [] }
        state = .subscribing
        return [.subscribe]
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
            read.insert(revocation)
            if revocation.expires > wall, list.add(revocation) { found.append(revocation) }
        }
        var actions: [Action] = found.isEmpty ? [] : [.tell(found, isLive: false)]
        if page.hasMore, let last = page.publications.last {
            actions.append(.read(HistoryQuery(after: .offset(last.position.offset), limit: Self.pageLimit)))
        } else {
            state = .current
            actions += rewrite(wall)
        }
        return actions
    }

    /// What others have lost is said again; several nodes say it with the same id, so it counts once.
    private mutating func rewrite(_ wall: UInt64) -> [Action] {
        defer { read = [] }
        return list.all.filter { $0.expires > wall && !read.contains($0) }.prefix(Self.pageLimit).map {
            .publish(Self.publication($0, wall: wall))
        }
    }

    package mutating func received(_ publication: Publication, wall: UInt64) -> [Action] {
        guard let revocation = Revocation(payload: publication.payload) else { return [.foreign] }
        guard revocation.expires > wall, list.add(revocation) else { return [] }
        return [.tell([revocation], isLive: true)]
    }

    /// Some may have been missed.
    package mutating func resync(at now: Instant) { state = .waiting(until: now) }

    // MARK: Saying one

    package static func publication(_ revocation: Revocation, wall: UInt64) -> Publication {
        Publication(
            messageClass: .event, user: .empty, device: .empty, messageId: revocation.id, time: wall, payload: revocation.payload)
    }
}
