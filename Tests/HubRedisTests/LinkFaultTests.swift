import HubBase
import HubCore
import HubRedis
import HubWire
import Testing

/// What happens to publications and subscriptions when Redis, or the way to it, fails (redis-design §7).
@Suite(.serialized) struct LinkFaultTests {
    static let channel: Name = "chat:faults"

    static func positions(_ node: Node, _ tags: [RequestTag]) -> [UInt64?] {
        tags.map { if case .success(let result)? = node.published[$0] { result.position.offset } else { nil } }
    }

    @Test("SCRIPT FLUSH between publications is invisible, and their order holds, B26")
    func scriptFlush() {
        let fixture = RedisFixture()
        let node = Node(fixture, "aaaaaaaaaaaa")
        #expect(node.goUp())
        #expect(node.findsNothing(Self.channel))
        let client = fixture.server.client()
        var tags: [RequestTag] = []
        for number in 1...200 {
            // Every now and then the scripts vanish, with calls on the way.
            if number % 40 == 0 { client.text("SCRIPT", "FLUSH") }
            tags.append(node.publish("\(number)", id: "m\(number)", to: Self.channel))
            if number % 7 == 0 { fixture.pass(.zero) }
        }
        let applied = node.apply(.up(.online), ["alice"])
        #expect(fixture.run { tags.allSatisfy { node.published[$0] != nil } && node.applied[applied] != nil })
        #expect(Self.positions(node, tags) == (1...200).map { UInt64($0) })
        #expect(fixture.run { node.messages(Self.channel).count == 200 })
        #expect(node.messages(Self.channel).map { "\($0.publication.messageId)" } == (1...200).map { "m\($0)" })
        #expect(node.resyncs(Self.channel) == [])
        if case .success? = node.applied[applied] {} else { Issue.record("apply failed") }
        #expect(node.health == [.up])
    }

    @Test("nor does the order turn where another node has loaded the scripts while calls were on their way, 0350")
    func scriptsLoadedByAnother() {
        let fixture = RedisFixture()
        let relay = Relay(to: fixture.server.socket)
        let (one, two) = (Node(fixture, "aaaaaaaaaaaa", url: relay.url), Node(fixture, "bbbbbbbbbbbb"))
        #expect(one.goUp() && two.goUp())
        #expect(one.findsNothing(Self.channel))
        fixture.server.client().text("SCRIPT", "FLUSH")
        relay.hold(before: "the second")
        let tags = [one.publish("the first", id: "m1", to: Self.channel), one.publish("the second", id: "m2", to: Self.channel)]
        // The first finds no scripts, and its node asks for them, behind the second on its way.
        #expect(fixture.run { relay.isHolding("the second") && relay.isHolding("LOAD") })
        let other = two.publish("another", id: "m3", to: "chat:another")
        #expect(fixture.run { two.published[other] != nil })
        relay.release()
        #expect(fixture.run { tags.allSatisfy { one.published[$0] != nil } })
        #expect(Self.positions(one, tags) == [1, 2])
        #expect(fixture.run { one.messages(Self.channel).count == 2 })
        #expect(one.messages(Self.channel).map { "\($0.publication.messageId)" } == ["m1", "m2"])
    }

