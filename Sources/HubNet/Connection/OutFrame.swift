/// A message in this turn's arena. One value for every wire form of it: the connection's own form (plain; deflated where that was agreed, once
/// for all) is chosen as it's sent.
package struct OutFrame: Sendable {
    package let start: UInt32
    package let count: UInt32
    /// Among the frames of this turn: where its other forms and its label are found.
    let number: UInt32
}

package enum MessageKind: UInt8, Sendable { case text = 1, binary = 2 }

/// What a queued frame is worth when a queue runs full (architecture, step 7).
package enum SendClass: UInt8, Sendable {
    case reply, publication, presence, read, typing, system

    /// May be left out of a queue that runs full: typing altogether, presence and read positions once a newer value waits behind them.
    @inline(__always)
    var isDroppable: Bool { self == .typing || self == .presence || self == .read }
}
