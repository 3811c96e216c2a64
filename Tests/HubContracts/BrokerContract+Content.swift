import HubBase
import HubCore
import HubWire
import Testing

// Ids, read positions, typing: what a publication's content decides.
extension BrokerContract {
    @Sendable static func dedup(_ fixture: any BrokerFixture) {
        let (one, two) = BrokerNode.pair(fixture)
        let channel: Name = "chat:dedup"
        #expect(one.subscribed(channel) != nil)
        let first = one.published(.chat("hello", id: "m1"), to: channel)
        let other = one.published(.chat("other", id: "m2"), to: channel)
        // The retry goes through the other node.
        let again = two.published(.chat("hello", id: "m1"), to: channel)
        guard case .success(let result)? = first, case .success? = other else {
            Issue.record("refused: \(String(describing: first)), \(String(describing: other))")
            return
        }
        #expect(again == .success(PublishResult(position: result.position, isDuplicate: true)))
        fixture.pass(.milliseconds(100))
        #expect(one.recorder.durable(in: channel).map(\.position.offset) == [1, 2])
    }

    @Sendable static func dedupScope(_ fixture: any BrokerFixture) {
        let node = BrokerNode.pair(fixture).0
        let results = [
            node.published(.chat("hello", id: "m1", from: "alice"), to: "chat:scope"),
            node.published(.chat("hello", id: "m1", from: "bob"), to: "chat:scope"),
            node.published(.chat("hello", id: "m1", from: "alice"), to: "chat:scope-2"),
        ]
        let offsets = results.map { result -> UInt64? in
            if case .success(let result)? = result, !result.isDuplicate { result.position.offset } else { nil }
        }
        #expect(offsets == [1, 2, 1])
        // Names are joined unambiguously: "ab" + "c" isn't "a" + "bc".
        let joined = [
            node.published(.chat("hello", id: "c", from: "ab"), to: "chat:scope-3"),
            node.published(.chat("hello", id: "bc", from: "a"), to: "chat:scope-3"),
        ]
        #expect(joined.allSatisfy { if case .success(let result)? = $0 { !result.isDuplicate } else { false } })
    }

    @Sendable static func conflict(_ fixture: any BrokerFixture) {
        let (one, two) = BrokerNode.pair(fixture)
        let channel: Name = "chat:conflict"
        #expect(one.subscribed(channel) != nil)
        #expect(one.published(.chat("hello", id: "m1"), to: channel) != nil)
        guard case .failure(let error)? = two.published(.chat("changed", id: "m1"), to: channel) else {
            Issue.record("another payload under the same id was taken")
            return
        }
        #expect(error.code == .duplicateConflict)
        fixture.pass(.milliseconds(100))
        #expect(one.recorder.durable(in: channel).count == 1)
        guard case .success(let next)? = one.published(.chat("next", id: "m2"), to: channel) else {
            Issue.record("the next publication was refused")
            return
        }
        #expect(next.position.offset == 2, "the refused one took no position")
    }

    @Sendable static func dedupWindow(_ fixture: any BrokerFixture) {
        let node = BrokerNode.pair(fixture).0
        let first = node.published(.chat("hello", id: "m1"), to: "brief:window")
        fixture.pass(.milliseconds(500))
        let again = node.published(.chat("hello", id: "m1"), to: "brief:window")
        guard case .success(let one)? = first, case .success(let two)? = again else {
            Issue.record("refused: \(String(describing: first)), \(String(describing: again))")
            return
        }
        #expect(one.position.offset == 1 && !one.isDuplicate)
        #expect(two.position.offset == 2 && !two.isDuplicate)
    }

