import HubBase
import HubCore
import HubWire

/// A publication of a channel as the subscriber link or history told it.
package struct Heard: Equatable, Sendable {
    package var position: Position
    package var previous: Mark
    /// nil: it has a place in the channel, but can't be read.
    package var publication: Publication?

    package init(position: Position, previous: Mark, publication: Publication?) {
        self.position = position
        self.previous = previous
        self.publication = publication
    }

    /// What it's taken to weigh in memory.
    package var weight: Int { 256 + (publication?.payload.count ?? 0) }
    package var before: Position { Position(epoch: position.epoch, offset: position.offset - 1, tag: previous) }

    package func continues(_ known: Position) -> Bool { known.isContinued(by: position, previous: previous) }
}

/// What the history script read of a stream.
package struct StreamPage: Equatable {
    package var tip: Position
    /// Why the position that was asked for isn't continued.
    package var failure: RecoveryFailure?
    package var hasMore: Bool
    /// Another publication stands at the place before which was asked for.
    package var isElsewhere = false
    package var entries: [Heard]

    package init(tip: Position, failure: RecoveryFailure?, hasMore: Bool, entries: [Heard]) {
        self.tip = tip
        self.failure = failure
        self.hasMore = hasMore
        self.entries = entries
    }

    /// nil for anything that our script doesn't answer: the stream lies where others may write.
    package init?(_ reply: borrowing Reply, to query: HistoryQuery) {
        guard let count = reply.elements(0), count >= 5, count % 4 == 1, reply.count == count + 1,
            let epoch = reply.string(1).flatMap({ Mark($0) }), let offset = reply.string(2)?.decimal, offset < 1 << 53,
            let tag = reply.string(3).flatMap({ Mark($0) }), let reason = reply.string(4), let more = reply.string(5)
        else { return nil }
        tip = Position(epoch: epoch, offset: offset, tag: tag)
        isElsewhere = more.count == 1 && more[0] == UInt8(ascii: "0")
        hasMore = more.count > 0 && !isElsewhere
        if reason.count > 0 {
            guard let failure = RecoveryFailure(rawValue: String(decoding: reason, as: UTF8.self)) else { return nil }
            self.failure = failure
        }
        entries = []
        entries.reserveCapacity(count / 4 - 1)
        for index in stride(from: 6, to: count, by: 4) {
            guard let place = reply.string(index)?.decimal, place >= 1, place <= offset,
                let mark = reply.string(index + 1).flatMap({ Mark($0) }), mark != .none,
                let previous = reply.string(index + 2).flatMap({ Mark($0) }), let body = reply.string(index + 3)
            else { return nil }
            entries.append(
                Heard(
                    position: Position(epoch: epoch, offset: place, tag: mark), previous: previous,
                    publication: PublicationCodec.decode(body)
                ))
        }
        if failure == nil, !isElsewhere, case .position(let position)? = query.after {
            if query.isReverse { proveWhole(downTo: position, query) } else { proveWhole(from: position, query) }
        }
    }

    /// The script looks at the first entry only; what lies behind it may have holes too, where the namespace kept no history for a while or
    /// somebody deleted entries.
    private mutating func proveWhole(from position: Position, _ query: HistoryQuery) {
        var last = position
        for entry in entries {
            guard entry.continues(last) else {
                failure = .trimmed
                return
            }
            last = entry.position
        }
        if !hasMore, let end = end(of: query), last.offset < end { failure = .trimmed }
    }

    /// The offset of the last publication that the question means; nil: it's told by a time.
    private func end(of query: HistoryQuery) -> UInt64? {
        guard let before = query.before else { return tip.offset }
        return before.place.map { min($0 == 0 ? 0 : $0 - 1, tip.offset) }
    }

    /// The same from the other end.
    private mutating func proveWhole(downTo position: Position, _ query: HistoryQuery) {
        // Where the page before it ended, this one goes on.
        if query.before == nil {
            guard entries.first?.position ?? position == tip else { return failure = .trimmed }
        } else if let end = end(of: query), end > position.offset {
            guard entries.first?.position.offset == end else { return failure = .trimmed }
        }
        for (place, entry) in entries.enumerated() {
            let isLast = place == entries.count - 1
            if isLast && hasMore { return }
            guard entry.continues(isLast ? position : entries[place + 1].position) else { return failure = .trimmed }
        }
    }

    /// As a broker's owner gets it. nil: something in it can't be read.
    package func page(to query: HistoryQuery) -> HistoryPage? {
        if case .position(let before)? = query.before,
            let failure = RecoveryFailure.judge(before: before, tip: tip) ?? (isElsewhere ? .rolledBack : nil)
        {
            return HistoryPage(publications: [], tip: tip, hasMore: false, continuity: .broken(failure))
        }
        var publications: [PositionedPublication] = []
        publications.reserveCapacity(entries.count)
        for entry in entries {
            guard let publication = entry.publication else { return nil }
            publications.append(PositionedPublication(position: entry.position, previous: entry.previous, publication: publication))
        }
        var continuity = HistoryPage.Continuity.notAsked
        if case .position? = query.after { continuity = failure.map { .broken($0) } ?? .whole }
        return HistoryPage(publications: publications, tip: tip, hasMore: hasMore, continuity: continuity)
    }
}
