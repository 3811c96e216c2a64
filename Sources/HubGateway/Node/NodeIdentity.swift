import HubBase
import HubCore
import HubNet

/// Who this node is.
package struct NodeIdentity: Sendable {
    /// For people.
    package let name: Name
    /// 12 random characters, new with each start of the process.
    package let incarnation: Name

    package init(name: Name, incarnation: Name) {
        self.name = name
        self.incarnation = incarnation
    }

    /// `<incarnation>-<serial>`: never repeats, can't be chosen by clients, holds no bar.
    package func connection(_ serial: UInt64) -> Name {
        Name(trusted: incarnation.bytes + [UInt8(ascii: "-")] + Array(String(serial, radix: 36).utf8))
    }

    /// The node that a connection id names, ours or another's; nil when it's none that a node makes.
    package static func incarnation(of connection: Name) -> Name? {
        guard let dash = connection.bytes.firstIndex(of: UInt8(ascii: "-")) else { return nil }
        return connection.bytes[..<dash].withUnsafeBytes { NodeName.parse($0) }
    }

    /// Which of our connections a connection id names; nil for another node's.
    package func serial(of connection: Name) -> ConnectionSerial? {
        let prefix = incarnation.bytes.count + 1
        guard connection.bytes.count > prefix, connection.bytes.starts(with: incarnation.bytes),
            let value = UInt64(String(decoding: connection.bytes[prefix...], as: UTF8.self), radix: 36)
        else { return nil }
        return ConnectionSerial(value: value)
    }
}

/// A connection's number in its node: the loop, the generation and the index in one word. Unique as long as an index isn't reused four
/// billion times, and it leads back to the connection without a table.
package struct ConnectionSerial: Sendable, Equatable {
    package let value: UInt64

    package init(value: UInt64) { self.value = value }

    package init(loop: Int, _ id: ConnectionID) {
        precondition(loop < 256 && id.index < 1 << 24)
        value = UInt64(loop) << 56 | UInt64(id.generation) << 24 | UInt64(id.index)
    }

    package var loop: Int { Int(value >> 56) }
    package var id: ConnectionID {
        ConnectionID(index: UInt32(value & 0xFF_FFFF), generation: UInt32(truncatingIfNeeded: value >> 24))
    }
}
