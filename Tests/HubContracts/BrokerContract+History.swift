import HubBase
import HubCore
import HubWire
import Testing

// History: pages, bounds, and what is proved about a position.
extension BrokerContract {
    private static func offsets(_ page: HistoryPage?) -> [UInt64] { page?.publications.map(\.position.offset) ?? [] }

    @Sendable static func pagesForwards(_ fixture: any BrokerFixture) {
        let (one, two) = BrokerNode.pair(fixture)
        let channel: Name = "chat:forwards"
        var position = one.tip(channel)
        let positions = one.filled(channel, 1...25)
        var read: [UInt64] = []
        for round in 1...3 {
            guard let page = two.page(channel, HistoryQuery(after: .position(position), limit: 10)), let last = page.publications.last
            else {
                Issue.record("page \(round) didn't come")
                return
            }
            #expect(page.continuity == .whole)
            #expect(page.tip == positions.last)
            #expect(page.hasMore == (round < 3))
            read += offsets(page)
            position = last.position
        }
        #expect(read == Array(1...25))
        let end = two.page(channel, HistoryQuery(after: .position(position), limit: 10))
        #expect(end?.publications == [] && end?.hasMore == false && end?.continuity == .whole)
    }

    @Sendable static func pagesBackwards(_ fixture: any BrokerFixture) {
        let (one, two) = BrokerNode.pair(fixture)
        let channel: Name = "chat:backwards"
        let positions = one.filled(channel, 1...25)
        var before: HistoryQuery.Bound?
        var read: [UInt64] = []
        for round in 1...3 {
            guard let page = two.page(channel, HistoryQuery(before: before, isReverse: true, limit: 10)), let last = page.publications.last
            else {
                Issue.record("page \(round) didn't come")
                return
            }
            #expect(page.continuity == .notAsked)
            #expect(page.tip == positions.last)
            #expect(page.hasMore == (round < 3))
            read += offsets(page)
            before = .position(last.position)
        }
        #expect(read == (1...25).reversed().map { UInt64($0) })
        #expect(offsets(two.page(channel, HistoryQuery(before: before, isReverse: true, limit: 10))) == [])
    }

    @Sendable static func pageBounds(_ fixture: any BrokerFixture) {
        let node = BrokerNode.pair(fixture).0
        let channel: Name = "chat:bounds"
        let positions = node.filled(channel, 1...20)
        guard positions.count == 20 else { return giveUp("not published") }
        func read(_ after: HistoryQuery.Bound?, _ before: HistoryQuery.Bound?, reverse: Bool = false, limit: Int = 100) -> [UInt64] {
            offsets(node.page(channel, HistoryQuery(after: after, before: before, isReverse: reverse, limit: limit)))
        }
        #expect(read(.offset(5), .offset(9)) == [6, 7, 8])
        #expect(read(.offset(5), .offset(9), reverse: true) == [8, 7, 6])
        #expect(read(.position(positions[4]), .position(positions[8])) == [6, 7, 8])
        #expect(read(.position(positions[4]), .position(positions[8]), reverse: true, limit: 2) == [8, 7])
        // From a time on, the time itself included; before a time, not included.
        #expect(read(.time(5_000), .time(9_000)) == [5, 6, 7, 8])
        #expect(read(.time(4_001), .time(8_001)) == [5, 6, 7, 8])
        #expect(read(.time(19_500), nil) == [20])
        #expect(read(.time(20_001), nil) == [])
        #expect(read(nil, .time(1_000)) == [])
        #expect(read(nil, .time(2_500), reverse: true) == [2, 1])
        #expect(read(.time(0), .time(1 << 53), limit: 3) == [1, 2, 3])
        #expect(read(nil, nil) == Array(1...20))
        // Bounds that nothing lies between, and numbers that no offset has.
        #expect(read(.offset(9), .offset(5)) == [])
        #expect(read(.offset(20), nil) == [])
        #expect(read(.offset(.max), nil) == [])
        #expect(read(.offset(0), .offset(.max), limit: 2) == [1, 2])
        #expect(read(nil, .offset(0)) == [])
        #expect(read(nil, .offset(1)) == [])
        #expect(read(.time(.max), nil) == [])
        #expect(read(nil, nil, limit: 0) == [1])
        #expect(read(nil, nil, limit: .max) == Array(1...20))
    }

