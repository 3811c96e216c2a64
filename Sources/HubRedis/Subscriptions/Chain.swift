import HubBase
import HubCore
import HubWire

/// A node's place in one channel or feed, and the rule that tells whether the next message continues it (redis-design §4, "Live message").
/// A value; no message is ever passed over in silence: it's either known to be in the past, or what's missing is named.
struct Chain: Equatable {
    enum Verdict: Equatable {
        case deliver
        /// Known already.
        case drop
        /// Something may be missing before this message, which itself is to be delivered after the announcement of `from`.
        case resync(from: Position, ResyncReason)
    }

    /// nil: not known yet; the first message sets it.
    private(set) var position: Position?
    /// Until the subscriber link has had this many pongs, messages from before a position that was *read* may still be on their way.
    private var settledAfterPongs: UInt64 = 0

    /// Judges a message and moves on to it unless it's dropped. `pongs`: how many the subscriber link has had.
    mutating func judge(_ next: Position, previous: Mark, pongs: UInt64) -> Verdict {
        let before = Position(epoch: next.epoch, offset: next.offset - 1, tag: previous)
        guard let known = position else {
            position = next
            return .deliver
        }
        if known.epoch == next.epoch || known == .start {
            if next.offset == known.offset + 1 && previous == known.tag {
                position = next
                return .deliver
            }
            if next.offset == known.offset && next.tag == known.tag { return .drop }
            if next.offset < known.offset && pongs < settledAfterPongs { return .drop }
        }
        position = next
        let isAhead = (known.epoch == next.epoch || known == .start) && next.offset > known.offset + 1
        return .resync(from: before, isAhead ? .gap : .epochChanged)
    }

    /// Takes a position that was read from the meta key after the subscription was confirmed. Returns whether something was missed: the
    /// position was known, and isn't this one.
    mutating func read(_ current: Position, pings: UInt64) -> ResyncReason? {
        settledAfterPongs = pings + 1
        guard let known = position else {
            position = current
            return nil
        }
        if known == current { return nil }
        position = current
        let isAhead = known == .start || (known.epoch == current.epoch && current.offset > known.offset)
        return isAhead ? .linkLost : .epochChanged
    }
}