    @Sendable static func readPositions(_ fixture: any BrokerFixture) {
        let (one, two) = BrokerNode.pair(fixture)
        let channel: Name = "chat:read"
        #expect(two.subscribed(channel) != nil)
        for number in 1...5 { #expect(one.published(.chat("x", id: "m\(number)"), to: channel) != nil) }
        func moved(_ node: BrokerNode, _ offset: UInt64) -> UInt64? {
            let tag = node.markRead(.read(offset), offset: offset, in: channel)
            _ = fixture.run { node.recorder.read(tag) != nil }
            return node.recorder.read(tag)
        }
        #expect(moved(one, 3) == 3)
        #expect(moved(two, 2) == 3)
        #expect(moved(one, 3) == 3)
        #expect(moved(two, 5) == 5)
        for offset in [6, 1 << 53 - 1] as [UInt64] {
            for (node, user) in [(one, "alice"), (two, "zoe")] as [(BrokerNode, Name)] {
                let tag = node.markRead(.read(offset, from: user), offset: offset, in: channel)
                _ = fixture.run { node.recorder.readRefusal(tag) != nil }
                #expect(node.recorder.readRefusal(tag)?.code == .badPosition, "nobody has read what isn't there")
            }
        }
        #expect(fixture.run { two.recorder.ephemeral(in: channel).count >= 2 })
        fixture.pass(.milliseconds(100))
        #expect(two.recorder.ephemeral(in: channel) == [.read(3), .read(5)])
    }

    @Sendable static func readScope(_ fixture: any BrokerFixture) {
        let node = BrokerNode.pair(fixture).0
        node.filled("chat:read-scope", 1...7)
        node.filled("chat:read-scope-2", 1...1)
        let alice = node.markRead(.read(7, from: "alice"), offset: 7, in: "chat:read-scope")
        let bob = node.markRead(.read(2, from: "bob"), offset: 2, in: "chat:read-scope")
        let elsewhere = node.markRead(.read(1, from: "alice"), offset: 1, in: "chat:read-scope-2")
        #expect(fixture.run { node.recorder.read(elsewhere) != nil })
        #expect(node.recorder.read(alice) == 7)
        #expect(node.recorder.read(bob) == 2)
        #expect(node.recorder.read(elsewhere) == 1)
    }

    @Sendable static func typing(_ fixture: any BrokerFixture) {
        let (one, two) = BrokerNode.pair(fixture)
        let channel: Name = "chat:typing"
        #expect(two.subscribed(channel)?.isOrigin == true)
        one.broadcast(.typing(), to: channel)
        #expect(fixture.run { two.recorder.ephemeral(in: channel).count == 1 })
        #expect(two.recorder.ephemeral(in: channel) == [.typing()])
        guard case .success(let first)? = one.published(.chat("x", id: "m1"), to: channel) else {
            Issue.record("the publication was refused")
            return
        }
        #expect(first.position.offset == 1)
    }

    @Sendable static func subscribeAgain(_ fixture: any BrokerFixture) {
        let (one, two) = BrokerNode.pair(fixture)
        let channel: Name = "chat:again"
        #expect(two.subscribed(channel) != nil)
        #expect(one.published(.chat("1", id: "m1"), to: channel) != nil)
        #expect(fixture.run { two.recorder.durable(in: channel).count == 1 })
        two.broker.unsubscribe(channel, at: fixture.now)
        fixture.pass(.milliseconds(100))
        #expect(one.published(.chat("2", id: "m2"), to: channel) != nil)
        fixture.pass(.milliseconds(100))
        let position = two.subscribed(channel)
        #expect(position?.offset == 2)
        #expect(one.published(.chat("3", id: "m3"), to: channel) != nil)
        #expect(fixture.run { two.recorder.durable(in: channel).last?.position.offset == 3 })
    }

    @Sendable static func bytes(_ fixture: any BrokerFixture) {
        let (one, two) = BrokerNode.pair(fixture)
        // A composed and a decomposed é are two channels; separators and braces are ordinary bytes.
        let composed = Name(trusted: [UInt8]("chat:caf\u{E9}".utf8))
        let decomposed = Name(trusted: [UInt8]("chat:cafe\u{301}".utf8))
        let odd = Name(trusted: [UInt8]("chat:{a}|b;c%0A:\u{1F600}".utf8))
        for channel in [composed, decomposed, odd] { #expect(two.subscribed(channel) != nil) }
        var publication = Publication.chat("", id: "id|;{x}:\u{E9}", from: Name(trusted: [UInt8]("u|;{}:\u{1F600}".utf8)))
        publication.messageClass = .event
        publication.device = Name(trusted: [UInt8]("my;phone|2".utf8))
        publication.payload = [UInt8]("{\"a\" : \"\\u0000\\\\ \u{E9}\",\n\"b\":[1e400,-0.0]}".utf8)
        for channel in [composed, odd] { #expect(one.published(publication, to: channel) != nil) }
        #expect(fixture.run { two.recorder.durable(in: composed).count == 1 && two.recorder.durable(in: odd).count == 1 })
        #expect(two.recorder.durable(in: composed).first?.publication == publication)
        #expect(two.recorder.durable(in: odd).first?.publication == publication)
        #expect(two.recorder.durable(in: decomposed).isEmpty)
    }
}