    @Sendable static func pageBytes(_ fixture: any BrokerFixture) {
        let node = BrokerNode.pair(fixture).0
        let channel: Name = "chat:page-bytes"
        let positions = node.filled(channel, 1...12, bytes: 1_000)
        func read(_ bytes: Int, from offset: UInt64, reverse: Bool = false) -> HistoryPage? {
            node.page(
                channel, HistoryQuery(after: reverse ? nil : .offset(offset), isReverse: reverse, limit: 100, bytesMax: bytes))
        }
        #expect(offsets(read(3_200, from: 0)) == [1, 2, 3])
        #expect(read(3_200, from: 0)?.hasMore == true)
        #expect(offsets(read(3_200, from: 10)) == [11, 12])
        #expect(read(3_200, from: 10)?.hasMore == false)
        #expect(offsets(read(3_200, from: 0, reverse: true)) == [12, 11, 10])
        // However large it is, the first one comes: else nobody would get past it.
        #expect(offsets(read(1, from: 4)) == [5])
        #expect(read(1, from: 4)?.hasMore == true)
        #expect(offsets(read(0, from: 11)) == [12])
        #expect(read(0, from: 11)?.hasMore == false)
        #expect(read(1 << 40, from: 0)?.tip == positions.last)
        #expect(offsets(read(1 << 40, from: 0)) == Array(1...12))
    }

    @Sendable static func continuous(_ fixture: any BrokerFixture) {
        let node = BrokerNode.pair(fixture).0
        let channel: Name = "chat:continuous"
        func read(_ position: Position) -> HistoryPage? { node.page(channel, HistoryQuery(after: .position(position), limit: 100)) }
        let origin = node.tip(channel)
        #expect(origin.isOrigin && origin.tag != .none)
        #expect(read(origin) == HistoryPage(publications: [], tip: origin, hasMore: false, continuity: .whole))
        let positions = node.filled(channel, 1...5)
        guard positions.count == 5 else { return giveUp("not published") }
        for (place, position) in ([origin] + positions).enumerated() {
            let page = read(position)
            #expect(page?.continuity == .whole)
            #expect(page?.tip == positions.last)
            #expect(offsets(page) == Array(1...5).dropFirst(place).map { UInt64($0) })
        }
    }

