import HubBase

/// What a connection may do. The whole of rights (patterns in the token, rules of namespaces) widens this value; its questions stay.
package enum Rights: Sendable, Equatable {
    /// Development mode and API keys.
    case everything
    /// A user with a token: every channel but the inboxes of others.
    case user(Name)

    package func maySubscribe(to channel: Name) -> Bool { reaches(channel) }
    package func mayPublish(to channel: Name) -> Bool { reaches(channel) }

    private func reaches(_ channel: Name) -> Bool {
        switch self {
        case .everything: return true
        case .user(let user):
            guard let owner = Inbox.owner(of: channel) else { return true }
            return owner.elementsEqual(user.bytes)
        }
    }
}

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
