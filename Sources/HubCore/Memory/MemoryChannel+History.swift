import HubBase
import HubWire

// Pages of what a channel keeps. Offsets in `history` follow each other without a hole, so a place is found by subtraction; a time by
// halving, as if times grew with offsets: nodes whose clocks disagree by some milliseconds make a bound by time that inexact.
extension MemoryChannel {
    /// Places in `history` of what lies behind an offset.
    func kept(after offset: UInt64) -> Range<Int> {
        guard let first = history.first?.position.offset, offset >= first else { return 0..<history.count }
        // Both are within 2^53 of each other when it's kept; anything larger is past the end.
        return Int(min(offset - first + 1, UInt64(history.count)))..<history.count
    }

    /// The rule of recovery for a client or a node at `position`.
    func judge(_ position: Position, _ origin: Position) -> RecoveryFailure? {
        let behind = kept(after: position.offset)
        return .judge(position, tip: tip(origin), first: behind.isEmpty ? nil : history[behind.lowerBound])
    }

    /// Another publication stands there, as far as that's known still.
    private func isElsewhere(_ place: Position, tip: Position) -> Bool {
        guard !place.isOrigin else { return false }
        if place.offset == tip.offset { return place.tag != tip.tag }
        guard place.offset > 0, let kept = kept(after: place.offset - 1).first.map({ history[$0].position }) else { return false }
        return kept.offset == place.offset && kept.tag != place.tag
    }

    func page(_ query: HistoryQuery, _ origin: Position) -> HistoryPage {
        let tip = tip(origin)
        var continuity = HistoryPage.Continuity.notAsked
        if case .position(let position)? = query.after {
            continuity = judge(position, origin).map { .broken($0) } ?? .whole
        }
        if case .position(let before)? = query.before,
            let failure = RecoveryFailure.judge(before: before, tip: tip) ?? (isElsewhere(before, tip: tip) ? .rolledBack : nil)
        {
            return HistoryPage(publications: [], tip: tip, hasMore: false, continuity: .broken(failure))
        }
        var low = 0
        switch query.after {
        case .position, .offset: if case .broken = continuity {} else { low = kept(after: query.after?.place ?? 0).lowerBound }
        case .time(let time): low = place(of: time)
        case nil: break
        }
        var high = history.count
        switch query.before {
        // Offset 0 is before the first.
        case .position(let position): high = position.offset == 0 ? 0 : kept(after: position.offset - 1).lowerBound
        case .offset(let offset): high = offset == 0 ? 0 : kept(after: offset - 1).lowerBound
        case .time(let time): high = place(of: time)
        case nil: break
        }
        var taken: [PositionedPublication] = []
        var bytes = 0
        while low < high, taken.count < max(1, query.limit) {
            let next = history[query.isReverse ? high - 1 : low]
            bytes += next.publication.payload.count
            if bytes > query.bytesMax && !taken.isEmpty { break }
            taken.append(next)
            if query.isReverse { high -= 1 } else { low += 1 }
        }
        return HistoryPage(publications: taken, tip: tip, hasMore: low < high, continuity: continuity)
    }

    /// The first place from `time` on.
    private func place(of time: UInt64) -> Int {
        var low = 0
        var high = history.count
        while low < high {
            let middle = (low + high) / 2
            if history[middle].publication.time < time { low = middle + 1 } else { high = middle }
        }
        return low
    }

    enum Search {
        case published(PositionedPublication)
        case notPublished
        case unknown
    }

    /// Whether a message was published after `since`, where history can tell. Cost: a look at each publication behind it.
    func search(for key: MessageKey, after since: Position?, _ origin: Position) -> Search {
        guard let since, judge(since, origin) == nil else { return .unknown }
        for place in kept(after: since.offset) {
            let publication = history[place].publication
            if publication.messageId == key.messageId && publication.user == key.sender { return .published(history[place]) }
        }
        return .notPublished
    }
}
