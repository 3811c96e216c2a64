import HubBase
import HubCore
import HubWire

/// An entry of a user's trail, as the presence scripts write it: `oc1796011158488123:1796011158488:0:17:rsxdpqu6wmqc-jpia6:node-16:device1700000000000`.
/// That is letter of the state (o, a, f), letter of the cause, version, ms, and then length-prefixed: the sweeper's name, the connection's id, and
/// what the record kept of it (`ConnectionValue` without its state); the last is absent where the record was lost.
package enum TrailEntry {
    private static let colon = UInt8(ascii: ":")

    /// nil for anything that the scripts wouldn't have written.
    package static func parse(_ bytes: UnsafeRawBufferPointer) -> PresenceTransition? {
        var rest = bytes
        guard let letter = rest.take(count: 1)?.first, let status = status(letter),
            let cause = rest.take(count: 1)?.first.flatMap({ PresenceCause(rawValue: $0) }),
            let version = rest.take(until: colon, limit: 16)?.decimal, version < 1 << 53,
            let time = rest.take(until: colon, limit: 16)?.decimal, time < 1 << 53, let sweeper = name(&rest)
        else { return nil }
        return place(&rest, status, cause, version: version, time: time, sweeper: sweeper)
    }

    /// What a record keeps of the close that began its grace: `ms;`, letter of the cause, connection and what was kept of it. nil when it's an
    /// older hub's, which kept the moment alone.
    package static func close(_ bytes: UnsafeRawBufferPointer) -> PresenceTransition? {
        var rest = bytes
        guard let time = rest.take(until: UInt8(ascii: ";"), limit: 16)?.decimal, time < 1 << 53,
            let cause = rest.take(count: 1)?.first.flatMap({ PresenceCause(rawValue: $0) })
        else { return nil }
        return place(&rest, .offline, cause, version: 0, time: time, sweeper: .empty)
    }

    private static func place(
        _ rest: inout UnsafeRawBufferPointer, _ status: PresenceStatus, _ cause: PresenceCause, version: UInt64, time: UInt64, sweeper: Name
    ) -> PresenceTransition? {
        guard let connection = name(&rest) else { return nil }
        var transition = PresenceTransition(
            status: status, cause: cause, version: version, time: time, sweeper: sweeper, connection: connection, node: .empty,
            device: .empty)
        guard rest.count > 0 else { return transition }
        guard let node = name(&rest), let device = name(&rest), rest.decimal != nil else { return nil }
        transition.node = node
        transition.device = device
        return transition
    }

    private static func status(_ letter: UInt8) -> PresenceStatus? {
        switch letter {
        case UInt8(ascii: "o"): .online
        case UInt8(ascii: "a"): .away
        case UInt8(ascii: "f"): .offline
        default: nil
        }
    }

    private static func name(_ rest: inout UnsafeRawBufferPointer) -> Name? { ConnectionValue.name(&rest) }
}
