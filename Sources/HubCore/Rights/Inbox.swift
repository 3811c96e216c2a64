import HubBase

/// `user:<id>`: a user's own channel, which the hub subscribes each of the user's connections to.
package enum Inbox {
    package static let prefix = Array("user:".utf8)

    /// nil when the id leaves no room for the prefix in a channel name.
    package static func channel(of user: Name) -> Name? {
        guard prefix.count + user.bytes.count <= Name.lengthMax else { return nil }
        return Name(trusted: prefix + user.bytes)
    }

    /// The user whose inbox the channel is; nil when it isn't one.
    package static func owner(of channel: Name) -> ArraySlice<UInt8>? {
        channel.bytes.starts(with: prefix) ? channel.bytes.dropFirst(prefix.count) : nil
    }
}
