import HubBase
import HubCore
import HubWire

/// A channel's live messages on one node: handed on in order, held while a hole before them is filled from history (redis-design §4, "Live
/// message"). A machine: messages, pages and positions go in, what is to be told comes out.
///
/// The rule: nothing newer is told while something older may be missing; what can't be had is announced (`resync`) before what follows it.
/// A message that history doesn't know although it was heard before the read isn't the channel's: whoever wrote it, it's dropped.
package struct ChannelFeed {
    package enum Verdict: Equatable {
        case deliver
        /// To be handed on after a gap before it is announced: what was acknowledged at its place, or before it, was taken back.
        case deliverAfterGap
        /// Known already.
        case drop
        /// It's to be given to `hold`.
        case hold
    }

    /// What subscribers are to be told, in order.
    package enum Told: Equatable {
        case publication(PositionedPublication)
        case resync(Position, ResyncReason)
        /// Nothing, but one message that wasn't the channel's is dropped.
        case stranger
    }

    package internal(set) var chain = Chain()
    private var promises = Promises()
    /// Rare, so a place of its own: a subscription that has none pays a word for it.
    private var filling: Filling?

    private final class Filling {
        /// What a hole that history can't fill is called.
        let reason: ResyncReason
        /// Messages heard since, in their order.
        var held: [Heard] = []
        var bytes = 0
        /// How many of them were heard before the read under way was sent.
        var asked = 0
        var isReading = false
        /// Some were heard after that read was sent, and let go: it has to be read again.
        var hasOverflowed = false
        /// The latest place that the channel is known to have got to.
        var latest: Position

        init(_ reason: ResyncReason, latest: Position) {
            self.reason = reason
            self.latest = latest
        }
    }

    /// Messages held for a channel, and what they weigh. Beyond it they're let go, and read instead.
    package static let heldMax = 512
    package static let heldBytesMax = 1 << 20

    package init() {}

    package var position: Position? { chain.position }
    package var isFilling: Bool { filling != nil }
    /// Waits for a read to be sent.
    package var needsRead: Bool { filling.map { !$0.isReading } ?? false }
    package var heldBytes: Int { filling?.bytes ?? 0 }

    // MARK: Messages

    /// Cost: no allocation.
    package mutating func judge(_ next: Position, previous: Mark, pongs: UInt64) -> Verdict {
        // Nothing continues an origin whose generation isn't known: whether something is missing can't be told.
        guard filling == nil, chain.position != .start else { return .hold }
        var moved = chain
        switch moved.judge(next, previous: previous, pongs: pongs) {
        case .deliver:
            chain = moved
            guard promises.pass(next) else { return .deliver }
            promises.forget()
            return .deliverAfterGap
        case .drop:
            chain = moved
            return .drop
        case .resync: return .hold
        }
    }

    /// Keeps a message until what's before it is known. `reason`: what the hole is called if it begins with this message. `isShort`: the node
    /// holds as much as it may.
    package mutating func hold(_ message: Heard, reason: ResyncReason, isShort: Bool) {
        let filling = filling ?? Filling(reason, latest: message.position)
        self.filling = filling
        filling.latest = message.position
        if isShort || filling.held.count >= ChannelFeed.heldMax || filling.bytes + message.weight > ChannelFeed.heldBytesMax {
            filling.held.removeAll()
            filling.bytes = 0
            filling.asked = 0
            filling.hasOverflowed = true
        } else {
            filling.held.append(message)
            filling.bytes += message.weight
        }
    }

    // MARK: Promises

    /// One of this node's publications was acknowledged at `position`. Cost: a comparison.
    package mutating func acknowledged(at position: Position) {
        if let known = chain.position { promises.make(position, at: known) }
    }

    /// The command link that acknowledged is lost.
    package mutating func commandsLost() { promises.doubt() }

    // MARK: Positions

    /// The channel's place was read from its meta key, after the subscription was confirmed or because nothing came for a while. Where it
    /// isn't ours a read follows.
    package mutating func read(_ current: Position, reason: ResyncReason, pings: UInt64) {
        guard filling == nil else { return }
        if let known = chain.position, known != current || promises.isBroken(by: current) {
            filling = Filling(reason, latest: current)
        } else {
            _ = chain.read(current, pings: pings)
        }
    }

    // MARK: Reads

    /// From where history is to be read; the read counts as sent.
    package mutating func takeRead() -> Position? {
        guard let filling, !filling.isReading, let position = chain.position else { return nil }
        filling.isReading = true
        filling.asked = filling.held.count
        filling.hasOverflowed = false
        return position
    }

    /// What was read. `pings`: how many PINGs the subscriber links have been sent by now.
    package mutating func filled(_ page: StreamPage, pings: UInt64) -> [Told] {
        guard let filling, filling.isReading else { return [] }
        filling.isReading = false
        var told: [Told] = []
        if let failure = page.failure {
            giveUp(filling, to: page.tip, failure == .trimmed ? filling.reason : .epochChanged, pings, &told)
        } else {
            if promises.isBroken(by: page.tip), let position = chain.position {
                promises.forget()
                told.append(.resync(position, .epochChanged))
            }
            for entry in page.entries { tell(entry, &told) }
            if page.hasMore { return told }
            chain.settle(pings: pings)
        }
        replay(filling, &told)
        return told
    }

    /// The read failed. `isLasting`: it would fail again.
    package mutating func readFailed(isLasting: Bool, pings: UInt64) -> [Told] {
        guard let filling, filling.isReading else { return [] }
        filling.isReading = false
        guard isLasting else { return [] }
        var told: [Told] = []
        giveUp(filling, to: filling.latest, filling.reason, pings, &told)
        replay(filling, &told)
        self.filling = nil
        return told
    }

    /// The link is lost: what it brought is forgotten, the next one begins with a position that's compared.
    package mutating func linkLost() { filling = nil }

    // MARK: Telling

    private mutating func tell(_ message: Heard, _ told: inout [Told]) {
        if promises.pass(message.position) {
            promises.forget()
            told.append(.resync(message.before, .epochChanged))
        }
        chain.move(to: message.position)
        if let publication = message.publication {
            told.append(
                .publication(PositionedPublication(position: message.position, previous: message.previous, publication: publication)))
        } else {
            // It has a place in the channel but can't be shown: a hole, and holes are announced.
            told.append(.resync(message.position, .gap))
        }
    }

    /// What's missing can't be had. Subscribers go on from the oldest held message that leads to the present without a hole, or else from
    /// the tip. Of offsets that were told before, in this epoch, none is told again: a message that comes late can't be known from one that
    /// took its place after a failover.
    private mutating func giveUp(_ filling: Filling, to tip: Position, _ reason: ResyncReason, _ pings: UInt64, _ told: inout [Told]) {
        func isNew(_ message: Heard) -> Bool {
            message.position.epoch != chain.position?.epoch || message.position.offset > chain.position?.offset ?? 0
        }
        var start = tip
        if let last = filling.held.last, isNew(last), last.position.epoch == tip.epoch,
            last.position.offset < tip.offset || last.position == tip
        {
            var first = filling.held.count - 1
            while first > 0, isNew(filling.held[first - 1]), filling.held[first].continues(filling.held[first - 1].position) { first -= 1 }
            start = filling.held[first].before
            filling.held.removeFirst(first)
            filling.asked = max(0, filling.asked - first)
        }
        promises.forget()
        chain.move(to: start)
        chain.settle(pings: pings)
        told.append(.resync(start, reason))
    }

    /// Tells what was held, as far as it continues what was read; then the feed is live again, or reads once more.
    private mutating func replay(_ filling: Filling, _ told: inout [Told]) {
        var index = 0
        while index < filling.held.count, let known = chain.position {
            let message = filling.held[index]
            if message.continues(known) {
                tell(message, &told)
            } else if message.position.epoch == known.epoch, message.position.offset < known.offset || message.position == known {
                // It was read, or lies before what was read.
            } else if index >= filling.asked {
                // Heard after the read was sent: the next one knows.
                filling.held.removeFirst(index)
                filling.bytes = filling.held.reduce(0) { $0 + $1.weight }
                filling.asked = 0
                return
            } else {
                told.append(.stranger)
            }
            index += 1
        }
        filling.held.removeAll()
        filling.bytes = 0
        if !filling.hasOverflowed { self.filling = nil }
    }
}
