import HubBase

/// Judges what may be thinned but not mixed up: typing and read marks.
///
/// - `typing`: of one sender to one receiver in one channel never goes back to an older one of the same connection and never comes twice, and who was seen typing
///   is seen to have stopped within `stopsWithin` of the last sign, as long as the receiver stays (else it's stuck).
/// - `read`: a user's mark in a channel never goes back for one receiver.
///
/// What is missing is no fault: both may be left out under load, and typing is throttled. Cost: 40 bytes for each sender that a receiver
/// sees typing at the moment, or whose mark it has seen.
package struct EphemeralChecker {
    package enum Fault: String, Sendable, CaseIterable { case typingTwice, typingOutOfOrder, typingStuck, readWentBack }

    private struct Seat: Hashable {
        var receiver: UInt32
        var channel: UInt32
        var sender: UInt32
    }

    private struct Typing {
        var sequence: UInt32
        var isTyping: Bool
        var at: Instant
    }

    private let stopsWithin: Span
    private let seatsMax: Int
    private var typing: [Seat: Typing] = [:]
    private var marks: [Seat: UInt64] = [:]
    /// Of each sender: its last number on each connection that it had, but for those on which it said nothing.
    private var lasts: [Int: [UInt32]] = [:]
    package private(set) var counts: [Fault: UInt64] = [:]
    /// Messages that were looked at.
    package private(set) var judged: UInt64 = 0

    /// `seatsMax`: beyond so many pairs no new one is looked at, of either kind.
    package init(stopsWithin: Span, seatsMax: Int = 1_000_000) {
        self.stopsWithin = stopsWithin
        self.seatsMax = seatsMax
    }

    /// `sequence`: the sender's own number, which only grows; nil: the hub's own word that the sender has stopped. `since`: what the receiver
    /// saw before it stands no more: its connection is younger, or it was told then that signs were left out.
    package mutating func typing(
        _ isTyping: Bool, sequence: UInt32?, from sender: Int, in channel: Int, to receiver: Int, at now: Instant,
        since: Instant = Instant(nanoseconds: 0)
    ) {
        let seat = Seat(receiver: UInt32(clamping: receiver), channel: UInt32(clamping: channel), sender: UInt32(clamping: sender))
        guard var known = typing[seat] else {
            guard isTyping, typing.count < seatsMax else { return }
            judged += 1
            typing[seat] = Typing(sequence: sequence ?? 0, isTyping: true, at: now)
            return
        }
        judged += 1
        if let sequence {
            if sequence == known.sequence { count(.typingTwice) }
            if sequence < known.sequence, areOfOneConnection(sequence, known.sequence, of: sender) { count(.typingOutOfOrder) }
            known.sequence = max(known.sequence, sequence)
        }
        if known.isTyping, known.at >= since, now.since(known.at) > stopsWithin { count(.typingStuck) }
        known.isTyping = isTyping
        known.at = now
        typing[seat] = known
    }

    /// The sender's connection is over, on which its last number was `sequence`: what was under way on it may come behind what the next one
    /// brings, from another node.
    package mutating func cut(_ sender: Int, after sequence: UInt32) {
        guard sequence > lasts[sender]?.last ?? 0 else { return }
        lasts[sender, default: []].append(sequence)
    }

    /// Whether the sender had another connection in between. The latest are looked at first: it's about what comes late.
    private func areOfOneConnection(_ earlier: UInt32, _ later: UInt32, of sender: Int) -> Bool {
        guard let last = lasts[sender]?.last(where: { $0 < later }) else { return true }
        return last < earlier
    }

    package mutating func read(_ offset: UInt64, of sender: Int, in channel: Int, to receiver: Int) {
        let seat = Seat(receiver: UInt32(clamping: receiver), channel: UInt32(clamping: channel), sender: UInt32(clamping: sender))
        guard let known = marks[seat] else {
            if marks.count < seatsMax {
                judged += 1
                marks[seat] = offset
            }
            return
        }
        judged += 1
        if offset < known { count(.readWentBack) } else { marks[seat] = offset }
    }

    /// The receiver's connection is over: what it saw last stands no more. Cost: all that are seen at the moment.
    package mutating func ended(_ receivers: Set<Int>) {
        guard !receivers.isEmpty else { return }
        typing = typing.filter { !receivers.contains(Int($0.key.receiver)) }
        marks = marks.filter { !receivers.contains(Int($0.key.receiver)) }
    }

    /// Those that were seen typing for too long. Cost: all that are seen at the moment.
    package mutating func judge(_ now: Instant) {
        for (seat, known) in typing where known.isTyping && now.since(known.at) > stopsWithin {
            count(.typingStuck)
            typing[seat] = nil
        }
    }

    private mutating func count(_ fault: Fault) { counts[fault, default: 0] += 1 }
}
