import HubBase
import HubCore
import HubRedis
import HubWire
import Testing

/// What Redis takes back behind an acknowledgement is told to everybody, by a new epoch (decision 0250): on a real Redis whose data go back
/// while a command link is lost.
@Suite(.serialized) struct RenewalTests {
    static let channel: Name = "chat:renewal"
    static let keys = KeySpace(prefix: "hub")!

    /// Redis with two nodes; older data are brought back as a restart or a failover would.
    final class Scene {
        let fixture = RedisFixture()
        let one: Node
        let two: Node
        let client: RawClient
        private var kept: [(key: [UInt8], end: [UInt8], value: [UInt8])] = []

        init() {
            one = Node(fixture, "aaaaaaaaaaaa")
            two = Node(fixture, "bbbbbbbbbbbb")
            client = fixture.server.client()
            #expect(one.goUp() && two.goUp())
        }

        static func key(_ kind: StaticString, _ channel: Name = RenewalTests.channel) -> [UInt8] {
            RenewalTests.keys.key(Partition.of(channel), kind, channel.bytes)
        }

        func call(_ words: String..., key: [UInt8]) -> String {
            client.text([[UInt8](words[0].utf8), key] + words.dropFirst().map { [UInt8]($0.utf8) })
        }

        /// What there is now, to be brought back later.
        func keep() {
            kept = []
            for name in client.strings("KEYS", "*") {
                let key = [UInt8](name.utf8)
                func bytes(_ word: String) -> [UInt8] {
                    client.call([[UInt8](word.utf8), key]) { reply in reply.string(0).map { [UInt8]($0) } ?? [] } ?? []
                }
                let end = Int(client.text([[UInt8]("PEXPIRETIME".utf8), key]).dropFirst()) ?? 0
                kept.append((key, [UInt8]("\(max(0, end))".utf8), bytes("DUMP")))
            }
        }

        func goBack() {
            client.text("FLUSHALL")
            for one in kept {
                let answer = client.text([[UInt8]("RESTORE".utf8), one.key, one.end, one.value, [UInt8]("ABSTTL".utf8)])
                #expect(answer == "+OK")
            }
        }

        /// Nodes don't take turns meanwhile.
        func cut(_ nodes: Node...) {
            let all = client.strings("CLIENT", "LIST").joined(separator: "\n").split(separator: "\n")
            for line in all where nodes.contains(where: { line.contains("name=hub-\($0.name)-commands") }) {
                let id = line.split(separator: " ")[0].dropFirst(3)
                #expect(client.text("CLIENT", "KILL", "ID", String(id)) == ":1")
            }
        }

        func publish(_ text: String, _ id: String, on node: Node, to channel: Name = RenewalTests.channel) -> PublishResult? {
            let tag = node.publish(text, id: id, to: channel)
            #expect(fixture.run { node.published[tag] != nil })
            return try? node.published[tag]?.get()
        }

        func judged(_ position: Position?, _ channel: Name = RenewalTests.channel) -> HistoryPage.Continuity? {
            guard let position else { return nil }
            let tag = two.readHistory(channel, HistoryQuery(after: .position(position), limit: 10))
            _ = fixture.run { two.pages[tag] != nil }
            return try? two.pages[tag]?.get().continuity
        }

        func marks() -> [Name: UInt64] {
            let tag = two.readMarks(RenewalTests.channel)
            _ = fixture.run { two.marks[tag] != nil }
            return Dictionary(((try? two.marks[tag]?.get()) ?? []).map { ($0.user, $0.offset) }) { first, _ in first }
        }

        /// Until what's in doubt has been looked at; then some time for what follows.
        func settle() {
            #expect(fixture.run(limit: .seconds(20)) { one.isUp && two.isUp })
            fixture.pass(.milliseconds(300))
        }
    }

