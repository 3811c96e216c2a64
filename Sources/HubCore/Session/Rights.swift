import HubBase
import HubWire

/// What a connection may do. The whole of rights (patterns in the token, rules of namespaces) widens this value; its questions stay.
package enum Rights: Sendable, Equatable {
    /// Development mode.
    case everything
    /// An API key: every channel, as far as its scopes go.
    case key(reads: Bool, publishes: Bool)
    /// A user with a token: every channel but the inboxes of others.
    case user(Name)

    package func maySubscribe(to channel: Name) -> Bool {
        if case .key(let reads, _) = self { return reads }
        return reaches(channel)
    }

    /// `typing` and `read` too.
    package func mayPublish(to channel: Name) -> Bool {
        if case .key(_, let publishes) = self { return publishes }
        return reaches(channel)
    }

    package var mayWatch: Bool {
        if case .key(let reads, _) = self { return reads }
        return true
    }

    /// Whether it may watch this user: itself always, others by the rule.
    package func mayWatch(_ user: Name, by rule: WatchRule) -> Bool {
        switch self {
        case .everything: true
        case .key(let reads, _): reads
        case .user(let own): user == own || rule == .everyone
        }
    }

    /// Why it may not.
    package var refusal: WireError {
        switch self {
        case .key: WireError(.forbidden, "the API key lacks the scope for this (api.keys): read to subscribe and watch, publish to publish")
        case .everything, .user: WireError(.forbidden, "a channel user:<id> is the inbox of that user alone")
        }
    }

    private func reaches(_ channel: Name) -> Bool {
        switch self {
        case .everything, .key: return true
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
