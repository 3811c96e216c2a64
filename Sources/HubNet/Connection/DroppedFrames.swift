/// How many frames of each class that may be dropped were.
package struct DroppedFrames: Sendable, Equatable {
    package var typing: UInt64 = 0
    /// Older values that a newer one behind them made needless.
    package var presence: UInt64 = 0
    package var read: UInt64 = 0

    package init(typing: UInt64 = 0, presence: UInt64 = 0, read: UInt64 = 0) {
        self.typing = typing
        self.presence = presence
        self.read = read
    }

    package var isEmpty: Bool { typing | presence | read == 0 }

    mutating func count(_ sendClass: SendClass) {
        switch sendClass {
        case .typing: typing += 1
        case .presence: presence += 1
        case .read: read += 1
        case .reply, .publication, .system: preconditionFailure("a \(sendClass) is never dropped from a queue that goes on")
        }
    }

    static func += (left: inout DroppedFrames, right: DroppedFrames) {
        left.typing += right.typing
        left.presence += right.presence
        left.read += right.read
    }
}
