import HubBase
import HubCore
import HubWire

/// A node's place in one channel or feed, and the rule that tells whether the next message continues it (redis-design §4, "Live message").
/// A value; no message is ever passed over in silence: it's either known to be in the past, or what's missing is named.
package struct Chain: Equatable {
    package enum Verdict: Equatable {
        case deliver
        /// Known already.
        case drop
        /// Something may be missing before this message, which itself is to be delivered after the announcement of `from`.
        case resync(from: Position, ResyncReason)
    }

    /// nil: not known yet; the first message sets it.
    package private(set) var position: Position?
    /// Until the subscriber link has had this many pongs, or has brought a message from the position on, messages from before a position
    /// that was *read* may still be on their way: the two links don't wait for each other.
    private var settledAfterPongs: UInt32 = 0

    package init() {}

    /// Judges a message and moves on to it unless it's dropped. `pongs`: how many the subscriber link has had.
    package mutating func judge(_ next: Position, previous: Mark, pongs: UInt64) -> Verdict {
        let before = Position(epoch: next.epoch, offset: next.offset - 1, tag: previous)
        guard let known = position else {
            position = next
            return .deliver
        }
        if known.epoch == next.epoch || known.isOrigin {
            if next.offset == known.offset + 1 && previous == known.tag {
                position = next
                settledAfterPongs = 0
                return .deliver
            }
            if next.offset == known.offset && next.tag == known.tag {
                settledAfterPongs = 0
                return .drop
            }
            if next.offset < known.offset && pongs < UInt64(settledAfterPongs) { return .drop }
        }
        settledAfterPongs = 0
        position = next
        let isAhead = (known.epoch == next.epoch || known.isOrigin) && next.offset > known.offset + 1
        return .resync(from: before, isAhead ? .gap : .epochChanged)
    }

    /// Goes on from a place that history told.
    mutating func move(to next: Position) { position = next }

    /// Messages from before the position may still come, until a PING that's sent from now on is answered.
    mutating func settle(pings: UInt64) { settledAfterPongs = UInt32(clamping: pings + 1) }

    /// Takes a position that was read from the meta key after the subscription was confirmed. Returns whether something was missed: the
    /// position was known, and isn't this one.
    package mutating func read(_ current: Position, pings: UInt64) -> ResyncReason? {
        settle(pings: pings)
        guard let known = position else {
            position = current
            return nil
        }
        if known == current { return nil }
        position = current
        let isAhead = known.isOrigin || (known.epoch == current.epoch && current.offset > known.offset)
        return isAhead ? .linkLost : .epochChanged
    }

    /// Takes a position that was read while it was idle. As `read`, but where a message came faster than the answer, nothing was missed.
    package mutating func check(_ current: Position, pings: UInt64) -> ResyncReason? {
        if let known = position, known.epoch == current.epoch, known.offset >= current.offset { return nil }
        return read(current, pings: pings)
    }
}
