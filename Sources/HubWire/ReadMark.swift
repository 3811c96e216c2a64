import HubBase

/// How far a user has read a channel.
package struct ReadMark: Sendable, Equatable {
    package var user: Name
    package var offset: UInt64

    package init(user: Name, offset: UInt64) {
        self.user = user
        self.offset = offset
    }

    /// Users of one channel whose marks are kept; marks of others are refused.
    package static let perChannel = 10_000
}
