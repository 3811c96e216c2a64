import HubBase
import HubWire

/// Which part of a channel's history is wanted: what lies between two bounds, in either direction, a page of it.
package struct HistoryQuery: Sendable, Equatable {
    package enum Bound: Sendable, Equatable {
        /// A place that a client or a node was at: its epoch and tag count too.
        case position(Position)
        case offset(UInt64)
        /// Milliseconds since 1970, by the clock of the node that took the publication: as exact as the nodes' clocks agree.
        case time(UInt64)

        /// Its offset; nil: only a look at the times tells.
        package var place: UInt64? {
            switch self {
            case .position(let position): position.offset
            case .offset(let offset): offset
            case .time: nil
            }
        }
    }

    /// Publications behind this one. A position, forwards: the page says whether it continues without a hole from there. A time: from that
    /// time on, the time itself included.
    package var after: Bound?
    /// Publications before this one.
    package var before: Bound?
    /// The newest first, from `before` (or the tip) downwards.
    package var isReverse: Bool
    /// Publications of one page, at least 1.
    package var limit: Int
    /// Bytes of one page's payloads, with or without what else is kept of a publication; the first one comes however large it is.
    package var bytesMax: Int

    package init(after: Bound? = nil, before: Bound? = nil, isReverse: Bool = false, limit: Int, bytesMax: Int = 256 * 1024) {
        self.after = after
        self.before = before
        self.isReverse = isReverse
        self.limit = limit
        self.bytesMax = bytesMax
    }
}

package struct HistoryPage: Sendable, Equatable {
    package enum Continuity: Sendable, Equatable {
        /// `after` wasn't a position (and `before` was none that the channel can't have given out).
        case notAsked
        /// Nothing is missing between `after` and the page's first publication (or the tip, when the page is empty); where the newest comes
        /// first: between its publications, and between the last one and `after` where nothing more lies behind.
        case whole
        case broken(RecoveryFailure)
    }

    /// In the order that was asked for. Continuity broken: from the oldest that's kept, wherever `after` was, since nothing that's kept is
    /// known to the asker for sure; none when it was `before` that can't be a place of the channel.
    package var publications: [PositionedPublication]
    /// Where the channel stood when the page was read.
    package var tip: Position
    /// More lie behind the page's last one, in its direction, within the bounds.
    package var hasMore: Bool
    package var continuity: Continuity

    package init(publications: [PositionedPublication], tip: Position, hasMore: Bool, continuity: Continuity) {
        self.publications = publications
        self.tip = tip
        self.hasMore = hasMore
        self.continuity = continuity
    }
}

/// Why it can't be proved that nothing was missed; the name travels as `reason`.
package enum RecoveryFailure: String, Sendable, CaseIterable {
    /// The channel began anew.
    case epochChanged
    /// Something after the position isn't kept any more (or the namespace keeps no history).
    case trimmed
    /// The position's offset holds another publication now: history was rolled back.
    case rolledBack
    /// The channel hasn't got that far.
    case ahead

    /// The rule of redis-design §4, for a client at `position` of a channel at `tip`. `first`: the oldest publication that is kept behind the
    /// position's offset. nil: the history continues from the position without a hole.
    package static func judge(_ position: Position, tip: Position, first: PositionedPublication?) -> RecoveryFailure? {
        if position.isOrigin {
            // The generation tells whether it's still the same life of the channel (decision 0135).
            guard position.tag != .none else { return .epochChanged }
            guard tip.offset > 0 else { return position.tag == tip.tag ? nil : .epochChanged }
            guard let first, first.position.offset == 1 else { return .trimmed }
            return first.previous == position.tag ? nil : .epochChanged
        }
        if position == tip { return nil }
        if position.epoch != tip.epoch { return .epochChanged }
        if position.offset > tip.offset { return .ahead }
        if position.offset == tip.offset { return .rolledBack }
        guard let first, first.position.offset == position.offset + 1 else { return .trimmed }
        return first.previous == position.tag ? nil : .rolledBack
    }

    /// Why a position to page back from is none of this channel's, going by where it stands; what stands at the place is to be asked besides.
    package static func judge(before: Position, tip: Position) -> RecoveryFailure? {
        if before.isOrigin { return nil }
        if before.epoch != tip.epoch { return .epochChanged }
        return before.offset > tip.offset ? .ahead : nil
    }
}

/// What makes a publication a retry, where its sender says so.
package struct PublishAttempt: Sendable, Equatable {
    /// How long ago the sender first sent it, by the sender's own clock. Within the namespace's dedup window its message id alone decides.
    package var age: Span
    /// Where the sender knew the channel to be when it first sent it: beyond the window, history after it decides, or nothing can
    /// (`uncertain`).
    package var since: Position?

    package init(age: Span, since: Position?) {
        self.age = age
        self.since = since
    }

    /// Or may be by the time the store looks: the call may lie in front of it for as long as a link is kept without an answer (15 s), and the
    /// sender's clock and ours don't count from the same instant. A short window can't give so much away.
    package func isOlder(than dedup: Span) -> Bool { age + max(.seconds(1), min(.seconds(15), dedup.scaled(by: 0.25))) >= dedup }
}

extension WireError {
    package static let uncertain = WireError(
        .uncertain,
        "It can't be told any more whether this message was published: its id is forgotten, and history doesn't reach back. Read the history."
    )
    package static let takenBack = WireError(
        .uncertain,
        "This message was published, but the channel's data was lost since, and it with them. Read the history; a new message needs a new id."
    )
    package static func readAhead(of end: UInt64) -> WireError {
        WireError(.badPosition, "The read position is ahead of the channel, which is at \(end).")
    }

    package static let readersFull = WireError(
        .storeFull, "The channel keeps the read positions of \(ReadMark.perChannel) users, and no more.", mayRetry: false)
}

extension HistoryPage {
    /// As much of it as weighs no more than `bytes` on the wire; the first publication however large it is. The rest is `hasMore`.
    package func trimmed(to bytes: Int, channel: Name, format: WireFormat) -> HistoryPage {
        var left = bytes
        let fits = publications.prefix { next in
            left -= next.publication.weight(channel: channel, format)
            return left >= 0
        }.count
        let count = max(fits, min(publications.count, 1))
        guard count < publications.count else { return self }
        var page = self
        page.publications.removeLast(publications.count - count)
        page.hasMore = true
        return page
    }
}

extension Publication {
    /// What it weighs at most, or nearly so, in an answer of that format: a payload of the other format may grow sixfold.
    package func weight(channel: Name, _ format: WireFormat) -> Int {
        let names = channel.bytes.count + user.bytes.count + device.bytes.count + messageId.bytes.count
        return payload.count * (payloadFormat == format.payload ? 1 : 6) + names * 2 + 200
    }
}
