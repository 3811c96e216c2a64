import HubBase
import HubWire

/// What the machine itself asks the hub for; `encode` puts it on the wire.
package enum ClientRequest: Sendable, Equatable {
    /// Where the transport couldn't carry the token in a header.
    case connect(id: UInt64)
    case subscribe(id: UInt64, Name, position: Position?)
    case unsubscribe(id: UInt64, Name)
    case presence(id: UInt64, Payload.Status)
    case watch(id: UInt64, [Name])
    case unwatch(id: UInt64, [Name])

    /// `token` and `device` are for `connect` only: the machine never holds a secret.
    package func encode(token: String, device: Name?, into buffer: inout ByteBuffer) {
        switch self {
        case .connect(let id): RequestEncoder.connect(id: id, token: token, device: device, into: &buffer)
        case .subscribe(let id, let channel, let position):
            RequestEncoder.subscribe(id: id, channel: channel, position: position, into: &buffer)
        case .unsubscribe(let id, let channel): RequestEncoder.unsubscribe(id: id, channel: channel, into: &buffer)
        case .presence(let id, let status): RequestEncoder.presence(id: id, status: status, into: &buffer)
        case .watch(let id, let users): RequestEncoder.watch(id: id, users: users, isUnwatch: false, into: &buffer)
        case .unwatch(let id, let users): RequestEncoder.watch(id: id, users: users, isUnwatch: true, into: &buffer)
        }
    }
}