    @Sendable static func broken(_ fixture: any BrokerFixture) {
        let node = BrokerNode.pair(fixture).0
        let channel: Name = "chat:broken"
        let positions = node.filled(channel, 1...5)
        guard let tip = positions.last else { return giveUp("not published") }
        let other = Mark(chance: 7)
        func read(_ epoch: Mark, _ offset: UInt64, _ tag: Mark, in name: Name? = nil) -> HistoryPage? {
            node.page(
                name ?? channel, HistoryQuery(after: .position(Position(epoch: epoch, offset: offset, tag: tag)), limit: 100))
        }
        let cases: [(HistoryPage?, RecoveryFailure)] = [
            (read(other, 3, positions[2].tag), .epochChanged),
            (read(.none, 0, .none), .epochChanged),
            (read(.none, 0, other), .epochChanged),
            (read(.none, 0, .none, in: "chat:broken-never"), .epochChanged),
            (read(.none, 0, other, in: "chat:broken-never"), .epochChanged),
            (read(other, 0, .none), .epochChanged),
            (read(.none, 3, positions[2].tag), .epochChanged),
            (read(tip.epoch, 6, other), .ahead),
            (read(tip.epoch, (1 << 53) - 1, other), .ahead),
            (read(tip.epoch, .max, other), .ahead),
            (read(tip.epoch, 5, other), .rolledBack),
            (read(tip.epoch, 3, other), .rolledBack),
            (read(other, 2, other, in: "chat:broken-never"), .epochChanged),
        ]
        for (page, failure) in cases {
            #expect(page?.continuity == .broken(failure))
            #expect(page?.tip == tip || page?.tip.isOrigin == true)
            // All that's kept: nothing of it is known to the asker for sure.
            if page?.tip == tip { #expect(offsets(page) == [1, 2, 3, 4, 5]) }
        }
        let backwards = node.page(
            channel, HistoryQuery(before: .position(Position(epoch: other, offset: 3, tag: other)), isReverse: true, limit: 100))
        #expect(backwards == HistoryPage(publications: [], tip: tip, hasMore: false, continuity: .broken(.epochChanged)))
        // Another publication stands there now: what lies before it isn't what lay before the one that's meant.
        for offset: UInt64 in [3, 5] {
            let place = HistoryQuery.Bound.position(Position(epoch: tip.epoch, offset: offset, tag: other))
            let elsewhere = node.page(channel, HistoryQuery(before: place, isReverse: true, limit: 100))
            #expect(elsewhere == HistoryPage(publications: [], tip: tip, hasMore: false, continuity: .broken(.rolledBack)), "\(offset)")
        }
        #expect(offsets(node.page(channel, HistoryQuery(before: .position(tip), isReverse: true, limit: 100))) == [4, 3, 2, 1])

        let before = node.tip("short:broken")
        let long = node.filled("short:broken", 1...250)
        guard long.count == 250 else { return giveUp("not published") }
        for position in [before, long[0], long[9]] {
            let page = node.page("short:broken", HistoryQuery(after: .position(position), limit: 1_000))
            #expect(page?.continuity == .broken(.trimmed))
            #expect(page?.publications.last?.position == long.last)
        }
        let kept = node.page("short:broken", HistoryQuery(after: .position(long[247]), limit: 1_000))
        #expect(kept?.continuity == .whole && offsets(kept) == [249, 250])
    }

    @Sendable static func noHistory(_ fixture: any BrokerFixture) {
        let node = BrokerNode.pair(fixture).0
        let channel: Name = "none:history"
        let origin = node.tip(channel)
        let positions = node.filled(channel, 1...3)
        guard let tip = positions.last else { return giveUp("not published") }
        func read(_ position: Position) -> HistoryPage? { node.page(channel, HistoryQuery(after: .position(position), limit: 100)) }
        #expect(read(tip) == HistoryPage(publications: [], tip: tip, hasMore: false, continuity: .whole))
        #expect(read(positions[0]) == HistoryPage(publications: [], tip: tip, hasMore: false, continuity: .broken(.trimmed)))
        #expect(read(origin) == HistoryPage(publications: [], tip: tip, hasMore: false, continuity: .broken(.trimmed)))
        let all = node.page(channel, HistoryQuery(isReverse: true, limit: 100))
        #expect(all == HistoryPage(publications: [], tip: tip, hasMore: false, continuity: .notAsked))
    }

    @Sendable static func manyPages(_ fixture: any BrokerFixture) {
        let node = BrokerNode.pair(fixture).0
        let names = (0..<200).map { Name(trusted: [UInt8]("chat:many-\($0)".utf8)) }
        let origins = names.map { node.tip($0) }
        for name in names.prefix(100) { _ = node.publish(.chat("x", id: "m1"), to: name) }
        // Without a wait in between: what was published before is read.
        let tags = zip(names, origins).map { node.readHistory($0, HistoryQuery(after: .position($1), limit: 10)) }
        #expect(fixture.run { tags.allSatisfy { node.recorder.page($0) != nil } })
        #expect(tags.map { node.recorder.page($0)?.publications.count } == names.indices.map { $0 < 100 ? 1 : 0 })
        #expect(tags.allSatisfy { node.recorder.page($0)?.continuity == .whole })
        let order = node.recorder.events.compactMap { if case .historyRead(_, _, let tag) = $0 { tag } else { nil } }
        #expect(order.suffix(tags.count) == tags[...])
    }

    @Sendable static func historyBytes(_ fixture: any BrokerFixture) {
        let (one, two) = BrokerNode.pair(fixture)
        let channel = Name(trusted: [UInt8]("chat:{b}|y;t%0Ae s:\u{1F600}".utf8))
        guard let origin = two.subscribed(channel) else { return giveUp("not subscribed") }
        var publication = Publication.chat("", id: "id|;{x}:\u{E9}", from: Name(trusted: [UInt8]("u|;{}:\u{1F600}".utf8)))
        publication.messageClass = .event
        publication.device = Name(trusted: [UInt8]("my;phone|2".utf8))
        publication.payload = [0x82, 0xA1, 0x61, 0xC0, 0xA1, 0x62, 0xC4, 0x03, 0x00, 0xFF, 0x0D]
        publication.payloadFormat = .messagePack
        #expect(one.published(publication, to: channel) != nil)
        #expect(one.published(.chat("next", id: "m2"), to: channel) != nil)
        #expect(fixture.run { two.recorder.durable(in: channel).count == 2 })
        let page = one.page(channel, HistoryQuery(after: .position(origin), limit: 10))
        #expect(page?.publications.first?.publication == publication)
        #expect(page?.publications == two.recorder.durable(in: channel))
    }

    @Sendable static func readMarks(_ fixture: any BrokerFixture) {
        let (one, two) = BrokerNode.pair(fixture)
        let channel: Name = "chat:marks"
        #expect(two.marks(channel, of: "alice", limit: 10) == [])
        one.filled(channel, 1...9)
        let users = (0..<30).map { Name(trusted: [UInt8]("reader-\($0)".utf8)) }
        let tags = users.enumerated().map { place, user in
            one.markRead(.read(UInt64(place % 9 + 1), from: user), offset: UInt64(place % 9 + 1), in: channel)
        }
        #expect(fixture.run { tags.allSatisfy { one.recorder.read($0) != nil } })
        let all = two.marks(channel, of: users[17], limit: 100) ?? []
        #expect(all.first == ReadMark(user: users[17], offset: 9))
        #expect(Dictionary(all.map { ($0.user, $0.offset) }, uniquingKeysWith: { _, _ in 0 }).count == 30)
        for mark in all { #expect(users.firstIndex(of: mark.user).map { UInt64($0 % 9 + 1) } == mark.offset) }
        let some = two.marks(channel, of: users[3], limit: 5) ?? []
        #expect(some.count == 5 && some.first?.user == users[3] && Set(some.map(\.user)).count == 5)
        // Who hasn't read anything has no mark.
        let others = two.marks(channel, of: "nobody", limit: 4) ?? []
        #expect(others.count == 4 && !others.contains { $0.user == "nobody" })
        #expect(two.marks(channel, of: users[3], limit: 0) == [])
        #expect(two.marks(channel, of: users[3], limit: 1)?.map(\.user) == [users[3]])
    }
}
