import HubBase
import HubCore
import HubWire

/// What a user's record keeps of one connection, field `c:<connection>`: the state's letter (all that scripts look at), then node, device
/// and since: `o;4:node6:device1700000000000`. Names are length-prefixed, because they may hold any character.
package enum ConnectionValue {
    /// As *apply* takes it: `age;` in front, milliseconds, from which the script makes `since` by Redis's clock.
    package static func append(state: ConnectionState, node: Name, device: Name, age: Span, to buffer: inout ByteBuffer) {
        buffer.append(decimal: age.milliseconds)
        buffer.append(UInt8(ascii: ";"))
        switch state {
        case .online: buffer.append("o;")
        case .away: buffer.append("a;")
        case .invisible: buffer.append("i;")
        }
        for name in [node, device] {
            buffer.append(decimal: UInt64(name.bytes.count))
            buffer.append(UInt8(ascii: ":"))
            buffer.append(name.bytes)
        }
    }

    package struct Parsed: Equatable {
        package var state: ConnectionState
        package var node: Name
        package var device: Name
        package var since: UInt64
    }

    /// nil for anything that *apply* wouldn't have written.
    package static func parse(_ bytes: UnsafeRawBufferPointer) -> Parsed? {
        var rest = bytes
        guard let letter = rest.take(count: 1)?.first, rest.take(count: 1)?.first == UInt8(ascii: ";") else { return nil }
        let state: ConnectionState
        switch letter {
        case UInt8(ascii: "o"): state = .online
        case UInt8(ascii: "a"): state = .away
        case UInt8(ascii: "i"): state = .invisible
        default: return nil
        }
        guard let node = name(&rest), let device = name(&rest), let since = rest.decimal else { return nil }
        return Parsed(state: state, node: node, device: device, since: since)
    }

    /// A length-prefixed name, which may be empty.
    static func name(_ rest: inout UnsafeRawBufferPointer) -> Name? {
        guard let length = rest.take(until: UInt8(ascii: ":"), limit: 3)?.decimal, length <= UInt64(Name.lengthMax),
            let bytes = rest.take(count: Int(length))
        else { return nil }
        return bytes.count == 0 ? .empty : Name(validating: bytes)
    }
}

extension PresenceStatus {
    /// As records and feeds spell it.
    package init?(_ text: UnsafeRawBufferPointer) {
        if text.equals("online") {
            self = .online
        } else if text.equals("away") {
            self = .away
        } else if text.equals("offline") {
            self = .offline
        } else {
            return nil
        }
    }
}
