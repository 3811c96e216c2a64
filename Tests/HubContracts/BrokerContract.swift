import HubBase
import HubCore
import HubWire
import Testing

/// What every broker promises. Each check has its own channels, so that all can run on one backend, one after the other.
package enum BrokerContract {
    /// What the fixture's brokers are to be made with. `brief` remembers a message id for 300 ms only, `short` keeps 3 publications (or some
    /// more), `none` keeps none.
    package static var namespaces: [String: HistoryOptions] {
        var brief = HistoryOptions()
        brief.dedup = .milliseconds(300)
        var (short, none) = (HistoryOptions(), HistoryOptions())
        short.size = 3
        none.size = 0
        return ["": HistoryOptions(), "brief": brief, "short": short, "none": none]
    }

    package static let checks: [BrokerCheck] = [
        BrokerCheck("the first health told after start is up", firstHealth),
        BrokerCheck("positions start at offset 1 and their tags are chained", chainedPositions),
        BrokerCheck("a subscription is answered before any publication that comes after its position", answerFirst),
        BrokerCheck("a repeated subscription is answered each time, and nothing comes twice", repeatedSubscription),
        BrokerCheck("a channel of which there's nothing stands at an origin, which its first publication follows", emptyChannel),
        BrokerCheck("an origin of before all data was lost is never continued, by nobody, whatever comes after", lostOrigin),
        BrokerCheck("who follows an empty channel is told when its data is lost, or its origin ends", toldOfOrigin),
        BrokerCheck("publications of two nodes reach every subscriber in one order", oneOrder),
        BrokerCheck("nothing is told from inside a call", neverInside),
        BrokerCheck("the same id from the same sender gets the first attempt's position and is published once", dedup),
        BrokerCheck("the same id from another sender, or in another channel, is another message", dedupScope),
        BrokerCheck("the same id with another payload is a duplicateConflict and isn't published", conflict),
        BrokerCheck("an id is forgotten after the namespace's window", dedupWindow),
        BrokerCheck("a read position never goes back, and only what moves it is handed out", readPositions),
        BrokerCheck("read positions are each sender's own", readScope),
        BrokerCheck("typing is handed out without a position and takes none", typing),
        BrokerCheck("after unsubscribe and subscribe again publications come again, from the position told", subscribeAgain),
        BrokerCheck("payload and names arrive byte for byte", bytes),
        BrokerCheck("a probe is answered", probe),
        BrokerCheck("history is read forwards in pages, each from where the last one ended", pagesForwards),
        BrokerCheck("history is read backwards from the tip in pages, the newest first", pagesBackwards),
        BrokerCheck("a page lies between its bounds, by offset, by position or by time", pageBounds),
        BrokerCheck("a page ends at its byte limit, and holds one publication at least", pageBytes),
        BrokerCheck("a position at the tip, or one that history continues from, is whole, also in a channel that had none", continuous),
        BrokerCheck("a position that can't be continued is named: epochChanged, ahead, rolledBack or trimmed", broken),
        BrokerCheck("a namespace without history has a tip and no pages", noHistory),
        BrokerCheck("many pages asked for at once are each answered, in order", manyPages),
        BrokerCheck("what history holds is what was delivered, byte for byte", historyBytes),
        BrokerCheck("a hole is filled from history before anything newer comes", holeFilled),
        BrokerCheck("many holes at once are each filled in order", manyHoles),
        BrokerCheck("a lost last message is found without a successor", tailFilled),
        BrokerCheck("a hole that history can't fill is announced before what follows it", holeAnnounced),
        BrokerCheck("a retry within the window is decided by its id alone", retryInWindow),
        BrokerCheck("an older retry is decided by history: a duplicate when it's there, published when it isn't", olderRetry),
        BrokerCheck("an older retry that history can't settle is uncertain, and isn't published", uncertainRetry),
        BrokerCheck("read marks are told with the asker's own first, as many as asked for", readMarks),
    ]

    @Sendable static func firstHealth(_ fixture: any BrokerFixture) {
        let node = BrokerNode(fixture)
        #expect(fixture.run { !node.recorder.events.isEmpty })
        #expect(node.recorder.events.first == .health(.up))
    }

    @Sendable static func chainedPositions(_ fixture: any BrokerFixture) {
        let (one, two) = BrokerNode.pair(fixture)
        let channel: Name = "chat:chained"
        guard let origin = two.subscribed(channel) else { return giveUp("not subscribed") }
        var results: [PublishResult] = []
        for number in 1...20 {
            guard case .success(let result)? = one.published(.chat("\(number)", id: "m\(number)"), to: channel) else {
                Issue.record("publication \(number) was refused or not answered")
                return
            }
            results.append(result)
        }
        #expect(results.map(\.position.offset) == Array(1...20))
        #expect(Set(results.map(\.position.epoch)).count == 1)
        #expect(results[0].position.epoch != .none)
        #expect(Set(results.map(\.position.tag)).count == 20)
        #expect(!results.contains { $0.isDuplicate || $0.position.tag == .none })

        #expect(fixture.run { two.recorder.durable(in: channel).count == 20 })
        let received = two.recorder.durable(in: channel)
        #expect(received.map(\.position) == results.map(\.position))
        #expect(received.map(\.previous) == [origin.tag] + results.dropLast().map(\.position.tag))
        #expect(two.recorder.resyncs(of: channel) == 0)
    }

    @Sendable static func answerFirst(_ fixture: any BrokerFixture) {
        let (one, two) = BrokerNode.pair(fixture)
        let channel: Name = "chat:answer"
        // Publications race with the subscription: some before it, some after.
        for number in 1...10 { _ = one.publish(.chat("\(number)", id: "m\(number)"), to: channel) }
        let tag = two.subscribe(channel)
        for number in 11...30 { _ = one.publish(.chat("\(number)", id: "m\(number)"), to: channel) }
        #expect(fixture.run { two.recorder.subscription(tag) != nil })
        guard let position = two.recorder.subscription(tag) else { return }
        #expect(fixture.run { two.recorder.durable(in: channel).last?.position.offset == 30 || position.offset == 30 })
        let answer = two.recorder.place { $0 == .subscribed(channel, .success(position), tag) }
        let firstAfter = two.recorder.place {
            if case .durable(let publication, channel) = $0 { publication.position.offset > position.offset } else { false }
        }
        if let answer, let firstAfter { #expect(answer < firstAfter) }
        // From the answered position on nothing is missing.
        let after = two.recorder.durable(in: channel).map(\.position.offset).filter { $0 > position.offset }
        #expect(after == Array(position.offset..<30).map { $0 + 1 })
        #expect(two.recorder.resyncs(of: channel) == 0)
    }

    @Sendable static func repeatedSubscription(_ fixture: any BrokerFixture) {
        let (one, two) = BrokerNode.pair(fixture)
        let channel: Name = "chat:repeated"
        #expect(two.subscribed(channel) != nil)
        #expect(one.published(.chat("1", id: "m1"), to: channel) != nil)
        let position = two.subscribed(channel)
        #expect(position?.offset == 1)
        #expect(one.published(.chat("2", id: "m2"), to: channel) != nil)
        #expect(fixture.run { two.recorder.durable(in: channel).count >= 2 })
        fixture.pass(.milliseconds(100))
        #expect(two.recorder.durable(in: channel).map(\.position.offset) == [1, 2])
    }

    @Sendable static func oneOrder(_ fixture: any BrokerFixture) {
        let (one, two) = BrokerNode.pair(fixture)
        let channel: Name = "chat:order"
        #expect(one.subscribed(channel) != nil)
        #expect(two.subscribed(channel) != nil)
        var own: [[String]] = [[], []]
        for number in 0..<200 {
            let id = "m\(number)"
            let sender = number % 2
            own[sender].append(id)
            _ = (sender == 0 ? one : two).publish(.chat("x", id: id, from: sender == 0 ? "alice" : "bob"), to: channel)
        }
        #expect(
            fixture.run { one.recorder.durable(in: channel).count >= 200 && two.recorder.durable(in: channel).count >= 200 })
        let seenByOne = one.recorder.durable(in: channel)
        #expect(seenByOne == two.recorder.durable(in: channel))
        #expect(seenByOne.map(\.position.offset) == Array(1...200))
        for (sender, user) in [Name("alice"), Name("bob")].enumerated() {
            let ids = seenByOne.filter { $0.publication.user == user }.map { $0.publication.messageId.description }
            #expect(ids == own[sender], "what one node published stays in its order")
        }
    }

    @Sendable static func neverInside(_ fixture: any BrokerFixture) {
        let node = BrokerNode.pair(fixture).0
        let channel: Name = "chat:inside"
        _ = node.subscribed(channel)
        for number in 0..<50 {
            _ = node.publish(.chat("x", id: "m\(number)"), to: channel)
            _ = node.subscribe(channel)
            _ = node.markRead(.read(1), offset: UInt64(number), in: channel)
            node.broadcast(.typing(), to: channel)
        }
        #expect(fixture.run { node.recorder.durable(in: channel).count == 50 })
        #expect(node.recorder.toldInsideCall == 0)
    }

    @Sendable static func probe(_ fixture: any BrokerFixture) {
        let node = BrokerNode.pair(fixture).0
        let tag = node.probe()
        #expect(fixture.run { node.recorder.events.contains(.probed(isFine: true, tag)) })
    }
}
