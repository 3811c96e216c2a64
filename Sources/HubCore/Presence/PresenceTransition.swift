import HubBase
import HubWire

/// One change of a user's state, and what made it: an entry of the trail that `explain` shows. Stores keep the last `kept` of a user.
package struct PresenceTransition: Sendable, Equatable {
    package var status: PresenceStatus
    package var cause: PresenceCause
    package var version: UInt64
    /// Milliseconds since 1970, of the store's clock.
    package var time: UInt64
    /// The node whose sweep made it; empty: it was made by the connection's own node.
    package var sweeper: Name
    /// The connection that it came from; empty when its record was lost.
    package var connection: Name
    package var node: Name
    package var device: Name

    package init(
        status: PresenceStatus, cause: PresenceCause, version: UInt64, time: UInt64, sweeper: Name, connection: Name, node: Name,
        device: Name
    ) {
        self.status = status
        self.cause = cause
        self.version = version
        self.time = time
        self.sweeper = sweeper
        self.connection = connection
        self.node = node
        self.device = device
    }

    /// As many as can be asked for; a store may keep a few more.
    package static let kept = 50
}

/// Why a user's state changed. The raw value is its letter in Redis.
package enum PresenceCause: UInt8, Sendable, CaseIterable {
    /// A connection came.
    case connected = 0x63  // c
    /// The client asked for it.
    case setOnline = 0x6F  // o
    case setAway = 0x61  // a
    case setInvisible = 0x69  // i
    /// `awayAfter` passed without activity.
    case idle = 0x64  // d
    /// Activity ended that.
    case active = 0x62  // b
    /// Its lease was found ended, and the peer proved that it lives.
    case heartbeat = 0x68  // h
    /// The store had lost the record; a node that lives wrote it again.
    case restored = 0x72  // r
    /// The client said goodbye.
    case left = 0x78  // x
    /// The connection ended without a goodbye.
    case lost = 0x6C  // l
    /// The lease ran out: the node didn't renew it.
    case expired = 0x65  // e
    /// The same, of a node that no longer announced itself.
    case nodeDead = 0x6E  // n

    package var name: StaticString {
        switch self {
        case .connected: "connected"
        case .setOnline: "setOnline"
        case .setAway: "setAway"
        case .setInvisible: "setInvisible"
        case .idle: "idle"
        case .active: "active"
        case .heartbeat: "heartbeat"
        case .restored: "restored"
        case .left: "left"
        case .lost: "lost"
        case .expired: "expired"
        case .nodeDead: "nodeDead"
        }
    }

    /// What an operation that changed the state is noted as.
    ///
    /// - Parameters:
    ///   - isNew: the store didn't hold this connection.
    ///   - hasRecord: it knew the user.
    package init(of operation: PresenceOperation, isNew: Bool, hasRecord: Bool) {
        switch operation.kind {
        case .restore: self = hasRecord ? .heartbeat : .restored
        case .down: self = operation.isAsked ? .left : .lost
        case .up where isNew: self = operation.isKnown ? (hasRecord ? .heartbeat : .restored) : .connected
        case .up(.online): self = operation.isAsked ? .setOnline : .active
        case .up(.away): self = operation.isAsked ? .setAway : .idle
        case .up(.invisible): self = .setInvisible
        }
    }
}
