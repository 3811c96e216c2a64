import HubBase

/// Writes a client's requests: what SDK, swarm and tools send. Fields in the order that docs/protocol.md shows, no white space.
package enum RequestEncoder {
    package static func connect(id: UInt64, token: String, device: Name?, into buffer: inout ByteBuffer) {
        begin("{\"type\":\"connect\"", id, &buffer)
        buffer.append(",\"token\":")
        buffer.appendQuoted(token)
        if let device { buffer.appendField(",\"device\":", device) }
        buffer.append(UInt8(ascii: "}"))
    }

    package static func subscribe(id: UInt64, channel: Name, position: Position?, into buffer: inout ByteBuffer) {
        begin("{\"type\":\"subscribe\"", id, &buffer)
        buffer.appendField(",\"channel\":", channel)
        if let position { buffer.appendField(",\"position\":", position) }
        buffer.append(UInt8(ascii: "}"))
    }

    /// Several channels, each with the position to recover from where there's one.
    package static func subscribe(
        id: UInt64, channels: [(channel: Name, position: Position?)], into buffer: inout ByteBuffer
    ) {
        begin("{\"type\":\"subscribe\"", id, &buffer)
        buffer.append(",\"channels\":[")
        var isFirst = true
        for (channel, position) in channels {
            buffer.appendField(isFirst ? "{\"channel\":" : ",{\"channel\":", channel)
            if let position { buffer.appendField(",\"position\":", position) }
            buffer.append(UInt8(ascii: "}"))
            isFirst = false
        }
        buffer.append("]}")
    }

    /// What was published after `since`, oldest first.
    package static func history(id: UInt64, channel: Name, since: Position, limit: UInt64?, into buffer: inout ByteBuffer) {
        begin("{\"type\":\"history\"", id, &buffer)
        buffer.appendField(",\"channel\":", channel)
        buffer.appendField(",\"since\":", since)
        if let limit { buffer.appendField(",\"limit\":", limit) }
        buffer.append(UInt8(ascii: "}"))
    }

    package static func unsubscribe(id: UInt64, channel: Name, into buffer: inout ByteBuffer) {
        begin("{\"type\":\"unsubscribe\"", id, &buffer)
        buffer.appendField(",\"channel\":", channel)
        buffer.append(UInt8(ascii: "}"))
    }

    /// `chat`, `event`, `typing` and `read`; `payload` is JSON text. `age` (milliseconds since it was first sent) makes it a retry, `since`
    /// says where the sender knew the channel to be then.
    package static func publish(
        _ type: MessageClass, id: UInt64?, channel: Name, messageId: Name?, payload: UnsafeRawBufferPointer, age: UInt64? = nil,
        since: Position? = nil, into buffer: inout ByteBuffer
    ) {
        buffer.append("{\"type\":\"")
        buffer.append(type.name)
        begin("\"", id, &buffer)
        buffer.appendField(",\"channel\":", channel)
        if let messageId { buffer.appendField(",\"messageId\":", messageId) }
        if let age { buffer.appendField(",\"age\":", age) }
        if let since { buffer.appendField(",\"since\":", since) }
        buffer.append(",\"payload\":")
        buffer.append(payload)
        buffer.append(UInt8(ascii: "}"))
    }

    package static func presence(id: UInt64, status: Payload.Status, into buffer: inout ByteBuffer) {
        begin("{\"type\":\"presence\"", id, &buffer)
        switch status {
        case .online: buffer.append(",\"payload\":{\"status\":\"online\"}}")
        case .away: buffer.append(",\"payload\":{\"status\":\"away\"}}")
        case .invisible: buffer.append(",\"payload\":{\"status\":\"invisible\"}}")
        }
    }

    package static func watch(id: UInt64, users: [Name], isUnwatch: Bool, into buffer: inout ByteBuffer) {
        begin(isUnwatch ? "{\"type\":\"unwatch\"" : "{\"type\":\"watch\"", id, &buffer)
        buffer.append(",\"users\":[")
        var isFirst = true
        for user in users {
            buffer.appendField(isFirst ? "" : ",", user)
            isFirst = false
        }
        buffer.append("]}")
    }

    package static func leave(id: UInt64?, into buffer: inout ByteBuffer) {
        begin("{\"type\":\"leave\"", id, &buffer)
        buffer.append(UInt8(ascii: "}"))
    }

    package static func ping(id: UInt64?, into buffer: inout ByteBuffer) {
        begin("{\"type\":\"ping\"", id, &buffer)
        buffer.append(UInt8(ascii: "}"))
    }

    private static func begin(_ opening: StaticString, _ id: UInt64?, _ buffer: inout ByteBuffer) {
        buffer.append(opening)
        if let id { buffer.appendField(",\"id\":", id) }
    }
}
