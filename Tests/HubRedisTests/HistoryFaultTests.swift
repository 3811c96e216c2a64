import HubBase
import HubCore
import HubRedis
import HubWire
import Testing

/// Keys that hold something else, Redis that goes away, channels by the hundred: what history and recovery make of it.
@Suite(.serialized) struct HistoryFaultTests {
    static let channel: Name = "chat:history"
    static let keys = KeySpace(prefix: "hub")!

    static func key(_ kind: StaticString, _ channel: Name = Self.channel) -> [UInt8] {
        keys.key(Partition.of(channel), kind, channel.bytes)
    }

    static func code<Value>(_ result: Result<Value, WireError>?) -> String {
        switch result {
        case .success?: "fine"
        case .failure(let error)?: error.message.contains("isn't a hub's") && !error.mayRetry ? "foreignKey" : error.code.rawValue
        case nil: "no answer"
        }
    }

    struct Foreign: Sendable, CustomTestStringConvertible {
        var kind: StaticString
        /// One for all its channels.
        var isOfPartition = false
        /// Commands that make the key; KEY stands for its name.
        var made: [String]
        /// What publish, an older retry, a page, marks and a read position get.
        var answers: [String]
        var testDescription: String { "\(kind) \(made)" }
    }

    static let all = ["foreignKey", "foreignKey", "foreignKey", "foreignKey", "foreignKey"]
    static let foreign: [Foreign] = [
        Foreign(kind: KeySpace.Kind.meta, made: ["SET KEY mine"], answers: all),
        Foreign(kind: KeySpace.Kind.meta, made: ["RPUSH KEY mine"], answers: all),
        Foreign(
            kind: KeySpace.Kind.meta, made: ["HSET KEY name value"],
            answers: ["foreignKey", "foreignKey", "foreignKey", "fine", "foreignKey"]),
        Foreign(
            kind: KeySpace.Kind.meta, made: ["HSET KEY e zzzzzzzz s abc g x"], answers: all),
        // Whole, and all the same not as a hub writes it.
        Foreign(kind: KeySpace.Kind.meta, made: ["HSET KEY e ABCDEFGH s 3 g taaaaaa3"], answers: all),
        Foreign(kind: KeySpace.Kind.meta, made: ["HSET KEY e short s 3 g taaaaaa3"], answers: all),
        Foreign(kind: KeySpace.Kind.meta, made: ["HSET KEY e epochaaa s 3 g TAG"], answers: all),
        Foreign(kind: KeySpace.Kind.meta, made: ["HSET KEY e epochaaa s 1.5 g taaaaaa3"], answers: all),
        Foreign(kind: KeySpace.Kind.meta, made: ["HSET KEY e epochaaa s 007 g taaaaaa3"], answers: all),
        Foreign(kind: KeySpace.Kind.meta, made: ["HSET KEY e epochaaa s 0x7 g taaaaaa3"], answers: all),
        Foreign(kind: KeySpace.Kind.meta, made: ["HSET KEY e epochaaa s 9007199254740991 g taaaaaa3"], answers: all),
        Foreign(kind: KeySpace.Kind.stream, made: ["SET KEY mine"], answers: ["foreignKey", "foreignKey", "foreignKey", "fine", "fine"]),
        Foreign(
            kind: KeySpace.Kind.stream, made: ["XADD KEY * name value"],
            answers: ["foreignKey", "foreignKey", "foreignKey", "fine", "fine"]),
        Foreign(
            kind: KeySpace.Kind.stream, made: ["XADD KEY 1-1 g a p b d c"],
            answers: ["foreignKey", "foreignKey", "foreignKey", "fine", "fine"]),
        Foreign(
            kind: KeySpace.Kind.generation, isOfPartition: true, made: ["SET KEY mine"],
            answers: ["foreignKey", "foreignKey", "foreignKey", "fine", "fine"]),
        Foreign(
            kind: KeySpace.Kind.generation, isOfPartition: true, made: ["DEL KEY", "HSET KEY a b"],
            answers: ["foreignKey", "foreignKey", "foreignKey", "fine", "fine"]),
        Foreign(kind: KeySpace.Kind.reads, made: ["SET KEY mine"], answers: ["fine", "fine", "fine", "foreignKey", "foreignKey"]),
        Foreign(kind: KeySpace.Kind.reads, made: ["HSET KEY name value"], answers: ["fine", "fine", "fine", "fine", "foreignKey"]),
        Foreign(kind: KeySpace.Kind.reads, made: ["HSET KEY alice mine"], answers: ["fine", "fine", "fine", "fine", "foreignKey"]),
    ]