    @Test("a killed subscriber link loses nothing unannounced, and the last message is known without a successor")
    func subscriberKilled() {
        let fixture = RedisFixture()
        let (one, two) = (Node(fixture, "aaaaaaaaaaaa"), Node(fixture, "bbbbbbbbbbbb"))
        #expect(one.goUp() && two.goUp())
        #expect(two.findsNothing(Self.channel))
        let client = fixture.server.client()
        var tags: [RequestTag] = []
        for number in 1...300 {
            tags.append(one.publish("\(number)", id: "m\(number)", to: Self.channel))
            fixture.pass(.milliseconds(1))
            if number % 60 == 0 { client.text("CLIENT", "KILL", "TYPE", "pubsub") }
        }
        // The last ones pass while nobody listens.
        client.text("CLIENT", "KILL", "TYPE", "pubsub")
        tags.append(one.publish("last", id: "last", to: Self.channel))
        #expect(fixture.run { tags.allSatisfy { one.published[$0] != nil } })
        #expect(Self.positions(one, tags) == (1...301).map { UInt64($0) })
        #expect(one.goUp() && two.goUp())
        let end = Position(epoch: .none, offset: 301, tag: .none)
        #expect(
            fixture.run {
                switch two.seen[Self.channel]?.last {
                case .message(let message)?: message.position.offset == end.offset
                case .resync(let position, _)?: position.offset == end.offset
                case nil: false
                }
            })
        // What passed meanwhile is filled from history, though nobody announced it.
        #expect(two.messages(Self.channel).map(\.position.offset) == (1...301).map { UInt64($0) })
        #expect(two.complaints(Self.channel) == [] && two.resyncs(Self.channel) == [])
    }

    @Test("transitions that pass while the subscriber link is down are announced as a gap of their partition")
    func feedGap() {
        let fixture = RedisFixture()
        let (one, two) = (Node(fixture, "aaaaaaaaaaaa"), Node(fixture, "bbbbbbbbbbbb"))
        #expect(one.goUp() && two.goUp())
        let up = one.apply(.up(.online), ["alice"])
        #expect(fixture.run { one.applied[up] != nil && two.changes.count == 1 })
        let client = fixture.server.client()
        client.text("CLIENT", "KILL", "TYPE", "pubsub")
        // Without a turn in between: nobody has subscribed again when it's carried out.
        let away = one.apply(.up(.away), ["alice"])
        #expect(fixture.run { one.applied[away] != nil && one.isUp && two.isUp })
        #expect(fixture.run { two.feedGaps == 1 || two.changes.count == 2 })
        let online = one.apply(.up(.online), ["alice"])
        #expect(fixture.run { one.applied[online] != nil && two.changes.last?.status == .online && two.changes.count >= 2 })
        #expect(two.feedGaps == 1 || two.changes.map(\.status) == [.online, .away, .online])
    }

    @Test("a node that stops takes itself off the list of nodes")
    func parting() {
        let fixture = RedisFixture()
        let (one, two) = (Node(fixture, "aaaaaaaaaaaa"), Node(fixture, "bbbbbbbbbbbb"))
        #expect(one.goUp() && two.goUp())
        #expect(one.announce() == ["aaaaaaaaaaaa"])
        #expect(two.announce() == ["aaaaaaaaaaaa", "bbbbbbbbbbbb"])
        fixture.stepped.inTurn.removeFirst()
        one.broker.stop(at: fixture.now)
        one.store.stop(at: fixture.now)
        fixture.pass(.milliseconds(20))
        #expect(two.announce() == ["bbbbbbbbbbbb"])
    }

    @Test("publications on the way when the command link dies are made again and delivered once, in order, B20")
    func commandLinkKilled() {
        let fixture = RedisFixture()
        let node = Node(fixture, "aaaaaaaaaaaa")
        #expect(node.goUp())
        #expect(node.findsNothing(Self.channel))
        let client = fixture.server.client()
        let id = client.strings("CLIENT", "LIST").joined().split(separator: "\n")
            .first { $0.contains("name=hub-aaaaaaaaaaaa-commands") }?
            .split(separator: " ").first { $0.hasPrefix("id=") }?.dropFirst(3)
        guard let id else {
            Issue.record("no link with our name")
            return
        }
        // In one turn: they're sent; then Redis answers some, and drops the link before it's read.
        let tags = (1...500).map { node.publish("\($0)", id: "m\($0)", to: Self.channel) }
        fixture.server.freeze()
        fixture.pass(.milliseconds(20))
        fixture.server.thaw()
        client.text("CLIENT", "KILL", "ID", String(id))
        #expect(fixture.run { tags.allSatisfy { node.published[$0] != nil } })
        #expect(Self.positions(node, tags) == (1...500).map { UInt64($0) })
        #expect(tags.allSatisfy { node.answers[$0] == 1 })
        #expect(fixture.run { node.messages(Self.channel).count == 500 })
        #expect(node.messages(Self.channel).map(\.position.offset) == (1...500).map { UInt64($0) })
        #expect(node.complaints(Self.channel) == [])
    }

    @Test("after a restart without data subscribers get a resync with a new epoch, and publications go on, B12, B16")
    func restartWithoutData() {
        let fixture = RedisFixture()
        let (one, two) = (Node(fixture, "aaaaaaaaaaaa"), Node(fixture, "bbbbbbbbbbbb"))
        #expect(one.goUp() && two.goUp())
        #expect(two.findsNothing(Self.channel))
        let up = one.apply(.up(.online), ["alice"])
        #expect(fixture.run { one.applied[up] != nil && two.changes.count == 1 })
        let before = (1...5).map { one.publish("\($0)", id: "a\($0)", to: Self.channel) }
        #expect(fixture.run { two.messages(Self.channel).count == 5 && before.allSatisfy { one.published[$0] != nil } })
        fixture.server.stop()
        #expect(fixture.run { !one.isUp && !two.isUp })
        // While it's down: refused at once, with a hint.
        let refused = one.publish("x", id: "x", to: Self.channel)
        fixture.pass(.milliseconds(20))
        #expect(one.published[refused] == .failure(.unavailable(retryAfter: 1000)))
        fixture.server.start()
        #expect(one.goUp() && two.goUp())
        #expect(fixture.run { two.resyncs(Self.channel) == [.epochChanged] })
        // One partition had told of somebody; that place is gone, so its watched users must be read again.
        #expect(fixture.run { two.feedGaps == 1 })
        let after = (1...5).map { one.publish("\($0)", id: "b\($0)", to: Self.channel) }
        #expect(fixture.run { two.messages(Self.channel).count == 10 })
        #expect(Self.positions(one, after) == [1, 2, 3, 4, 5])
        #expect(two.complaints(Self.channel) == [])
        #expect(Set(two.messages(Self.channel).map(\.position.epoch)).count == 2)
        // Health is told when it changes, not more often.
        #expect(two.health.count == 3 && two.storeHealth.count == 3)
        #expect(fixture.server.client().text("PUBSUB", "NUMSUB", Self.liveName) == "[\"\(Self.liveName)\",:1]")
    }

    static var liveName: String { String(decoding: KeySpace(prefix: "hub")!.liveChannel(channel), as: UTF8.self) }

    @Test("a frozen Redis is noticed within the deadline; what was on the way is acked once it's back, once each, B13")
    func frozen() {
        let fixture = RedisFixture()
        let node = Node(fixture, "aaaaaaaaaaaa")
        #expect(node.goUp())
        #expect(node.findsNothing(Self.channel))
        fixture.server.freeze()
        let frozenAt = fixture.now
        let tags = (1...20).map { node.publish("\($0)", id: "m\($0)", to: Self.channel) }
        let probe = node.probe()
        #expect(fixture.run(limit: .seconds(8)) { node.health.last != .up && node.probes[probe] == false })
        #expect(fixture.now.since(frozenAt) < .seconds(5))
        #expect(node.probes[probe] == false)
        #expect(tags.allSatisfy { node.published[$0] == nil }, "their outcome isn't known yet")
        // Redis carries out what it got before the freeze; the repeats find their ids taken.
        fixture.server.thaw()
        #expect(node.goUp())
        #expect(fixture.run { tags.allSatisfy { node.published[$0] != nil } })
        #expect(Self.positions(node, tags) == (1...20).map { UInt64($0) })
        let second = node.probe()
        #expect(fixture.run { node.probes[second] == true })
        #expect(fixture.server.client().text("HGET", Self.metaName, "s") == "\"20\"")
        #expect(node.complaints(Self.channel) == [])
    }

    static var metaName: String {
        String(decoding: KeySpace(prefix: "hub")!.key(Partition.of(channel), KeySpace.Kind.meta, channel.bytes), as: UTF8.self)
    }

    @Test("more than 10,000 calls under way are refused as overloaded; those under way are answered")
    func overloaded() {
        let fixture = RedisFixture()
        let node = Node(fixture, "aaaaaaaaaaaa")
        #expect(node.goUp())
        fixture.server.freeze()
        let tags = (1...10_050).map { node.publish("\($0)", id: "m\($0)", to: Self.channel) }
        fixture.pass(.milliseconds(10))
        let refused = tags.filter { if case .failure(let error)? = node.published[$0] { error.code == .overloaded } else { false } }
        #expect(refused.count >= 50 && refused.count < 100)
        fixture.server.thaw()
        #expect(fixture.run { tags.allSatisfy { node.published[$0] != nil } })
        #expect(tags.filter { if case .success? = node.published[$0] { true } else { false } }.count == tags.count - refused.count)
    }

    @Test("a history that was rolled back is announced, whichever of its keys went back, redis-design §0.6", arguments: [true, false])
    func rolledBack(both: Bool) {
        let fixture = RedisFixture()
        let node = Node(fixture, "aaaaaaaaaaaa")
        #expect(node.goUp())
        #expect(node.findsNothing(Self.channel))
        let keys = KeySpace(prefix: "hub")!
        let meta = keys.key(Partition.of(Self.channel), KeySpace.Kind.meta, Self.channel.bytes)
        let stream = keys.key(Partition.of(Self.channel), KeySpace.Kind.stream, Self.channel.bytes)
        let client = fixture.server.client()
        func publish(_ range: ClosedRange<Int>) {
            let tags = range.map { node.publish("\($0)", id: "m\($0)", to: Self.channel) }
            #expect(fixture.run { tags.allSatisfy { node.published[$0] != nil } })
        }
        func dump(_ key: [UInt8]) -> [UInt8] { client.call([[UInt8]("DUMP".utf8), key]) { $0.string(0).map { [UInt8]($0) } ?? [] } ?? [] }
        publish(1...3)
        let (oldMeta, oldStream) = (dump(meta), dump(stream))
        publish(4...6)
        func restore(_ key: [UInt8], _ value: [UInt8]) {
            _ = client.text([[UInt8]("RESTORE".utf8), key, [UInt8]("0".utf8), value, [UInt8]("REPLACE".utf8)])
        }
        restore(meta, oldMeta)
        if both { restore(stream, oldStream) }
        publish(7...12)
        // Both back: the offsets are taken again, in the same epoch. The meta key alone: the stream is ahead, so the epoch is new.
        #expect(fixture.run { node.place(Self.channel)?.offset == (both ? 9 : 6) && !node.resyncs(Self.channel).isEmpty })
        let first = node.messages(Self.channel)[0].position.epoch
        #expect((node.place(Self.channel)?.epoch == first) == both)
        #expect(node.complaints(Self.channel) == [])
        #expect(node.resyncs(Self.channel) == [.epochChanged])
    }

    @Test("what others publish on our channels is no message of ours, nor is what looks like one but isn't in the channel's history")
    func foreign() {
        let fixture = RedisFixture()
        let node = Node(fixture, "aaaaaaaaaaaa")
        #expect(node.goUp())
        #expect(node.findsNothing(Self.channel))
        let client = fixture.server.client()
        for text in ["", "hello", "E:", "E:x", "1:2:3", "J:1:2:3"] { client.text("PUBLISH", Self.liveName, text) }
        #expect(fixture.run { node.backend.foreignMessages == 4 })
        #expect(node.seen.isEmpty)
        client.text("PUBLISH", Self.liveName, "7:epochxyz:tagaaaaa:tagbbbbb:not a publication")
        #expect(fixture.run { node.backend.foreignMessages == 5 })
        #expect(node.seen.isEmpty)
        let tag = node.publish("1", id: "m1", to: Self.channel)
        #expect(fixture.run { node.published[tag] != nil && node.messages(Self.channel).count == 1 })
        #expect(node.complaints(Self.channel) == [])
        #expect(node.health == [.up])
    }

    @Test("what Redis refuses because it takes nothing is answered soon; what another server takes by then is acknowledged there")
    func refused() {
        let fixture = RedisFixture()
        let node = Node(fixture, "aaaaaaaaaaaa")
        #expect(node.goUp())
        let client = fixture.server.client()
        for (words, back) in [
            (["CONFIG", "SET", "min-replicas-to-write", "1"], ["CONFIG", "SET", "min-replicas-to-write", "0"]),
            (["REPLICAOF", "127.0.0.1", "1"], ["REPLICAOF", "NO", "ONE"]),
        ] {
            _ = client.text(words.map { [UInt8]($0.utf8) })
            let tag = node.publish("x", id: "\(words[0])-lost", to: Self.channel)
            // Retries of what may have happened go on for 30 s.
            #expect(fixture.run(limit: .seconds(20)) { node.published[tag] != nil })
            guard case .failure(let error)? = node.published[tag] else {
                Issue.record("acknowledged")
                return
            }
            #expect(error.code == .unavailable && error.mayRetry && error.retryAfter != nil)
            _ = client.text(back.map { [UInt8]($0.utf8) })
            #expect(node.goUp())
            // Refused, and then not any more: as after a failover that was told late.
            _ = client.text(words.map { [UInt8]($0.utf8) })
            let late = node.publish("x", id: "\(words[0])-late", to: Self.channel)
            fixture.pass(.milliseconds(300))
            #expect(node.published[late] == nil)
            _ = client.text(back.map { [UInt8]($0.utf8) })
            #expect(fixture.run(limit: .seconds(10)) { node.published[late] != nil })
            if case .failure? = node.published[late] { Issue.record("not published") }
        }
        #expect(fixture.server.client().text("HGET", Self.metaName, "s") == "\"2\"")
    }

    @Test("an unwanted channel isn't heard for ever, a new subscriber of a lost link waits for it, and gets an error in time")
    func subscribeWhileDown() {
        let fixture = RedisFixture()
        let node = Node(fixture, "aaaaaaaaaaaa")
        #expect(node.goUp())
        #expect(node.findsNothing(Self.channel))
        fixture.server.stop()
        #expect(fixture.run { !node.isUp })
        // Carried already: answered from what's known. New: until the deadline.
        #expect(node.findsNothing(Self.channel))
        #expect(node.subscribe("chat:new") == .failure(.unavailable(retryAfter: 1000)))
        fixture.server.start()
        #expect(node.goUp())
        #expect(node.findsNothing("chat:new"))
    }
}

extension WireError {
    static func unavailable(retryAfter: UInt64) -> WireError {
        WireError(.unavailable, "Redis can't be reached; retry later.", retryAfter: retryAfter)
    }
}
