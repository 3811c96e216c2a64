import HubBase
import HubWire

/// The body of a feed publication: transitions of one script call, one after another, each `state:version:ms:length:user`. The user id is
/// length-prefixed: its bytes come through as they are, and nothing needs to be unescaped.
package enum FeedPayload {
    /// At most as many as one script call can make.
    package static let limit = 250

    /// nil when any of it isn't ours.
    package static func parse(_ bytes: UnsafeRawBufferPointer) -> [PresenceChange]? {
        var changes: [PresenceChange] = []
        var rest = bytes
        let colon = UInt8(ascii: ":")
        while rest.count > 0 {
            guard changes.count < limit,
                let status = rest.take(until: colon, limit: 7).flatMap({ PresenceStatus($0) }),
                let version = rest.take(until: colon, limit: 16)?.decimal, version < 1 << 53,
                let moment = rest.take(until: colon, limit: 16)?.decimal, moment < 1 << 53,
                let length = rest.take(until: colon, limit: 3)?.decimal,
                let bytes = rest.take(count: Int(length)), let user = Name(validating: bytes)
            else { return nil }
            changes.append(PresenceChange(user: user, status: status, version: version, lastSeen: moment))
        }
        return changes
    }
}
