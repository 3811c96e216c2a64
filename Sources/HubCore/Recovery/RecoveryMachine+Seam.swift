import HubBase
import HubWire

/// Where history and what's live meet.
extension RecoveryMachine {
    /// Subscribers of one request: one message answers them all, so they join at one moment. One that joined sooner would hear of its
    /// channel what is behind the answer before the answer.
    final class Company {
        var keys: [UInt64] = []
        /// Among `keys`: who wasn't ready when it was looked at last. Those before it were.
        var firstUnready = 0
    }

    /// How one who is at a position comes to the tip.
    private enum Way {
        case lost(RecoveryFailure)
        /// From memory, from this place on.
        case memory(from: Int)
        /// A page that isn't all there is: nothing is joined.
        case part(HistoryPage)
        /// A page that ends at the tip, or in front of it: memory has the rest, from this place on.
        case page(HistoryPage, memoryFrom: Int?)
        /// A page that ends behind the tip: what's beyond will come as deliveries.
        case pageUpToTip(HistoryPage)
        /// Confirmed, but the subscriber was further on than this node is, or the node hasn't heard of a new epoch yet: that will come.
        case ahead
        case unknown
    }

    private func way(_ recovery: Recovery, _ position: Position, _ tip: Position) -> Way {
        if let failure = recovery.failure { return .lost(failure) }
        let feed = feeds[recovery.slot]
        if let place = feed.place(after: position) { return .memory(from: place) }
        guard let page = recovery.page else {
            return recovery.isAhead && position.epoch == tip.epoch && position.offset > tip.offset ? .ahead : .unknown
        }
        if page.hasMore { return .part(page) }
        if page.tip == tip { return .page(page, memoryFrom: nil) }
        guard page.tip.epoch == tip.epoch else { return .ahead }
        if page.tip.offset < tip.offset { return feed.place(after: page.tip).map { .page(page, memoryFrom: $0) } ?? .unknown }
        // Deliveries are behind.
        return position.offset <= tip.offset && (position.epoch == tip.epoch || position.isOrigin) ? .pageUpToTip(page) : .ahead
    }

    /// Sees to it that one without a way gets one.
    func follow(_ key: UInt64, _ recovery: Recovery, _ position: Position, _ tip: Position) {
        switch way(recovery, position, tip) {
        case .ahead:
            recoveries[key]?.page = nil
            recoveries[key]?.isAhead = true
            wait(key)
        case .unknown:
            recoveries[key]?.page = nil
            read(key, position)
        default: break
        }
    }

    /// Whether all is here that its answer takes.
    func isReady(_ key: UInt64) -> Bool {
        numbers.looks += 1
        guard let recovery = recoveries[key], !recovery.isReading, !recovery.wantsMarks || recovery.marks != nil,
            feeds[recovery.slot].id == recovery.feed, let tip = feeds[recovery.slot].tip
        else { return false }
        guard let position = recovery.position else { return true }
        switch way(recovery, position, tip) {
        case .ahead, .unknown: return false
        default: return true
        }
    }

    /// Answers a company all of whose members are ready. One that isn't any more, as its channel moved on meanwhile, looks again. Called for
    /// each member that becomes ready; cost: one look at the one that wasn't, and two at each member for all calls together.
    func answerTogether(_ company: Company) {
        guard areReady(company, from: company.firstUnready) else { return }
        // Those in front were ready, and may have moved on since.
        guard areReady(company, from: 0) else { return }
        for key in company.keys {
            if let recovery = recoveries[key], let tip = feeds[recovery.slot].tip { answer(key, recovery, tip) }
        }
    }

    private func areReady(_ company: Company, from first: Int) -> Bool {
        for place in first..<company.keys.count {
            let key = company.keys[place]
            guard recoveries[key] != nil, !isReady(key) else { continue }
            company.firstUnready = place
            if recoveries[key]?.isWaiting == false { prepare(key) }
            guard isReady(key) || recoveries[key] == nil else { return false }
        }
        company.firstUnready = company.keys.count
        return true
    }

    /// What it takes is here: from its position to the tip, from memory, from history, or from both.
    private func answer(_ key: UInt64, _ recovery: Recovery, _ tip: Position) {
        guard let position = recovery.position else {
            return complete(key, JoinAnswer(position: tip, marks: fit(recovery)))
        }
        let page = Page(position)
        switch way(recovery, position, tip) {
        case .lost(let failure): return lose(key, recovery, failure, tip)
        case .memory(let place):
            if place == feeds[recovery.slot].recentCount || position == tip {
                numbers.nothingMissed += 1
                return complete(key, JoinAnswer(position: tip, recovered: true, marks: fit(recovery)))
            }
            numbers.fromMemory += 1
            take(from: place, into: page, recovery)
        case .part(let read):
            numbers.fromHistory += 1
            // It isn't joined, so nothing has to fit.
            take(read.publications[...], into: page, recovery)
            page.isCut = true
        case .page(let read, let place):
            numbers.fromHistory += 1
            take(read.publications[...], into: page, recovery)
            if let place, !page.isCut { take(from: place, into: page, recovery) }
        case .pageUpToTip(let read):
            let kept = read.publications.prefix { $0.position.offset <= tip.offset }
            guard (kept.last?.position ?? position) == tip else {
                // Origins of two generations differ by that alone.
                return lose(key, recovery, position.isOrigin ? .epochChanged : .rolledBack, tip)
            }
            numbers.fromHistory += 1
            take(kept, into: page, recovery)
        case .ahead, .unknown: return
        }
        complete(key, page.answer(marks: fit(recovery)))
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
        for index in place..<feeds[recovery.slot].recentCount where !page.isCut {
            if let delivery = feeds[recovery.slot].recent(index) { take(delivery.publication, into: page, recovery) }
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
