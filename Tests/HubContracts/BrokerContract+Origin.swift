import HubBase
import HubCore
import HubWire
import Testing

// Channels of which there's nothing: where they stand, and who is told that something is missing (decision 0135).
extension BrokerContract {
    @Sendable static func emptyChannel(_ fixture: any BrokerFixture) {
        let (one, two) = BrokerNode.pair(fixture)
        let channel: Name = "chat:empty"
        guard let origin = one.subscribed(channel) else { return giveUp("not subscribed") }
        #expect(origin.isOrigin && origin.tag != .none)
        #expect(two.tip(channel) == origin && two.subscribed(channel) == origin)
        guard case .success(let first)? = two.published(.chat("1", id: "m1"), to: channel) else { return giveUp("not published") }
        #expect(fixture.run { one.recorder.durable(in: channel).count == 1 })
        #expect(one.recorder.durable(in: channel).first?.position == first.position)
        #expect(one.recorder.durable(in: channel).first?.previous == origin.tag)
        #expect(one.recorder.resyncs(of: channel) == 0)
        // It began there, whatever others stand at by now.
        fixture.endGenerations()
        let page = one.page(channel, HistoryQuery(after: .position(origin), limit: 10))
        #expect(page?.continuity == .whole && page?.publications.count == 1)
    }

    @Sendable static func lostOrigin(_ fixture: any BrokerFixture) {
        let node = BrokerNode.pair(fixture).0
        let channel: Name = "chat:lost-origin"
        func read(_ position: Position) -> HistoryPage? { node.page(channel, HistoryQuery(after: .position(position), limit: 100)) }
        var origins = [node.tip(channel)]
        // Lost with nothing, with one publication, with more than history keeps.
        for count in [0, 1, 150] {
            if count > 0 { #expect(node.filled(channel, 1...count).count == count) }
            fixture.loseAllData()
            for origin in origins {
                let page = read(origin)
                #expect(page?.continuity == .broken(.epochChanged))
                #expect(page?.publications == [])
            }
            let next = node.tip(channel)
            #expect(next.isOrigin && next.tag != .none && !origins.contains(next))
            #expect(read(next) == HistoryPage(publications: [], tip: next, hasMore: false, continuity: .whole))
            // What comes after doesn't continue those before the loss either.
            guard node.filled(channel, 1...2).count == 2 else { return giveUp("not published") }
            for origin in origins { #expect(read(origin)?.continuity == .broken(.epochChanged)) }
            #expect(read(next)?.continuity == .whole)
            #expect(read(next)?.publications.count == 2)
            let old = PublishAttempt(age: .seconds(10_000), since: origins[0])
            guard case .failure(let error)? = node.published(.chat("x", id: "other-\(count)"), to: channel, attempt: old) else {
                return giveUp("published from a position of before")
            }
            #expect(error.code == .uncertain)
            fixture.loseAllData()
            origins.append(next)
            origins.append(node.tip(channel))
        }
    }

    @Sendable static func toldOfOrigin(_ fixture: any BrokerFixture) {
        let (one, two) = BrokerNode.pair(fixture)
        let channel: Name = "chat:told-origin"
        let quiet: Name = "chat:told-quiet"
        guard let origin = two.subscribed(channel), two.subscribed(quiet) != nil else { return giveUp("not subscribed") }
        func resyncs(_ channel: Name) -> [ResyncReason] {
            two.recorder.events.compactMap { if case .resync(channel, _, let reason) = $0 { reason } else { nil } }
        }
        // Acknowledged, not heard, and lost with everything: nothing but the origin tells.
        fixture.publishUnheard(.chat("1", id: "m1"), to: channel)
        fixture.loseAllData()
        let end = fixture.now + fixture.tailCheck
        #expect(fixture.run { !resyncs(channel).isEmpty && !resyncs(quiet).isEmpty || fixture.now > end })
        #expect(resyncs(channel) == [.epochChanged] && resyncs(quiet) == [.epochChanged])
        let position = two.recorder.events.compactMap { if case .resync(channel, let at, _) = $0 { at } else { nil } }.last
        #expect(position?.isOrigin == true && position != origin)
        one.filled(channel, 2...3)
        #expect(fixture.run { two.recorder.durable(in: channel).count == 2 })
        #expect(two.recorder.durable(in: channel).first?.previous == position?.tag)
        #expect(two.recorder.resyncs(of: channel) == 1)
        // A successor tells too, before the check does.
        guard two.subscribed("chat:told-next") != nil else { return giveUp("not subscribed") }
        fixture.loseAllData()
        one.filled("chat:told-next", 1...1)
        #expect(fixture.run { two.recorder.durable(in: "chat:told-next").count == 1 })
        #expect(resyncs("chat:told-next") == [.epochChanged])
        // An origin that ends can't be told from one that was lost.
        let before = resyncs(quiet).count
        fixture.endGenerations()
        let later = fixture.now + fixture.tailCheck
        #expect(fixture.run { resyncs(quiet).count > before || fixture.now > later })
        #expect(resyncs(quiet).count > before)
    }
}
