import HubBase
import HubWire

/// What an error reply of Redis means for us, by its first word.
package enum RedisFault: Equatable {
    /// The script isn't loaded: load and call again.
    case noScript
    /// maxmemory is reached: nothing was written.
    case full
    /// This server can't take writes now, or isn't the right one: leave it, and try again.
    case wrongServer
    /// A misuse, ours or the operator's.
    case other

    package init(_ text: UnsafeRawBufferPointer) {
        if text.hasPrefix("NOSCRIPT") {
            self = .noScript
        } else if text.hasPrefix("OOM") || text.hasPrefix("-OOM") {
            self = .full
        } else if RedisFault.leaving.contains(where: { text.hasPrefix($0) }) {
            self = .wrongServer
        } else {
            self = .other
        }
    }

    private static let leaving: [StaticString] = [
        "READONLY", "LOADING", "MASTERDOWN", "NOREPLICAS", "CLUSTERDOWN", "BUSY", "NOAUTH", "MISCONF", "UNBLOCKED", "MOVED", "ASK",
    ]

    package func wireError(_ text: String) -> WireError {
        switch self {
        case .full: WireError(.storeFull, "Redis is out of memory; retry later.", retryAfter: 2000)
        case .noScript, .wrongServer: .redisAway
        case .other: WireError(.internal, "Redis refused a command: \(text)")
        }
    }
}

extension WireError {
    package static let redisAway = WireError(.unavailable, "Redis can't be reached; retry later.", retryAfter: 1000)
    package static let redisFull = WireError(.overloaded, "Too many requests wait for Redis; retry later.", retryAfter: 1000)
    package static let notOurs = WireError(.internal, "Redis gave an answer that isn't ours to read.")
}
