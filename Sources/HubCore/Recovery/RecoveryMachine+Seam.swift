import HubBase
import HubWire

/// Where history and what's live meet.
extension RecoveryMachine {
    /// What it takes is here: from its position to the tip, from memory, from history, or from both.
    func answer(_ key: UInt64, _ recovery: Recovery, _ tip: Position) {
        guard let position = recovery.position else {
            return complete(key, JoinAnswer(position: tip, marks: fit(recovery)))
        }
        if let failure = recovery.failure { return lose(key, recovery, failure, tip) }
        if let place = feeds[recovery.slot].place(after: position) {
            if place == feeds[recovery.slot].recent.count || position == tip {
                numbers.nothingMissed += 1
                return complete(key, JoinAnswer(position: tip, recovered: true, marks: fit(recovery)))
            }
            numbers.fromMemory += 1
            let page = Page(position)
            take(from: place, into: page, recovery)
            return complete(key, page.answer(marks: fit(recovery)))
        }
        guard let page = recovery.page else {
            // Confirmed, and ahead of what this node has heard.
            feeds[recovery.slot].waiting.append(key)
            return
        }
        join(page, key, recovery, position, tip)
    }

    /// Joins a page without a hole to the tip.
    private func join(_ read: HistoryPage, _ key: UInt64, _ recovery: Recovery, _ position: Position, _ tip: Position) {
        let page = Page(position)
        if read.hasMore {
            // It isn't joined, so nothing has to fit.
            take(read.publications[...], into: page, recovery)
            page.isCut = true
            numbers.fromHistory += 1
            return complete(key, page.answer(marks: fit(recovery)))
        }
        if read.tip == tip {
            take(read.publications[...], into: page, recovery)
        } else if read.tip.epoch == tip.epoch && read.tip.offset < tip.offset {
            guard let place = feeds[recovery.slot].place(after: read.tip) else { return again(key) }
            take(read.publications[...], into: page, recovery)
            if !page.isCut { take(from: place, into: page, recovery) }
        } else if read.tip.epoch == tip.epoch && position.offset <= tip.offset && (position.epoch == tip.epoch || position == .start) {
            // Deliveries are behind: what's beyond the tip will come as such.
            let kept = read.publications.prefix { $0.position.offset <= tip.offset }
            guard (kept.last?.position ?? position) == tip else { return lose(key, recovery, .rolledBack, tip) }
            take(kept, into: page, recovery)
        } else {
            // The subscriber was further on than this node is, or the node hasn't heard of a new epoch yet: that will come.
            recoveries[key]?.page = nil
            recoveries[key]?.isAhead = true
            feeds[recovery.slot].waiting.append(key)
            return
        }
        numbers.fromHistory += 1
        complete(key, page.answer(marks: fit(recovery)))
    }

    private func again(_ key: UInt64) {
        recoveries[key]?.page = nil
        proceed(key)
    }

    private func lose(_ key: UInt64, _ recovery: Recovery, _ failure: RecoveryFailure, _ tip: Position) {
        numbers.lost += 1
        complete(key, JoinAnswer(position: tip, recovered: false, reason: failure, marks: fit(recovery)))
    }

    // MARK: Pages

    /// What a subscriber gets, as far as it has been put together.
    private final class Page {
        var publications: [PositionedPublication] = []
        private var position: Position
        /// There's more than fits.
        var isCut = false

        init(_ position: Position) { self.position = position }

        func append(_ publication: PositionedPublication) {
            publications.append(publication)
            position = publication.position
        }

        func answer(marks: [ReadMark]?) -> JoinAnswer {
            JoinAnswer(position: position, publications: publications, recovered: true, hasMore: isCut, marks: marks)
        }
    }

    private func take(_ publications: ArraySlice<PositionedPublication>, into page: Page, _ recovery: Recovery) {
        for publication in publications { take(publication, into: page, recovery) }
    }

    private func take(from place: Int, into page: Page, _ recovery: Recovery) {
        for index in place..<feeds[recovery.slot].recent.count where !page.isCut {
            take(feeds[recovery.slot].recent[index].publication, into: page, recovery)
        }
    }

    private func take(_ publication: PositionedPublication, into page: Page, _ recovery: Recovery) {
        guard !page.isCut, page.publications.count < recovery.limit,
            recovery.budget.takes(publication.publication, of: recovery.channel, isFirst: page.publications.isEmpty)
        else {
            page.isCut = true
            return
        }
        page.append(publication)
    }
}
