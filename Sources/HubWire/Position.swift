import HubBase

/// A place in a channel: epoch, offset and the tag of the message there. One opaque string to clients: `epoch.offset.tag`.
///
/// The tag tells a history that was rolled back from one that went on (`docs/decisions`, redis-design §0.6): after a failover that lost
/// writes, the same offset in the same epoch can hold another message. A channel that never had one is at `("", 0, "")`, written `.0.`.
package struct Position: Hashable, Sendable {
    package var epoch: Mark
    package var offset: UInt64
    package var tag: Mark

    package init(epoch: Mark, offset: UInt64, tag: Mark) {
        self.epoch = epoch
        self.offset = offset
        self.tag = tag
    }

    package static let start = Position(epoch: .none, offset: 0, tag: .none)

    /// 8 + 1 + 16 + 1 + 8: offsets stay below 2^53.
    package static let textLengthMax = 34
}
