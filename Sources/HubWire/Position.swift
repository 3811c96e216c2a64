import HubBase

/// A place in a channel: epoch, offset and the tag of the message there. One opaque string to clients: `epoch.offset.tag`.
///
/// The tag tells a history that was rolled back from one that went on (`docs/decisions`, redis-design §0.6): after a failover that lost
/// writes, the same offset in the same epoch can hold another message. A channel of which there's nothing is at its *origin*, which has no
/// epoch: `("", 0, generation)`, where the generation is a word that is lost with the data (decision 0135). The first message comes after
/// that tag, so it's known from the first message of another life.
package struct Position: Hashable, Sendable {
    package var epoch: Mark
    package var offset: UInt64
    package var tag: Mark

    package init(epoch: Mark, offset: UInt64, tag: Mark) {
        self.epoch = epoch
        self.offset = offset
        self.tag = tag
    }

    /// The origin of nobody knows which generation, `.0.`: nothing continues it.
    package static let start = Position(epoch: .none, offset: 0, tag: .none)

    package static func origin(_ generation: Mark) -> Position { Position(epoch: .none, offset: 0, tag: generation) }

    package var isOrigin: Bool { epoch == .none && offset == 0 }

    /// Whether the message at `next`, which came after the tag `previous`, is the one behind this place. From an origin any epoch goes on: the
    /// tag tells the life.
    package func isContinued(by next: Position, previous: Mark) -> Bool {
        next.offset == offset &+ 1 && previous == tag && (next.epoch == epoch || isOrigin && tag != .none)
    }

    /// 8 + 1 + 16 + 1 + 8: offsets stay below 2^53.
    package static let textLengthMax = 34
}
