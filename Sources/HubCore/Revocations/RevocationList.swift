import HubBase

/// The revocations that hold: what a token is held against at the door. A value; the time is an argument.
///
/// One of everybody's takes the place of those that say nothing beyond it. Cost: a look-up of the user, and one of the token's id where any are
/// revoked; one of everybody's looks at all. Each entry is some hundred bytes.
package struct RevocationList: Sendable {
    /// Users' and tokens'.
    private var held: [Revocation.Subject: Revocation] = [:]
    /// Of connections: they end within a minute, and no token is held against them.
    private var ended: [Revocation.Subject: Revocation] = [:]
    private var everyone: Revocation?
    /// Of connections, beyond those that have a place: somebody's who came by then.
    private var endedBeyond: Revocation?

    /// Users' and tokens' that a hub keeps at most. Each holds as long as the longest token; beyond this, revoking all takes the place of thousands.
    package static let countMax = 10_000
    /// Of connections. Beyond it they're told, and of all together the latest time is remembered.
    package static let endedMax = 1_000
    /// What a token's `iat` may be ahead of the node that takes it, whatever the configuration: `auth.leeway` can't be more.
    private static let leewayMax: UInt64 = 600_000

    package init() {}

    package var count: Int { held.count + ended.count + (everyone == nil ? 0 : 1) }
    package var isEmpty: Bool { held.isEmpty && ended.isEmpty && everyone == nil }
    package var all: [Revocation] { tokens + ended.values }
    /// Those that tokens are held against.
    package var tokens: [Revocation] { held.values + (everyone.map { [$0] } ?? []) }

    /// Whether one more can be kept without losing another: always, where it takes the place of one or is said already.
    package func hasRoom(for revocation: Revocation) -> Bool {
        switch revocation.subject {
        case .everyone, .connections: true
        case .user, .token: held.count < Self.countMax || held[revocation.subject] != nil || isSaid(revocation)
        }
    }

    /// When the first of the users' and tokens' ends, and makes room.
    package var firstEnd: UInt64? { held.values.lazy.map(\.expires).min() }

    /// False when it says nothing that isn't known. Of two for the same the one that reaches further counts.
    @discardableResult
    package mutating func add(_ revocation: Revocation) -> Bool {
        switch revocation.subject {
        case .everyone:
            let joined = Self.further(everyone, revocation)
            guard joined != everyone else { return false }
            everyone = joined
            held = held.filter { !isSaid($0.value) }
            return true
        case .connections:
            let known = ended[revocation.subject]
            let joined = Self.further(known, revocation)
            if joined != known {
                if known != nil || ended.count < Self.endedMax {
                    ended[revocation.subject] = joined
                } else {
                    endedBeyond = Self.further(endedBeyond, revocation)
                }
            }
            return joined != known
        case .user, .token:
            let known = held[revocation.subject]
            let joined = Self.further(known, revocation)
            guard joined != known, !isSaid(revocation) else { return false }
            held[revocation.subject] = joined
            return true
        }
    }

    /// Whether the one of everybody's refuses every token that this one would, for as long. A token that was revoked by its id was issued by then, or
    /// as much later as a hub lets it be ahead.
    private func isSaid(_ revocation: Revocation) -> Bool {
        guard let everyone, everyone.expires >= revocation.expires else { return false }
        switch revocation.subject {
        case .user: return everyone.before >= revocation.before
        case .token: return everyone.before >= Self.leewayMax && everyone.before - Self.leewayMax >= revocation.before
        case .everyone, .connections: return false
        }
    }

    private static func further(_ known: Revocation?, _ new: Revocation) -> Revocation {
        guard var known else { return new }
        known.before = max(known.before, new.before)
        known.expires = max(known.expires, new.expires)
        return known
    }

    /// Whether a token is revoked. `issued` nil: the token doesn't say, so it may be as old as any.
    package func refuses(_ user: Name, issued: UInt64?, tokenId: Name?) -> Bool {
        if held.isEmpty && everyone == nil { return false }
        if let everyone, Self.covers(everyone, issued) { return true }
        if let ofUser = held[.user(user)], Self.covers(ofUser, issued) { return true }
        guard let tokenId else { return false }
        return held[.token(tokenId)] != nil
    }

    /// Whether the user's connections of that time were ended, and may return; nil: not as far as is remembered. Of whom too many were ended to remember
    /// each that came by then may have been: it may return. `since`: milliseconds since 1970.
    package func ended(_ user: Name, since: UInt64) -> Bool? {
        if let forGood = ended[.connections(user, mayReturn: false)], since <= forGood.before { return false }
        if let forNow = ended[.connections(user, mayReturn: true)], since <= forNow.before { return true }
        if let endedBeyond, since <= endedBeyond.before { return true }
        return nil
    }

    package static func covers(_ revocation: Revocation, _ issued: UInt64?) -> Bool { issued.map { $0 <= revocation.before } ?? true }

    /// Forgets what no token can be affected by any more.
    package mutating func expire(at now: UInt64) {
        if let everyone, everyone.expires <= now { self.everyone = nil }
        if let endedBeyond, endedBeyond.expires <= now { self.endedBeyond = nil }
        if held.contains(where: { $0.value.expires <= now }) { held = held.filter { $0.value.expires > now } }
        if ended.contains(where: { $0.value.expires <= now }) { ended = ended.filter { $0.value.expires > now } }
    }
}
