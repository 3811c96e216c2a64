import HubBase

/// The revocations that hold: what a token is held against at the door. A value; the time is an argument.
///
/// Cost: a look-up of the user, and one of the token's id where any are revoked. Each entry is some hundred bytes.
package struct RevocationList: Sendable {
    private var held: [Revocation.Subject: Revocation] = [:]
    private var everyone: Revocation?

    /// What a hub keeps at most. Each holds as long as the longest token; beyond this, revoking by time takes the place of thousands.
    package static let countMax = 10_000

    package init() {}

    package var count: Int { held.count + (everyone == nil ? 0 : 1) }
    package var isEmpty: Bool { held.isEmpty && everyone == nil }
    package var all: [Revocation] { held.values + (everyone.map { [$0] } ?? []) }

    /// False when it says nothing that isn't known. Of two for the same the one that reaches further counts.
    @discardableResult
    package mutating func add(_ revocation: Revocation) -> Bool {
        if revocation.subject == .everyone {
            let joined = Self.further(everyone, revocation)
            defer { everyone = joined }
            return joined != everyone
        }
        let known = held[revocation.subject]
        let joined = Self.further(known, revocation)
        guard joined != known else { return false }
        held[revocation.subject] = joined
        return true
    }

    private static func further(_ known: Revocation?, _ new: Revocation) -> Revocation {
        guard var known else { return new }
        known.before = max(known.before, new.before)
        known.expires = max(known.expires, new.expires)
        return known
    }

    /// Whether a token is revoked. `issued` nil: the token doesn't say, so it may be as old as any.
    package func refuses(_ user: Name, issued: UInt64?, tokenId: Name?) -> Bool {
        if isEmpty { return false }
        if let everyone, Self.covers(everyone, issued) { return true }
        if let ofUser = held[.user(user)], Self.covers(ofUser, issued) { return true }
        guard let tokenId else { return false }
        return held[.token(tokenId)] != nil
    }

    package static func covers(_ revocation: Revocation, _ issued: UInt64?) -> Bool { issued.map { $0 <= revocation.before } ?? true }

    /// Forgets what no token can be affected by any more.
    package mutating func expire(at now: UInt64) {
        if let everyone, everyone.expires <= now { self.everyone = nil }
        guard held.contains(where: { $0.value.expires <= now }) else { return }
        held = held.filter { $0.value.expires > now }
    }
}
