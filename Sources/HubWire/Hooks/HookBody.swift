import HubBase

/// The body of a webhook, JSON (docs/hooks.md): events of one partition, in order.
package enum HookBody {
    /// - Parameter lost: events of this partition that were dropped since that was last told; a member of the body when there are any.
    package static func append(_ events: [HookEvent], partition: Int, lost: UInt64, to body: inout ByteBuffer) {
        body.append("{")
        if lost > 0 {
            body.appendField("\"lost\":", lost)
            body.append(",")
        }
        body.append("\"events\":[")
        for (place, event) in events.enumerated() {
            if place > 0 { body.append(",") }
            append(event, partition: partition, to: &body)
        }
        body.append("]}")
    }

    private static func append(_ event: HookEvent, partition: Int, to body: inout ByteBuffer) {
        body.append("{\"id\":\"")
        append(event.id, partition: partition, to: &body)
        body.append("\",\"type\":\"")
        body.append(event.kind.name)
        if event.kind.isOfUser {
            body.appendField("\",\"user\":", event.name)
            body.append(",\"status\":\"")
            body.append(event.status.name)
            body.appendField("\",\"version\":", event.version)
            body.appendField(",\"time\":", event.id.milliseconds)
            if event.kind == .userOffline { body.appendField(",\"lastSeen\":", event.time) }
        } else {
            body.appendField("\",\"channel\":", event.name)
            body.appendField(",\"occupancy\":", event.occupancy)
            body.appendField(",\"time\":", event.id.milliseconds)
        }
        body.append("}")
    }

    /// "17.1764530000000.0".
    package static func append(_ id: HookEventID, partition: Int, to body: inout ByteBuffer) {
        body.append(decimal: UInt64(max(partition, 0)))
        body.append(".")
        body.append(decimal: id.milliseconds)
        body.append(".")
        body.append(decimal: id.sequence)
    }
}
