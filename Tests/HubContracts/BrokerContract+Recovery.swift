import HubBase
import HubCore
import HubWire
import Testing

// Messages that were lost on the way, and retries whose first attempt nobody remembers.
extension BrokerContract {
    private static func offsets(_ node: BrokerNode, _ channel: Name) -> [UInt64] {
        node.recorder.durable(in: channel).map(\.position.offset)
    }

    @Sendable static func holeFilled(_ fixture: any BrokerFixture) {
        let (one, two) = BrokerNode.pair(fixture)
        let channel: Name = "chat:hole"
        #expect(two.subscribed(channel)?.isOrigin == true)
        one.filled(channel, 1...3)
        #expect(fixture.run { offsets(two, channel).count == 3 })
        for number in 4...6 { fixture.publishUnheard(.chat("x", id: "m\(number)"), to: channel) }
        one.filled(channel, 7...12)
        #expect(fixture.run { offsets(two, channel).count >= 12 })
        fixture.pass(.milliseconds(50))
        #expect(offsets(two, channel) == Array(1...12))
        let ids = two.recorder.durable(in: channel).map { "\($0.publication.messageId)" }
        #expect(ids == (1...12).map { "m\($0)" })
        #expect(two.recorder.resyncs(of: channel) == 0)
        // A channel whose very first is lost is filled too.
        #expect(two.subscribed("chat:hole-first")?.isOrigin == true)
        fixture.publishUnheard(.chat("x", id: "m1"), to: "chat:hole-first")
        one.filled("chat:hole-first", 2...2)
        #expect(fixture.run { offsets(two, "chat:hole-first") == [1, 2] })
        #expect(two.recorder.resyncs(of: "chat:hole-first") == 0)
    }

