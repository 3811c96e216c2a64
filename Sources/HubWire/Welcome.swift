import HubBase

/// What every connection is told first, once it is authenticated.
package struct Welcome: Sendable {
    package var connection: Name
    package var node: Name
    package var user: Name
    package var device: Name
    package var pingMilliseconds: UInt64
    package var messageBytesMax: UInt64
    package var channelsMax: UInt64
    package var channels: [SubscribeResult]
    /// Milliseconds since 1970.
    package var tokenExpires: UInt64?

    package init(
        connection: Name, node: Name, user: Name, device: Name, pingMilliseconds: UInt64, messageBytesMax: UInt64, channelsMax: UInt64,
        channels: [SubscribeResult], tokenExpires: UInt64?
    ) {
        self.connection = connection
        self.node = node
        self.user = user
        self.device = device
        self.pingMilliseconds = pingMilliseconds
        self.messageBytesMax = messageBytesMax
        self.channelsMax = channelsMax
        self.channels = channels
        self.tokenExpires = tokenExpires
    }
}