    @Test(
        "a place that was taken back is told to who stood before it, though another message took it: who comes back, and who follows elsewhere"
    )
    func takenBack() {
        let scene = Scene()
        let origin = scene.two.tip(Self.channel)
        let away = scene.publish("5", "m5", on: scene.one)?.position
        scene.keep()
        let lost = scene.publish("6", "m6", on: scene.one)?.position
        scene.goBack()
        // Stands where the lost one isn't, and hears nothing of it.
        let here = scene.two.subscribe(Self.channel)
        #expect((try? here?.get()) == away)
        let other = scene.publish("another", "m7", on: scene.two)?.position
        #expect(other?.offset == lost?.offset && other?.epoch == lost?.epoch)
        scene.cut(scene.one)
        #expect(scene.fixture.run(limit: .seconds(20)) { scene.two.resyncs(Self.channel) == [.epochChanged] })
        #expect(scene.one.renewals == [Self.channel: [lost].compactMap { $0 }])
        for position in [origin, away, lost, other] { #expect(scene.judged(position) == .broken(.epochChanged)) }
        // What survived is kept, and goes on.
        guard let tip = scene.two.tip(Self.channel) else { return #expect(Bool(false)) }
        #expect(tip.epoch != away?.epoch && tip.offset == 2 && tip.tag == other?.tag)
        #expect(scene.judged(Position(epoch: tip.epoch, offset: 1, tag: away?.tag ?? .none)) == .whole)
        let next = scene.publish("8", "m8", on: scene.one)?.position
        #expect(next?.epoch == tip.epoch && next?.offset == 3)
        #expect(scene.fixture.run { scene.two.place(Self.channel) == next })
        #expect(scene.two.complaints(Self.channel, from: (try? here?.get()) ?? .start) == [])
        let ttl = Int(scene.call("PTTL", key: Scene.key(KeySpace.Kind.meta)).dropFirst()) ?? 0
        #expect(ttl > 6 * 86_400_000)
    }

    @Test("a link that's lost with nothing missing tells nobody anything, also where history is trimmed or isn't kept")
    func stands() {
        let scene = Scene()
        // In the namespace `none` nothing is kept: its message ids prove it.
        let names: [Name] = [Self.channel, "none:renewal", "chat:other"]
        var positions: [Name: Position] = [:]
        for name in names {
            _ = scene.two.subscribe(name)
            positions[name] = scene.publish("1", "m1", on: scene.one, to: name)?.position
        }
        // One goes on, by another node; of one the entry is trimmed.
        for name in names.dropLast() { positions[name] = scene.publish("2", "m2", on: scene.two, to: name)?.position }
        _ = scene.call("XTRIM", "MAXLEN", "1", key: Scene.key(KeySpace.Kind.stream))
        for _ in 0..<3 {
            scene.cut(scene.one, scene.two)
            scene.settle()
        }
        for name in names {
            #expect(scene.two.tip(name) == positions[name] && scene.two.resyncs(name) == [])
        }
        #expect(scene.one.renewals.isEmpty && scene.two.renewals.isEmpty)
        #expect(scene.one.health.contains { if case .down = $0 { true } else { false } })
    }

    @Test("where the entry is trimmed, a message id that's gone too soon tells of the loss")
    func trimmed() {
        let scene = Scene()
        let name: Name = "none:renewal"
        let away = scene.publish("1", "m1", on: scene.one, to: name)?.position
        scene.keep()
        _ = scene.publish("2", "m2", on: scene.one, to: name)
        scene.goBack()
        for id in ["m3", "m4"] { _ = scene.publish(id, id, on: scene.two, to: name) }
        scene.cut(scene.one)
        scene.settle()
        #expect(scene.one.renewals[name]?.count == 1)
        #expect(scene.two.tip(name)?.epoch != away?.epoch)
    }

    @Test("a first message that was taken back is told to who stands at the beginning, and the channel begins behind a place of its own")
    func first() {
        let scene = Scene()
        let origin = scene.two.tip(Self.channel)
        #expect(origin?.isOrigin == true && origin?.tag != Mark.none)
        scene.keep()
        let lost = scene.publish("1", "m1", on: scene.one)?.position
        scene.goBack()
        #expect(scene.two.subscribe(Self.channel).flatMap { try? $0.get() } == origin)
        scene.cut(scene.one)
        #expect(scene.fixture.run(limit: .seconds(20)) { scene.two.resyncs(Self.channel) == [.epochChanged] })
        guard let tip = scene.two.tip(Self.channel) else { return #expect(Bool(false)) }
        #expect(tip.offset == 0 && tip.epoch != .none && tip.epoch != lost?.epoch)
        #expect(
            scene.judged(origin) == .broken(.epochChanged) && scene.judged(lost) == .broken(.epochChanged) && scene.judged(tip) == .whole)
        let next = scene.publish("again", "m2", on: scene.one)?.position
        #expect(next?.epoch == tip.epoch && next?.offset == 1)
        #expect(scene.judged(origin) == .broken(.epochChanged) && scene.judged(tip) == .whole)
        #expect(scene.fixture.run { scene.two.place(Self.channel) == next })
        #expect(scene.two.complaints(Self.channel, from: origin ?? .start) == [])
    }

    @Test(
        "what an old master acknowledged after its successor was asked is told to who stood at the origin there, though the channel began since"
    )
    func acknowledgedLate() {
        let scene = Scene()
        let origin = scene.two.tip(Self.channel)
        scene.keep()
        scene.fixture.pass(.milliseconds(300))
        let lost = scene.publish("1", "m1", on: scene.one)?.position
        scene.fixture.pass(.milliseconds(300))
        scene.goBack()
        #expect(scene.two.subscribe(Self.channel).flatMap { try? $0.get() } == origin)
        let begun = scene.publish("2", "m2", on: scene.two)?.position
        #expect(begun?.offset == 1 && begun?.epoch != lost?.epoch && scene.judged(origin) == .whole)
        scene.cut(scene.one)
        #expect(scene.fixture.run(limit: .seconds(20)) { scene.two.resyncs(Self.channel) == [.epochChanged] })
        #expect(scene.one.renewals == [Self.channel: [lost].compactMap { $0 }])
        for position in [origin, lost, begun] { #expect(scene.judged(position) == .broken(.epochChanged)) }
        let tip = scene.two.tip(Self.channel)
        #expect(tip?.offset == 1 && tip?.tag == begun?.tag)
        // Once for all nodes.
        for _ in 0..<2 {
            scene.cut(scene.one, scene.two)
            scene.settle()
        }
        #expect(scene.one.renewals.count == 1 && scene.two.renewals.isEmpty && scene.two.tip(Self.channel) == tip)
    }

    @Test("a channel whose first messages were taken back from two nodes is given one new epoch between them")
    func firstOfTwo() {
        let scene = Scene()
        _ = scene.two.tip(Self.channel)
        scene.keep()
        scene.fixture.pass(.milliseconds(300))
        _ = scene.publish("1", "m1", on: scene.one)
        _ = scene.publish("2", "m2", on: scene.two)
        scene.fixture.pass(.milliseconds(300))
        scene.goBack()
        scene.cut(scene.one, scene.two)
        scene.settle()
        #expect((scene.one.renewals[Self.channel]?.count ?? 0) + (scene.two.renewals[Self.channel]?.count ?? 0) == 1)
        #expect(scene.two.tip(Self.channel)?.offset == 0 && scene.two.tip(Self.channel)?.isOrigin == false)
    }

    @Test("with all data lost nothing is written for a channel: its generation tells who stood anywhere")
    func allLost() {
        let scene = Scene()
        _ = scene.publish("1", "m1", on: scene.one)
        scene.fixture.pass(.milliseconds(500))
        scene.client.text("FLUSHALL")
        // Somebody asks before the node that acknowledged is back.
        #expect(scene.two.tip(Self.channel)?.isOrigin == true)
        scene.cut(scene.one)
        scene.settle()
        #expect(scene.one.renewals.isEmpty && scene.two.tip(Self.channel)?.isOrigin == true)
        // Neither for one that has begun again meanwhile.
        let begun = scene.publish("2", "m2", on: scene.two)?.position
        _ = scene.publish("4", "m4", on: scene.one)
        _ = scene.publish("1", "m1", on: scene.one, to: "chat:other")
        scene.fixture.pass(.milliseconds(500))
        scene.client.text("FLUSHALL")
        let again = scene.publish("3", "m3", on: scene.two)?.position
        scene.cut(scene.one, scene.two)
        scene.settle()
        #expect(begun?.epoch != again?.epoch && scene.two.tip(Self.channel) == again)
        #expect(scene.one.renewals.isEmpty && scene.two.renewals.isEmpty)
    }

    @Test("nodes that acknowledged in the same channel give it one new epoch between them; one that's taken back is given again")
    func once() {
        let scene = Scene()
        let away = scene.publish("1", "m1", on: scene.one)?.position
        scene.keep()
        _ = scene.publish("2", "m2", on: scene.one)
        _ = scene.publish("3", "m3", on: scene.two)
        scene.fixture.pass(.milliseconds(500))
        scene.goBack()
        scene.cut(scene.one, scene.two)
        scene.settle()
        let first = scene.two.tip(Self.channel)
        #expect((scene.one.renewals[Self.channel]?.count ?? 0) + (scene.two.renewals[Self.channel]?.count ?? 0) == 1)
        #expect(first?.epoch != away?.epoch && first?.offset == 1)
        scene.cut(scene.one, scene.two)
        scene.settle()
        #expect(scene.two.tip(Self.channel) == first)
        // Back to before that.
        scene.goBack()
        #expect(scene.two.tip(Self.channel) == away)
        scene.cut(scene.one, scene.two)
        scene.settle()
        #expect(scene.two.tip(Self.channel)?.epoch != away?.epoch)
        #expect(scene.judged(away) == .broken(.epochChanged) && scene.judged(first) == .broken(.epochChanged))
    }

    @Test("a repeat of what survived gets its place in the new epoch; what was lost is published anew")
    func repeats() {
        let scene = Scene()
        let kept = scene.publish("1", "m1", on: scene.one)?.position
        scene.keep()
        let lost = scene.publish("2", "m2", on: scene.one)?.position
        scene.goBack()
        scene.cut(scene.one)
        scene.settle()
        guard let tip = scene.two.tip(Self.channel), let kept else { return #expect(Bool(false)) }
        let again = scene.publish("1", "m1", on: scene.two)
        #expect(again == PublishResult(position: Position(epoch: tip.epoch, offset: 1, tag: kept.tag), isDuplicate: true))
        let tag = scene.two.publish("other", id: "m1", to: Self.channel)
        #expect(scene.fixture.run { HistoryFaultTests.code(scene.two.published[tag]) == "duplicateConflict" })
        let anew = scene.publish("2", "m2", on: scene.one)
        #expect(anew?.isDuplicate == false && anew?.position.offset == lost?.offset && anew?.position.epoch == tip.epoch)
        // An epoch that began by itself takes over nothing.
        _ = scene.call("DEL", key: Scene.key(KeySpace.Kind.stream))
        _ = scene.call("XADD", "99-0", "g", "aaaaaaaa", "p", "aaaaaaaa", "d", "x", key: Scene.key(KeySpace.Kind.stream))
        #expect(scene.publish("3", "m3", on: scene.one)?.position.offset == 1)
        #expect(scene.call("HMGET", "o", "n", key: Scene.key(KeySpace.Kind.meta)) == "[nil,nil]")
        let late = scene.two.publish("1", id: "m1", to: Self.channel)
        #expect(scene.fixture.run { HistoryFaultTests.code(scene.two.published[late]) == "uncertain" })
    }

    @Test("read positions go on into the new epoch, up to where its messages survived")
    func marks() {
        let scene = Scene()
        for id in 1...4 { _ = scene.publish("\(id)", "m\(id)", on: scene.one) }
        func read(_ offset: UInt64, by user: Name) -> UInt64? {
            let tag = scene.one.markRead(offset, by: user, in: Self.channel)
            _ = scene.fixture.run { scene.one.moved[tag] != nil }
            return try? scene.one.moved[tag]?.get()
        }
        #expect(read(2, by: "alice") == 2 && read(4, by: "bob") == 4)
        scene.keep()
        _ = scene.publish("5", "m5", on: scene.one)
        #expect(read(5, by: "carol") == 5)
        let reads =
            scene.client.call([[UInt8]("DUMP".utf8), Scene.key(KeySpace.Kind.reads)]) { $0.string(0).map { [UInt8]($0) } ?? [] } ?? []
        scene.goBack()
        // Its own key, of a later moment than the rest.
        _ = scene.client.text([[UInt8]("RESTORE".utf8), Scene.key(KeySpace.Kind.reads), [UInt8]("0".utf8), reads, [UInt8]("REPLACE".utf8)])
        scene.cut(scene.one)
        scene.settle()
        #expect(scene.one.renewals.count == 1)
        #expect(scene.marks() == ["alice": 2, "bob": 4, "carol": 4])
        // Never back, and on from there.
        #expect(read(1, by: "alice") == 2 && read(3, by: "carol") == 4 && read(3, by: "alice") == 3)
        #expect(scene.marks() == ["alice": 3, "bob": 4, "carol": 4])
    }

    @Test("with memory full it waits for room; somebody else's keys are left as they are, and told of")
    func refused() {
        let scene = Scene()
        _ = scene.publish("1", "m1", on: scene.one)
        scene.keep()
        _ = scene.publish("2", "m2", on: scene.one)
        scene.goBack()
        scene.client.text("CONFIG", "SET", "maxmemory", "1")
        scene.cut(scene.one)
        scene.settle()
        #expect(scene.one.renewals.isEmpty)
        scene.client.text("CONFIG", "SET", "maxmemory", "0")
        #expect(scene.fixture.run(limit: .seconds(20)) { scene.one.renewals[Self.channel]?.count == 1 })

        let other: Name = "chat:foreign"
        _ = scene.publish("1", "m1", on: scene.one, to: other)
        let meta = Scene.key(KeySpace.Kind.meta, other)
        for made in [["SET", "mine"], ["HSET", "name", "value"]] {
            _ = scene.call("DEL", key: meta)
            _ = scene.client.text([[UInt8](made[0].utf8), meta] + made.dropFirst().map { [UInt8]($0.utf8) })
            let before = scene.call("DUMP", key: meta)
            scene.cut(scene.one)
            scene.settle()
            #expect(scene.call("DUMP", key: meta) == before && scene.one.renewals[other] == nil)
            _ = scene.call("DEL", key: meta)
            _ = scene.call("DEL", key: Scene.key(KeySpace.Kind.stream, other))
            _ = scene.publish("2", "m-\(made[0])", on: scene.one, to: other)
        }
        #expect(scene.fixture.run { scene.one.foreign == [String(decoding: meta, as: UTF8.self)] })
    }
}