    @Sendable static func manyHoles(_ fixture: any BrokerFixture) {
        let (one, two) = BrokerNode.pair(fixture)
        let names = (0..<40).map { Name(trusted: [UInt8]("chat:holes-\($0)".utf8)) }
        for name in names { #expect(two.subscribed(name)?.isOrigin == true) }
        // Every third message is lost, in every channel.
        for number in 1...30 {
            for name in names {
                if number % 3 == 2 {
                    fixture.publishUnheard(.chat("x", id: "m\(number)"), to: name)
                } else {
                    _ = one.publish(.chat("x", id: "m\(number)"), to: name)
                }
            }
            if number % 4 == 0 { fixture.pass(.milliseconds(3)) }
        }
        #expect(fixture.run { names.allSatisfy { offsets(two, $0).count >= 30 } })
        fixture.pass(.milliseconds(50))
        for name in names {
            #expect(offsets(two, name) == Array(1...30))
            #expect(two.recorder.resyncs(of: name) == 0)
        }
    }

    @Sendable static func tailFilled(_ fixture: any BrokerFixture) {
        let (one, two) = BrokerNode.pair(fixture)
        let channel: Name = "chat:tail"
        #expect(two.subscribed(channel)?.isOrigin == true)
        one.filled(channel, 1...2)
        #expect(fixture.run { offsets(two, channel).count == 2 })
        fixture.publishUnheard(.chat("x", id: "m3"), to: channel)
        fixture.publishUnheard(.chat("x", id: "m4"), to: channel)
        let end = fixture.now + fixture.tailCheck
        #expect(fixture.run { offsets(two, channel).count == 4 || fixture.now > end })
        #expect(offsets(two, channel) == [1, 2, 3, 4])
        one.filled(channel, 5...6)
        #expect(fixture.run { offsets(two, channel).count == 6 })
        #expect(offsets(two, channel) == Array(1...6))
        #expect(two.recorder.resyncs(of: channel) == 0)
    }

    @Sendable static func holeAnnounced(_ fixture: any BrokerFixture) {
        let (one, two) = BrokerNode.pair(fixture)
        let channel: Name = "none:hole"
        #expect(two.subscribed(channel)?.isOrigin == true)
        one.filled(channel, 1...2)
        #expect(fixture.run { offsets(two, channel).count == 2 })
        fixture.publishUnheard(.chat("x", id: "m3"), to: channel)
        let position = one.filled(channel, 4...4).last
        #expect(fixture.run { offsets(two, channel).last == 4 })
        #expect(offsets(two, channel) == [1, 2, 4])
        #expect(two.recorder.resyncs(of: channel) == 1)
        let told = two.recorder.place { if case .resync(channel, let at, .gap) = $0 { at.offset == 3 } else { false } }
        let came = two.recorder.place { if case .durable(let one, channel) = $0 { one.position == position } else { false } }
        if let told, let came { #expect(told < came) } else { Issue.record("not announced, or not delivered") }
    }

    // Retries.

    private static func result(_ result: Result<PublishResult, WireError>?) -> String {
        switch result {
        case .success(let result)?: result.isDuplicate ? "duplicate \(result.position.offset)" : "published \(result.position.offset)"
        case .failure(let error)?: error.code.rawValue
        case nil: "no answer"
        }
    }

    @Sendable static func retryInWindow(_ fixture: any BrokerFixture) {
        let (one, two) = BrokerNode.pair(fixture)
        let channel: Name = "chat:retry"
        let attempt = PublishAttempt(age: .seconds(580), since: nil)
        #expect(result(one.published(.chat("a", id: "m1"), to: channel, attempt: attempt)) == "published 1")
        #expect(result(two.published(.chat("a", id: "m1"), to: channel, attempt: attempt)) == "duplicate 1")
        // However old: while the id is remembered, it decides.
        let old = PublishAttempt(age: Span(nanoseconds: .max), since: nil)
        #expect(result(two.published(.chat("a", id: "m1"), to: channel, attempt: old)) == "duplicate 1")
        #expect(result(two.published(.chat("b", id: "m1"), to: channel, attempt: old)) == "duplicateConflict")
        #expect(result(two.published(.chat("b", id: "m2"), to: channel)) == "published 2")
    }

    @Sendable static func olderRetry(_ fixture: any BrokerFixture) {
        let (one, two) = BrokerNode.pair(fixture)
        let channel: Name = "brief:older"
        func attempt(_ since: Position) -> PublishAttempt { PublishAttempt(age: .seconds(20), since: since) }
        // In a channel that had nothing, from its origin.
        let origin = one.tip(channel)
        #expect(result(one.published(.chat("a", id: "m0"), to: channel, attempt: attempt(origin))) == "published 1")
        let positions = one.filled(channel, 1...40)
        guard positions.count == 40 else { return giveUp("not published") }
        fixture.pass(.milliseconds(400))
        let same = Publication.chat(String(repeating: "x", count: 10), id: "m20")
        for since in [origin, positions[0], positions[18]] {
            #expect(result(two.published(same, to: channel, attempt: attempt(since))) == "duplicate 21")
        }
        #expect(result(two.published(.chat("changed", id: "m20"), to: channel, attempt: attempt(origin))) == "duplicateConflict")
        // Somebody else's message has that id: not a duplicate.
        #expect(result(two.published(.chat("b", id: "m20", from: "bob"), to: channel, attempt: attempt(positions[0]))) == "published 42")
        // After the message's own place it isn't found; then the sender said what isn't so.
        #expect(result(two.published(same, to: channel, attempt: attempt(positions[30]))) == "published 43")
        #expect(result(two.published(same, to: channel, attempt: attempt(positions[30]))) == "duplicate 43")
        #expect(result(two.published(.chat("c", id: "new"), to: channel, attempt: attempt(positions[39]))) == "published 44")
    }

    @Sendable static func uncertainRetry(_ fixture: any BrokerFixture) {
        let (one, two) = BrokerNode.pair(fixture)
        #expect(two.subscribed("brief:uncertain")?.isOrigin == true)
        let positions = one.filled("brief:uncertain", 1...5)
        let unkept = one.filled("none:uncertain", 1...5)
        guard positions.count == 5, unkept.count == 5 else { return giveUp("not published") }
        fixture.pass(.milliseconds(400))
        let other = Mark(chance: 7)
        let sinces: [(Name, Position?)] = [
            ("brief:uncertain", nil),
            ("brief:uncertain", .start),
            ("brief:uncertain", .origin(other)),
            ("brief:uncertain", Position(epoch: other, offset: 2, tag: other)),
            ("brief:uncertain", Position(epoch: positions[0].epoch, offset: 2, tag: other)),
            ("brief:uncertain", Position(epoch: positions[0].epoch, offset: 6, tag: other)),
            ("brief:uncertain", Position(epoch: positions[0].epoch, offset: .max, tag: other)),
            ("brief:uncertain-never", positions[4]),
            ("none:uncertain", unkept[3]),
            ("none:uncertain", .start),
        ]
        for (channel, since) in sinces {
            let answer = two.published(.chat("x", id: "m3-again"), to: channel, attempt: PublishAttempt(age: .seconds(700), since: since))
            #expect(result(answer) == "uncertain")
        }
        fixture.pass(.milliseconds(50))
        #expect(offsets(two, "brief:uncertain") == [1, 2, 3, 4, 5])
        #expect(result(two.published(.chat("x", id: "m6"), to: "brief:uncertain")) == "published 6")
        // Nothing was published since: the position itself is the proof, without a history too.
        let tip = PublishAttempt(age: .seconds(700), since: unkept[4])
        #expect(result(two.published(.chat("x", id: "m6"), to: "none:uncertain", attempt: tip)) == "published 6")
    }
}
