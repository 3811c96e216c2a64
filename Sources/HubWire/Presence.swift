import HubBase

package enum PresenceStatus: UInt8, Sendable, CaseIterable {
    case offline = 0
    case away = 1
    case online = 2

    /// What travels.
    var word: WireWord {
        switch self {
        case .offline: .offline
        case .away: .away
        case .online: .online
        }
    }

    package var name: StaticString { word.text }
}

/// The state of a user at a version; versions only grow, an older one never overwrites a newer.
package struct PresenceChange: Sendable, Equatable {
    package var user: Name
    package var status: PresenceStatus
    /// 0 for a user who was never seen.
    package var version: UInt64
    /// Milliseconds since 1970 (Redis's clock): the last change; for an offline user, when last seen. 0 for never.
    package var lastSeen: UInt64

    package init(user: Name, status: PresenceStatus, version: UInt64, lastSeen: UInt64) {
        self.user = user
        self.status = status
        self.version = version
        self.lastSeen = lastSeen
    }
}
