/// The number that stands for a field's name in MessagePack's short form: its place in this list (docs/protocol.md, the short form).
///
/// The list only grows, at its end: clients have the numbers built in. A field that the hub writes or reads has one, or it doesn't compile
/// (`FieldLabel`) or fails a test (`RequestField`). The first 128 travel in one byte.
package enum WireField: UInt8, Sendable, CaseIterable {
    case type, id, channel, offset, position, user, device, time, messageId, payload, event, channels, users, code, message, retry,
        retryAfter
    case reason, recovered, publications, more, reads, duplicate, status, version, lastSeen, changes, stale, connection, node, ping, limits
    case messageBytes, tokenExpires, returnAfter, `in`, `class`, count, key, token, members, cursor, since, before, sinceTime, beforeTime
    case limit, reverse, age, occupancy, joined, left, updated, sequence, mode, devices, previous
}