    @Test("a key that holds something else gets a named error, and is left as it was", arguments: foreign)
    func wrongType(_ one: Foreign) {
        let fixture = RedisFixture()
        let node = Node(fixture, "aaaaaaaaaaaa")
        #expect(node.goUp())
        let client = fixture.server.client()
        let origin = node.tip(Self.channel)
        let key = one.isOfPartition ? Self.keys.key(Partition.of(Self.channel), one.kind) : Self.key(one.kind)
        for command in one.made {
            _ = client.text(command.split(separator: " ").map { $0 == "KEY" ? key : [UInt8]($0.utf8) })
        }
        func dump() -> String { client.text([[UInt8]("DUMP".utf8), key]) + client.text([[UInt8]("PTTL".utf8), key]) }
        let before = dump()
        let old = PublishAttempt(age: .seconds(10_000), since: origin)
        let tags = [
            node.publish("x", id: "m1", to: Self.channel),
            node.publish("x", id: "m2", to: Self.channel, attempt: old),
            node.readHistory(Self.channel, HistoryQuery(after: .position(.start), limit: 10)),
            node.readMarks(Self.channel),
            node.markRead(0, in: Self.channel),
        ]
        #expect(fixture.run { node.moved[tags[4]] != nil && node.marks[tags[3]] != nil && node.pages[tags[2]] != nil })
        let answers = [
            Self.code(node.published[tags[0]]), Self.code(node.published[tags[1]]), Self.code(node.pages[tags[2]]),
            Self.code(node.marks[tags[3]]), Self.code(node.moved[tags[4]]),
        ]
        #expect(answers == one.answers)
        #expect(dump() == before)
        // The client hears of the channel, whoever runs the hub of the key.
        if case .failure(let error)? = node.moved[tags[4]] { #expect(error.message.contains("\(Self.channel)")) }
        #expect(fixture.run { node.foreign == [String(decoding: key, as: UTF8.self)] })
        #expect(node.health == [.up])
    }

    @Test(
        "whoever subscribes to a channel whose place is in somebody else's key gets a named error, each time anew, and so does a recovery")
    func subscribing() {
        let made: [(kind: StaticString?, command: [String])] = [
            (KeySpace.Kind.meta, ["SET", "KEY", "mine"]), (KeySpace.Kind.meta, ["HSET", "KEY", "name", "value"]),
            (KeySpace.Kind.meta, ["HSET", "KEY", "e", "zzzzzzzz", "s", "abc", "g", "x"]),
            (KeySpace.Kind.meta, ["HSET", "KEY", "e", "epochaaa", "s", "007", "g", "taaaaaa3"]),
            (KeySpace.Kind.meta, ["HSET", "KEY", "e", "epochaaa", "s", "9007199254740991", "g", "taaaaaa3"]),
            (KeySpace.Kind.meta, ["HSET", "KEY", "e", "epochaaa", "s", "3", "g", "TAG"]),
            (KeySpace.Kind.meta, ["HSET", "KEY", "s", "abc"]), (KeySpace.Kind.stream, ["XADD", "KEY", "*", "name", "value"]),
            // The partition's generation.
            (KeySpace.Kind.stream, ["SET", "KEY", "mine"]), (nil, ["SET", "KEY", "mine"]), (nil, ["LPUSH", "KEY", "mine"]),
        ]
        for (kind, command) in made {
            let fixture = RedisFixture()
            let node = Node(fixture, "aaaaaaaaaaaa")
            #expect(node.goUp())
            let client = fixture.server.client()
            let key = kind.map { Self.key($0) } ?? Self.keys.key(Partition.of(Self.channel), KeySpace.Kind.generation)
            _ = client.text([[UInt8]("DEL".utf8), key])
            _ = client.text(command.map { $0 == "KEY" ? key : [UInt8]($0.utf8) })
            let before = client.text([[UInt8]("DUMP".utf8), key])
            for _ in 0..<2 {
                let answer = node.subscribe(Self.channel)
                #expect(Self.code(answer) == "foreignKey", "\(command)")
                if case .failure(let error)? = answer { #expect(error.message.contains("\(Self.channel)")) }
            }
            #expect(client.text([[UInt8]("DUMP".utf8), key]) == before)
            // Gone, the channel is as it would be without.
            _ = client.text([[UInt8]("DEL".utf8), key])
            let place = try? node.subscribe(Self.channel)?.get()
            #expect(place?.isOrigin == true && place != .start, "\(command)")
            #expect(node.health == [.up])
        }
    }

    @Test("a stream that turned into something else behind a channel's back is left as it was, and so is the channel")
    func turned() {
        let fixture = RedisFixture()
        let node = Node(fixture, "aaaaaaaaaaaa")
        #expect(node.goUp())
        let client = fixture.server.client()
        let (stream, meta) = (Self.key(KeySpace.Kind.stream), Self.key(KeySpace.Kind.meta))
        let first = node.publish("1", id: "m1", to: Self.channel)
        #expect(fixture.run { Self.code(node.published[first]) == "fine" })
        let stood = client.text([[UInt8]("HGETALL".utf8), meta])
        for made in [["SET", "KEY", "mine"], ["DEL", "KEY"], ["XADD", "KEY", "99999-0", "name", "value"]] {
            _ = client.text(made.map { $0 == "KEY" ? stream : [UInt8]($0.utf8) })
            guard made[0] != "DEL" else { continue }
            let before = client.text([[UInt8]("DUMP".utf8), stream])
            let tag = node.publish("2", id: "m2", to: Self.channel)
            #expect(fixture.run { Self.code(node.published[tag]) == "foreignKey" })
            #expect(client.text([[UInt8]("DUMP".utf8), stream]) == before)
            #expect(client.text([[UInt8]("HGETALL".utf8), meta]) == stood)
        }
        // Once it's gone the channel goes on where it was.
        _ = client.text([[UInt8]("DEL".utf8), stream])
        let again = node.publish("2", id: "m2", to: Self.channel)
        #expect(fixture.run { Self.code(node.published[again]) == "fine" })
        #expect((try? node.published[again]?.get())?.position.offset == 2)
    }

    @Test("a retry whose channel has lost its place is uncertain, and isn't published; another content is a conflict all the same")
    func lostPlace() {
        let fixture = RedisFixture()
        let node = Node(fixture, "aaaaaaaaaaaa")
        #expect(node.goUp())
        let client = fixture.server.client()
        func publish(_ text: String, _ id: String) -> String {
            let tag = node.publish(text, id: id, to: Self.channel)
            _ = fixture.run { node.published[tag] != nil }
            if case .success(let result)? = node.published[tag] { return "\(result.position.offset)\(result.isDuplicate ? " again" : "")" }
            return Self.code(node.published[tag])
        }
        #expect([publish("1", "m1"), publish("2", "m2"), publish("2", "m2")] == ["1", "2", "2 again"])
        // Evicted, with nothing since, and begun anew since.
        _ = client.text([[UInt8]("DEL".utf8), Self.key(KeySpace.Kind.meta)])
        #expect(publish("2", "m2") == "uncertain")
        #expect(publish("other", "m2") == "duplicateConflict")
        #expect(publish("3", "m3") == "1")
        #expect(publish("2", "m2") == "uncertain")
        // Rolled back behind it, in its epoch.
        #expect(publish("4", "m4") == "2")
        _ = client.text([[UInt8]("HSET".utf8), Self.key(KeySpace.Kind.meta), [UInt8]("s".utf8), [UInt8]("1".utf8)])
        #expect([publish("4", "m4"), publish("3", "m3")] == ["uncertain", "1 again"])
    }

    @Test("a channel whose record was evicted stands nowhere that could be continued, until it begins anew")
    func evicted() {
        let fixture = RedisFixture()
        let node = Node(fixture, "aaaaaaaaaaaa")
        #expect(node.goUp())
        let client = fixture.server.client()
        func judged(_ position: Position) -> HistoryPage.Continuity? {
            let tag = node.readHistory(Self.channel, HistoryQuery(after: .position(position), limit: 10))
            _ = fixture.run { node.pages[tag] != nil }
            return try? node.pages[tag]?.get().continuity
        }
        guard let origin = node.tip(Self.channel) else { return #expect(Bool(false)) }
        let first = node.publish("1", id: "m1", to: Self.channel)
        #expect(fixture.run { node.published[first] != nil })
        #expect(judged(origin) == .whole)
        _ = client.text([[UInt8]("DEL".utf8), Self.key(KeySpace.Kind.meta)])
        #expect(node.tip(Self.channel) == .start)
        #expect(judged(origin) == .broken(.epochChanged) && judged(.start) == .broken(.epochChanged))
        let second = node.publish("2", id: "m2", to: Self.channel)
        #expect(fixture.run { node.published[second] != nil })
        #expect(judged(origin) == .broken(.epochChanged) && judged(.start) == .broken(.epochChanged))
    }

    @Test("a generation holds for 3.5 to 7 days; with memory full none is made, and nothing can be proved of an empty channel")
    func generation() {
        let fixture = RedisFixture()
        let node = Node(fixture, "aaaaaaaaaaaa")
        #expect(node.goUp())
        let client = fixture.server.client()
        let key = KeySpace(prefix: "hub")!.key(Partition.of(Self.channel), KeySpace.Kind.generation)
        let days: UInt64 = 86_400_000
        var spans: [UInt64] = []
        for _ in 0..<20 {
            _ = client.text([[UInt8]("DEL".utf8), key])
            #expect(node.tip(Self.channel)?.tag != Mark.none)
            spans.append(UInt64(client.text([[UInt8]("PTTL".utf8), key]).dropFirst()) ?? 0)
        }
        #expect(spans.allSatisfy { $0 > days * 7 / 2 - 60_000 && $0 <= days * 7 } && Set(spans.map { $0 / days }).count > 1)
        _ = client.text([[UInt8]("DEL".utf8), key])
        client.text("CONFIG", "SET", "maxmemory", "1")
        #expect(node.tip(Self.channel) == .start)
        #expect(client.text([[UInt8]("EXISTS".utf8), key]) == ":0")
        client.text("CONFIG", "SET", "maxmemory", "0")
        #expect(node.tip(Self.channel)?.tag != Mark.none)
    }

    @Test("entries of others among ours are a named error, and so is what can't be read; deleted ones are a hole that's named")
    func foreignEntries() {
        let fixture = RedisFixture()
        let node = Node(fixture, "aaaaaaaaaaaa")
        #expect(node.goUp())
        let client = fixture.server.client()
        let stream = Self.key(KeySpace.Kind.stream)
        func publish(_ range: ClosedRange<Int>) {
            let tags = range.map { node.publish("\($0)", id: "m\($0)", to: Self.channel) }
            #expect(fixture.run { tags.allSatisfy { node.published[$0] != nil } })
        }
        func page(_ query: HistoryQuery) -> Result<HistoryPage, WireError>? {
            let tag = node.readHistory(Self.channel, query)
            _ = fixture.run { node.pages[tag] != nil }
            return node.pages[tag]
        }
        guard let origin = node.tip(Self.channel) else { return #expect(Bool(false)) }
        publish(1...6)
        _ = client.text(["XDEL", "KEY", "4-0"].map { $0 == "KEY" ? stream : [UInt8]($0.utf8) })
        let holed = try? page(HistoryQuery(after: .position(origin), limit: 10))?.get()
        #expect(holed?.continuity == .broken(.trimmed))
        #expect(holed?.publications.map(\.position.offset) == [1, 2, 3, 5, 6])
        // Also where it lies between two pages, or at the end that was asked for.
        for bound in [HistoryQuery.Bound.offset(5), .position(holed?.publications[3].position ?? .start)] {
            let lower = try? page(HistoryQuery(after: .position(origin), before: bound, isReverse: true, limit: 2))?.get()
            #expect(lower?.continuity == .broken(.trimmed) && lower?.publications.map(\.position.offset) == [3, 2])
            #expect((try? page(HistoryQuery(after: .position(origin), before: bound, limit: 10))?.get())?.continuity == .broken(.trimmed))
        }
        let upper = try? page(HistoryQuery(after: .position(origin), before: .offset(4), isReverse: true, limit: 2))?.get()
        #expect(upper?.continuity == .whole && upper?.publications.map(\.position.offset) == [3, 2])
        let retry = node.publish("4", id: "m-old", to: Self.channel, attempt: PublishAttempt(age: .seconds(10_000), since: origin))
        #expect(fixture.run { node.published[retry] != nil })
        #expect(Self.code(node.published[retry]) == "uncertain")
        let meta = Self.key(KeySpace.Kind.meta)
        func set(_ offset: Int, _ fields: [String]) {
            _ = client.text([[UInt8]("HSET".utf8), meta, [UInt8]("s".utf8), [UInt8]("\(offset)".utf8)])
            _ = client.text([[UInt8]("XADD".utf8), stream, [UInt8]("\(offset)-0".utf8)] + fields.map { [UInt8]($0.utf8) })
        }
        set(7, ["g", "aaaaaaaa", "p", "bbbbbbbb", "d", "not a publication"])
        #expect(Self.code(page(HistoryQuery(isReverse: true, limit: 1))) == "internal")
        #expect(Self.code(page(HistoryQuery(before: .offset(7), isReverse: true, limit: 2))) == "fine")
        set(8, ["g", "NOTATAG!", "p", "bbbbbbbb", "d", "x"])
        #expect(Self.code(page(HistoryQuery(isReverse: true, limit: 1))) == "foreignKey")
        set(9, ["other", "fields"])
        #expect(Self.code(page(HistoryQuery(isReverse: true, limit: 1))) == "foreignKey")
        #expect(node.health == [.up])
    }

    @Test("after a re-link hundreds of channels that went on are each filled, in order, without one announcement")
    func manyAfterRelink() {
        let fixture = RedisFixture()
        let (one, two) = (Node(fixture, "aaaaaaaaaaaa"), Node(fixture, "bbbbbbbbbbbb"))
        #expect(one.goUp() && two.goUp())
        let names = (0..<600).map { Name(trusted: [UInt8]("chat:relink-\($0)".utf8)) }
        for name in names { two.broker.subscribe(name, tag: .none, at: fixture.now) }
        #expect(fixture.run { two.subscriptions[.none] != nil })
        fixture.pass(.milliseconds(200))
        func publish(_ round: Int) -> [RequestTag] { names.map { one.publish("x", id: "m\(round)", to: $0) } }
        let first = publish(1)
        #expect(fixture.run { first.allSatisfy { one.published[$0] != nil } && names.allSatisfy { two.messages($0).count == 1 } })
        // Two rounds pass while nobody listens.
        fixture.server.client().text("CLIENT", "KILL", "TYPE", "pubsub")
        let missed = publish(2) + publish(3)
        #expect(fixture.run(limit: .seconds(10)) { missed.allSatisfy { one.published[$0] != nil } && two.isUp })
        let last = publish(4)
        #expect(fixture.run(limit: .seconds(10)) { last.allSatisfy { one.published[$0] != nil } })
        #expect(fixture.run(limit: .seconds(10)) { names.allSatisfy { two.messages($0).count >= 4 } })
        for name in names {
            #expect(two.messages(name).map(\.position.offset) == [1, 2, 3, 4])
            #expect(two.resyncs(name) == [])
        }
    }

    @Test("while Redis is away reads and publications are refused with a hint, and what was under way is answered so in time")
    func away() {
        let fixture = RedisFixture()
        let node = Node(fixture, "aaaaaaaaaaaa")
        #expect(node.goUp())
        fixture.server.freeze()
        // Under way, with an outcome that isn't known: the id is remembered for 300 ms, so it's made again no longer than that.
        let publish = node.publish("x", id: "m1", to: "brief:away")
        let pages = (0..<300).map { _ in node.readHistory(Self.channel, HistoryQuery(limit: 10)) }
        let marks = node.readMarks(Self.channel)
        fixture.pass(.milliseconds(50))
        fixture.server.stop()
        #expect(fixture.run { node.published[publish] != nil && node.marks[marks] != nil && pages.allSatisfy { node.pages[$0] != nil } })
        #expect(Self.code(node.published[publish]) == "unavailable")
        #expect(pages.allSatisfy { Self.code(node.pages[$0]) == "unavailable" })
        #expect(Self.code(node.marks[marks]) == "unavailable")
        let refused = (
            node.publish("x", id: "m2", to: Self.channel), node.readHistory(Self.channel, HistoryQuery(limit: 1)),
            node.readMarks(Self.channel)
        )
        fixture.pass(.milliseconds(50))
        for error in [
            node.published[refused.0].flatMap { if case .failure(let error) = $0 { error } else { nil } },
            node.pages[refused.1].flatMap { if case .failure(let error) = $0 { error } else { nil } },
            node.marks[refused.2].flatMap { if case .failure(let error) = $0 { error } else { nil } },
        ] { #expect(error?.code == .unavailable && error?.retryAfter != nil) }
        fixture.server.start()
        #expect(node.goUp())
        let again = node.readHistory(Self.channel, HistoryQuery(after: .position(.start), limit: 10))
        #expect(fixture.run { Self.code(node.pages[again]) == "fine" })
    }

    @Test("a channel keeps the read positions of 10,000 users; those of an earlier epoch make room")
    func marksBound() {
        let fixture = RedisFixture()
        let node = Node(fixture, "aaaaaaaaaaaa")
        #expect(node.goUp())
        let first = node.publish("x", id: "m1", to: Self.channel)
        #expect(fixture.run { node.published[first] != nil })
        let epoch = (try? node.published[first]?.get())?.position.epoch ?? .none
        let client = fixture.server.client()
        func fill(_ prefix: String, _ epoch: String) {
            for start in stride(from: 0, to: 9_999, by: 1_000) {
                let fields = (start..<min(start + 1_000, 9_999)).flatMap { ["\(prefix)-\($0)", "0:\(epoch)"] }
                _ = client.text([[UInt8]("HSET".utf8), Self.key(KeySpace.Kind.reads)] + fields.map { [UInt8]($0.utf8) })
            }
        }
        fill("reader", "\(epoch)")
        func moved(_ user: Name, _ offset: UInt64) -> String {
            let tag = node.markRead(offset, by: user, in: Self.channel)
            _ = fixture.run { node.moved[tag] != nil }
            return Self.code(node.moved[tag])
        }
        #expect(moved("one more", 1) == "fine")
        #expect(moved("too many", 1) == "storeFull")
        #expect(moved("reader-5", 1) == "fine")
        let marks = node.readMarks(Self.channel, of: "reader-5", limit: 200)
        #expect(fixture.run { node.marks[marks] != nil })
        let told = (try? node.marks[marks]?.get()) ?? []
        #expect(told.count == 200 && told.first == ReadMark(user: "reader-5", offset: 1) && Set(told.map(\.user)).count == 200)
        // The channel begins anew: nobody's mark counts.
        _ = client.text([[UInt8]("DEL".utf8), Self.key(KeySpace.Kind.meta)])
        let second = node.publish("x", id: "m2", to: Self.channel)
        #expect(fixture.run { node.published[second] != nil })
        let none = node.readMarks(Self.channel, of: "reader-5", limit: 200)
        #expect(fixture.run { node.marks[none] != nil })
        #expect(node.marks[none] == .success([]))
        for number in 0..<300 { #expect(moved(Name(trusted: [UInt8]("new-\(number)".utf8)), 1) == "fine") }
    }

    @Test("with memory full a channel that has a history is refused too, and stands where it stood")
    func outOfMemory() {
        let fixture = RedisFixture()
        let node = Node(fixture, "aaaaaaaaaaaa")
        #expect(node.goUp())
        let origin = node.tip(Self.channel) ?? .start
        let first = node.publish("1", id: "m1", to: Self.channel)
        #expect(fixture.run { Self.code(node.published[first]) == "fine" })
        let client = fixture.server.client()
        client.text("CONFIG", "SET", "maxmemory", "1")
        let full = node.publish("2", id: "m2", to: Self.channel)
        let page = node.readHistory(Self.channel, HistoryQuery(after: .position(origin), limit: 10))
        #expect(fixture.run { node.published[full] != nil && node.pages[page] != nil })
        #expect(Self.code(node.published[full]) == "storeFull" && Self.code(node.pages[page]) == "fine")
        client.text("CONFIG", "SET", "maxmemory", "0")
        let again = node.publish("2", id: "m2", to: Self.channel)
        #expect(fixture.run { Self.code(node.published[again]) == "fine" })
        #expect((try? node.published[again]?.get())?.position.offset == 2)
    }
}
