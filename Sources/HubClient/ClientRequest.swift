import HubBase
import HubWire

/// What the machine itself asks the hub for; `encode` puts it on the wire.
package enum ClientRequest: Sendable, Equatable {
    /// Where the transport couldn't carry the token in a header.
    case connect(id: UInt64)
    case subscribe(id: UInt64, Name, position: Position?)
    /// Several at once: after a reconnect they cost one round trip, not one each.
    case subscribeAll(id: UInt64, [Wanted])
    case history(id: UInt64, Name, since: Position)
    case publish(id: UInt64, OutgoingMessage, age: UInt64?, since: Position?)
    case unsubscribe(id: UInt64, Name)
    case presence(id: UInt64, Payload.Status)
    case watch(id: UInt64, [Name])
    case unwatch(id: UInt64, [Name])

    package struct Wanted: Sendable, Equatable {
        package var channel: Name
        package var position: Position?

        package init(channel: Name, position: Position?) {
            self.channel = channel
            self.position = position
        }
    }

    /// `token` and `device` are for `connect` only: the machine never holds a secret.
    package func encode(token: String, device: Name?, into buffer: inout ByteBuffer) {
        switch self {
        case .connect(let id): RequestEncoder.connect(id: id, token: token, device: device, into: &buffer)
        case .subscribe(let id, let channel, let position):
            RequestEncoder.subscribe(id: id, channel: channel, position: position, into: &buffer)
        case .subscribeAll(let id, let wanted):
            RequestEncoder.subscribe(id: id, channels: wanted.map { ($0.channel, $0.position) }, into: &buffer)
        case .history(let id, let channel, let since):
            RequestEncoder.history(id: id, channel: channel, since: since, limit: nil, into: &buffer)
        case .publish(let id, let message, let age, let since):
            message.payload.withUnsafeBytes {
                RequestEncoder.publish(
                    message.messageClass, id: id, channel: message.channel, messageId: message.messageId, payload: $0, age: age,
                    since: since, into: &buffer)
            }
        case .unsubscribe(let id, let channel): RequestEncoder.unsubscribe(id: id, channel: channel, into: &buffer)
        case .presence(let id, let status): RequestEncoder.presence(id: id, status: status, into: &buffer)
        case .watch(let id, let users): RequestEncoder.watch(id: id, users: users, isUnwatch: false, into: &buffer)
        case .unwatch(let id, let users): RequestEncoder.watch(id: id, users: users, isUnwatch: true, into: &buffer)
        }
    }
}
