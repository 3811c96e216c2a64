import HubBase
import HubWire

/// What a connection may do. Asked for every request that names a channel or a user; no question allocates.
package enum Rights: Sendable, Equatable {
    /// Development mode.
    case everything
    /// An API key: every channel and user, as far as its scopes go.
    case key(reads: Bool, publishes: Bool)
    /// A user with a token: what was granted. Inboxes are their owners', whatever was granted: the owner hears and reads its own, nobody else does
    /// anything in it.
    case token(Name, Grants)

    package func maySubscribe(to channel: Name) -> Bool { may(.subscribe, in: channel) }
    /// `typing` and `read` too.
    package func mayPublish(to channel: Name) -> Bool { may(.publish, in: channel) }
    package func mayReadHistory(of channel: Name) -> Bool { may(.history, in: channel) }
    /// Whether it may know who is in the channel.
    package func maySeeMembers(of channel: Name) -> Bool { may(.presence, in: channel) }

    /// Whether it may follow the presence of `user`, and hear of them in any other way: itself always, others by the rule (presence.watch).
    package func mayWatch(_ user: Name, by rule: WatchRule) -> Bool {
        switch self {
        case .everything: return true
        case .key(let reads, _): return reads
        case .token(let own, let grants):
            if own == user { return true }
            return switch rule {
            case .everyone: true
            case .listed: grants.allowWatching(user)
            case .nobody: false
            }
        }
    }

    private func may(_ permission: Permissions, in channel: Name) -> Bool {
        switch self {
        case .everything: return true
        case .key(let reads, let publishes): return permission == .publish ? publishes : reads
        case .token(let user, let grants):
            guard let owner = Inbox.owner(of: channel) else { return grants.allow(permission, in: channel) }
            guard owner.elementsEqual(user.bytes) else { return false }
            return permission != .publish || grants.allow(.publish, in: channel)
        }
    }

    /// Why it may not. `permission` is what was asked for.
    package func refusal(_ permission: Permissions, in channel: Name? = nil) -> WireError {
        if case .key = self {
            return WireError(.forbidden, "the API key lacks the scope for this (api.keys): read to subscribe and watch, publish to publish")
        }
        if case .token(let user, _) = self, let owner = channel.flatMap({ Inbox.owner(of: $0) }), !owner.elementsEqual(user.bytes) {
            return WireError(.forbidden, "a channel user:<id> is the inbox of that user alone")
        }
        let right = permission.words.first ?? ""
        return WireError(.forbidden, "the right \"\(right)\" is missing here: a token's caps grant it, or namespaces.NAME.rights")
    }
}
