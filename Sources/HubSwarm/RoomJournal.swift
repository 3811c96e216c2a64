import HubBase

/// What the swarm knows of one room: how far it was acknowledged, and which message stands at which offset. 16 bytes a message for the
/// last 4,096 of them, so that a long run costs no more than a short one.
///
/// Receivers are checked for gaps by offsets alone (`Receiver`). This here finds what offsets can't show: one message stored at two
/// offsets, a sender's messages stored in another order than sent, one offset that means two things.
package struct RoomJournal: Sendable {
    package struct Message: Sendable, Equatable {
        package var bot: UInt32
        package var sequence: UInt32

        package init(bot: UInt32, sequence: UInt32) {
            self.bot = bot
            self.sequence = sequence
        }
    }

    package enum Verdict: Sendable, Equatable {
        /// Agrees with what was known, or is the first word on this offset.
        case consistent
        /// Another message stood there: the offset was given twice, or two receivers were told different things.
        case contradicts
        /// The sender's own last message once more, at a later offset.
        case storedTwice
        /// A message of the sender stands behind one that it sent later.
        case reordered
    }

    private struct Slot: Sendable {
        var offset: UInt64 = 0
        var message = Message(bot: 0, sequence: 0)
    }

    private static let slotsMax = 4096
    private var slots: [Slot] = []
    /// The highest offset that anybody was handed.
    private var tip: UInt64 = 0
    /// The highest offset that a sender got an ack for.
    package private(set) var acknowledged: UInt64 = 0
    /// Acks that were counted: what receivers should have seen, were it not for their own beginnings and ends.
    package private(set) var acks: UInt64 = 0

    package init() {}

    /// A sender was told that its message stands at `offset`.
    package mutating func acknowledge(_ message: Message, at offset: UInt64) -> Verdict {
        acknowledged = max(acknowledged, offset)
        acks += 1
        return note(message, at: offset)
    }

    /// A receiver was handed the message at `offset`. `lastSequence`: of the message's sender, kept by the caller, 0 at first; sequences
    /// begin at 1.
    package mutating func deliver(_ message: Message, at offset: UInt64, lastSequence: inout UInt32) -> Verdict {
        let verdict = note(message, at: offset)
        guard offset > tip, verdict == .consistent else { return verdict }
        tip = offset
        if message.sequence == lastSequence { return .storedTwice }
        if message.sequence < lastSequence { return .reordered }
        lastSequence = message.sequence
        return .consistent
    }

    /// The channel began anew: offsets of before mean nothing.
    package mutating func restart() {
        acknowledged = 0
        tip = 0
        slots.removeAll(keepingCapacity: true)
    }

    private mutating func note(_ message: Message, at offset: UInt64) -> Verdict {
        let place = Int(offset % UInt64(Self.slotsMax))
        while slots.count <= place { slots.append(Slot()) }
        if slots[place].offset == offset { return slots[place].message == message ? .consistent : .contradicts }
        // An offset of a lap ago is no longer known, and not worth what is known now.
        if slots[place].offset < offset { slots[place] = Slot(offset: offset, message: message) }
        return .consistent
    }
}
