import HubBase
import HubContracts
import HubCore
import HubRedis
import HubWire
import Testing

/// What the members' scripts do when their keys are gone, foreign, or there's no room.
@Suite(.serialized) struct MemberFaultTests {
    static let channel: Name = "c:faults"

    static func key(_ kind: StaticString, of node: MemberNode? = nil) -> [UInt8] {
        let name = node.map { channel.bytes + [UInt8(ascii: ":")] + $0.incarnation.bytes } ?? channel.bytes
        return KeySpace(prefix: "hub")!.key(Partition.of(channel), kind, name)
    }

    private static func run(_ client: RawClient, _ words: String, _ key: [UInt8]) -> String {
        let text = client.text(words.split(separator: " ").map { $0 == "KEY" ? key : [UInt8]($0.utf8) })
        return text.hasPrefix(":") ? String(text.dropFirst()) : text
    }

    /// What a machine would do when it's told to: each node says again who it has.
    private static func sayAgain(_ one: MemberNode, _ two: MemberNode) {
        one.change(["alice": 1])
        two.change(["bob": 1, "both": 1])
        one.change(["both": 2])
    }

    @Test(
        "a key that's gone alone makes the channel begin anew, and once all have said again who is there it's as it was",
        arguments: ["meta", "users", "node", "leases", "all"])
    func lost(_ which: String) {
        let fixture = RedisFixture()
        let (one, two) = MemberNode.pair(fixture, Self.channel)
        Self.sayAgain(one, two)
        let before = one.list()
        #expect(before?.occupancy == 3)
        let client = fixture.server.client()
        let keys = [
            "meta": Self.key(KeySpace.Kind.memberMeta), "users": Self.key(KeySpace.Kind.memberUsers),
            "node": Self.key(KeySpace.Kind.memberNode, of: one), "leases": Self.key(KeySpace.Kind.memberLeases),
        ]
        for (name, key) in keys where which == name || which == "all" { #expect(Self.run(client, "DEL KEY", key) == "1") }
        // A heartbeat finds out, or whoever says something next.
        let finds = one.refresh()
        #expect(finds?.isKnown == false)
        Self.sayAgain(one, two)
        Self.sayAgain(one, two)
        let after = one.list()
        #expect(Set(after?.members ?? []) == Set(before?.members ?? []), "\(String(describing: after))")
        #expect((after?.sequence ?? 0) >= (before?.sequence ?? 0))
        #expect(one.refresh()?.isKnown == true && two.refresh()?.isKnown == true)
        if which != "leases" {
            #expect(after?.begun != before?.begun)
            #expect(fixture.run { two.rejoins.count == 2 }, "the first beginning and this one: \(two.rejoins)")
        }
        // Leaving takes everything away, as if nothing had happened.
        one.change(["alice": 0, "both": 0])
        two.change(["bob": 0, "both": 0])
        #expect(one.list()?.members == [])
        #expect(one.toldBackends() == ["occupied", "vacated"], "beginning anew is nobody's coming or going")
    }

    @Test("a dead node whose own key is gone makes the channel begin anew rather than leave ghosts")
    func deadWithoutKey() {
        let fixture = RedisFixture()
        let (one, two) = MemberNode.pair(fixture, Self.channel)
        Self.sayAgain(one, two)
        #expect(one.findDead() == [two.incarnation])
        #expect(Self.run(fixture.server.client(), "DEL KEY", Self.key(KeySpace.Kind.memberNode, of: two)) == "1")
        #expect(one.reap(two.incarnation) == 0)
        #expect(one.refresh()?.isKnown == false)
        one.change(["alice": 1, "both": 2])
        #expect(Set(one.list()?.members ?? []) == [MemberEntry(user: "alice", devices: 1), MemberEntry(user: "both", devices: 2)])
    }

    @Test(
        "a key of members that holds something else gets a named error, and is left as it was",
        arguments: ["SET KEY mine", "RPUSH KEY mine", "HSET KEY name value"])
    func foreign(_ command: String) {
        for kind in [KeySpace.Kind.memberLeases, KeySpace.Kind.memberMeta, KeySpace.Kind.memberUsers, KeySpace.Kind.memberNode] {
            // A hash whose values aren't numbers can only be told where the same user is in it.
            let isHash = command.hasPrefix("HSET")
            let isNode =
                UnsafeRawBufferPointer(start: kind.utf8Start, count: kind.utf8CodeUnitCount).first == UInt8(ascii: "m")
                && "\(kind)" == "mn:"
            if isHash && "\(kind)" != "mm:" && "\(kind)" != "ml:" { continue }
            let fixture = RedisFixture()
            let (one, _) = MemberNode.pair(fixture, Self.channel)
            let client = fixture.server.client()
            let key = Self.key(kind, of: isNode ? one : nil)
            _ = Self.run(client, command, key)
            func dump() -> String { Self.run(client, "DUMP KEY", key) + Self.run(client, "PTTL KEY", key) }
            let before = dump()
            #expect(one.change(["alice": 1]) == nil)
            #expect(one.lastError == .foreignKey(channel: Self.channel), "\(kind) \(command): \(String(describing: one.lastError))")
            #expect(one.refresh() == nil && (isNode || (one.reap("bbbbbbbbbbbb") == nil && one.list() == nil)))
            #expect(dump() == before)
        }
    }

    @Test("users' counts that aren't numbers are foreign too, and nothing is written")
    func notNumbers() {
        let fixture = RedisFixture()
        let (one, two) = MemberNode.pair(fixture, Self.channel)
        one.change(["alice": 1])
        let users = Self.key(KeySpace.Kind.memberUsers)
        let client = fixture.server.client()
        _ = Self.run(client, "HSET KEY bob many", users)
        let before = Self.run(client, "DUMP KEY", users)
        #expect(two.change(["bob": 1]) == nil && two.lastError == .foreignKey(channel: Self.channel))
        #expect(Self.run(client, "DUMP KEY", users) == before)
        #expect(one.list() == nil)
    }

    @Test("with memory full whoever comes is refused, leases and leaving go on, and nobody is taken out")
    func full() {
        let fixture = RedisFixture()
        let (one, two) = MemberNode.pair(fixture, Self.channel)
        Self.sayAgain(one, two)
        let client = fixture.server.client()
        client.text("CONFIG", "SET", "maxmemory", "1")
        #expect(one.change(["carol": 1]) == nil && one.lastError?.code == .storeFull)
        #expect(one.change(["alice": 0])?.occupancy == 2)
        client.text("CONFIG", "SET", "maxmemory", "0")
        #expect(one.findDead() == [two.incarnation])
        client.text("CONFIG", "SET", "maxmemory", "1")
        #expect(one.reap(two.incarnation) == nil && one.lastError?.code == .storeFull)
        // No sweep is noted, and after the longest gap nobody is even found.
        for _ in 0..<12 { #expect(one.sweep() == nil && one.lastError?.code == .storeFull) }
        #expect(one.refresh()?.dead == [])
        #expect(one.list()?.occupancy == 2)
        client.text("CONFIG", "SET", "maxmemory", "0")
        #expect(one.findDead() == [two.incarnation])
        #expect(one.reap(two.incarnation) == 1)
        #expect(one.list()?.members == [MemberEntry(user: "both", devices: 2)])
    }

    @Test("a dead node's thousands are taken out step by step")
    func thousands() {
        let fixture = RedisFixture()
        let (one, two) = MemberNode.pair(fixture, Self.channel)
        for call in 0..<80 {
            two.change(Dictionary(uniqueKeysWithValues: (0..<50).map { (Name(validating: "u\(call)-\($0)")!, 1) }))
        }
        one.change(["alice": 1])
        #expect(one.findDead() == [two.incarnation])
        #expect(one.reap(two.incarnation) == 4_000)
        #expect(one.list()?.members == [MemberEntry(user: "alice", devices: 1)])
        #expect(one.refresh()?.dead == [])
    }

    @Test("every key of members has a time to live")
    func timeToLive() {
        let fixture = RedisFixture()
        let (one, two) = MemberNode.pair(fixture, Self.channel)
        Self.sayAgain(one, two)
        let client = fixture.server.client()
        for (kind, node) in [
            (KeySpace.Kind.memberLeases, nil), (KeySpace.Kind.memberMeta, nil), (KeySpace.Kind.memberUsers, nil),
            (KeySpace.Kind.memberNode, one),
            (KeySpace.Kind.memberNode, two),
        ] as [(StaticString, MemberNode?)] {
            let left = Int(Self.run(client, "PTTL KEY", Self.key(kind, of: node))) ?? 0
            #expect((250_000...300_000).contains(left), "\(kind): \(left)")
        }
    }

    @Test("a lease of a clock that went back is cut to one from now, and sequences still grow")
    func clockBack() {
        let fixture = RedisFixture()
        let (one, two) = MemberNode.pair(fixture, Self.channel)
        Self.sayAgain(one, two)
        let client = fixture.server.client()
        let leases = Self.key(KeySpace.Kind.memberLeases)
        // As if an hour had been taken away since two was heard of.
        #expect(client.text([[UInt8]("ZADD".utf8), leases, [UInt8]("9999999999999".utf8), two.incarnation.bytes]) == ":0")
        #expect(one.refresh()?.dead == [])
        #expect(one.findDead() == [two.incarnation])
    }

    // MARK: Older data

    @Test("a node that wakes while others take it out says all again, also when a join of its own comes first")
    func wakesWhileReaped() {
        let fixture = RedisFixture()
        let (one, two) = MemberNode.pair(fixture, Self.channel)
        Self.sayAgain(one, two)
        let client = fixture.server.client()
        // Two steps of a reap: bob is taken out already.
        #expect(Self.run(client, "ZADD KEY 0 bbbbbbbbbbbb", Self.key(KeySpace.Kind.memberLeases)) == "0")
        #expect(Self.run(client, "HDEL KEY bob", Self.key(KeySpace.Kind.memberNode, of: two)) == "1")
        #expect(Self.run(client, "HDEL KEY bob", Self.key(KeySpace.Kind.memberUsers)) == "1")
        #expect(two.change(["both": 0])?.isNew == true && two.refresh()?.isKnown == false)
        #expect(two.change(["late": 1])?.isNew == true)
        #expect(two.change(["bob": 1])?.isNew == false)
        #expect(two.refresh()?.isKnown == true && one.reap(two.incarnation) == 0)
        #expect(Set(one.list()?.members.map(\.user) ?? []) == ["alice", "both", "bob", "late"])
    }

    @Test("keys that went back make the channel begin anew, also when others have moved it past what was known", arguments: [0, 9])
    func olderData(_ moves: Int) {
        let fixture = RedisFixture()
        let (one, two) = MemberNode.pair(fixture, Self.channel)
        Self.sayAgain(one, two)
        let client = fixture.server.client()
        let keys = [
            Self.key(KeySpace.Kind.memberMeta), Self.key(KeySpace.Kind.memberUsers), Self.key(KeySpace.Kind.memberLeases),
            Self.key(KeySpace.Kind.memberNode, of: one), Self.key(KeySpace.Kind.memberNode, of: two),
        ]
        func copy(_ from: (Int) -> [UInt8], _ to: (Int) -> [UInt8]) {
            for place in keys.indices {
                _ = client.text([[UInt8]("COPY".utf8), from(place), to(place), [UInt8]("REPLACE".utf8)])
            }
        }
        copy({ keys[$0] }, { [UInt8]("kept\($0)".utf8) })
        two.change(["bob": 0])
        let last = two.change(["carol": 1])!
        copy({ [UInt8]("kept\($0)".utf8) }, { keys[$0] })
        let third = MemberNode(fixture, "cccccccccccc", Self.channel)
        // Who never heard of what was lost.
        for number in 0..<moves { third.change(["x": UInt32(number % 2 + 1)]) }
        let lease = two.refresh()
        #expect(lease?.isKnown == false && lease.map { $0.begun > last.sequence } == true)
        two.change(["both": 1, "carol": 1])
        one.change(["alice": 1, "both": 2])
        if moves > 0 { third.change(["x": 1]) }
        let users = Set(one.list()?.members.map(\.user) ?? [])
        #expect(users.subtracting(["x"]) == ["alice", "both", "carol"], "\(users)")
        #expect(one.refresh()?.isKnown == true && two.refresh()?.isKnown == true)
        #expect(one.toldBackends() == ["occupied"])
    }

    @Test("where memory is full too, a lease finds that the store went back")
    func olderAndFull() {
        let fixture = RedisFixture()
        let (one, two) = MemberNode.pair(fixture, Self.channel)
        Self.sayAgain(one, two)
        let client = fixture.server.client()
        client.text("CONFIG", "SET", "maxmemory", "1")
        let lease = one.refresh(known: MembersKnown(sequence: one.known.sequence + 100, call: one.known.call))
        #expect(lease?.isKnown == false && lease?.occupancy == 0)
        client.text("CONFIG", "SET", "maxmemory", "0")
        Self.sayAgain(one, two)
        #expect(one.list()?.occupancy == 3)
    }

    // MARK: Sweeps

    static func partitionKey(_ kind: StaticString) -> [UInt8] { KeySpace(prefix: "hub")!.key(Partition.of(channel), kind) }

    @Test("occupied channels are listed as long as they are, without an end of their own; the sweeps' key has one")
    func occupiedChannels() {
        let fixture = RedisFixture()
        let (one, two) = MemberNode.pair(fixture, Self.channel)
        Self.sayAgain(one, two)
        _ = two.sweep()
        let client = fixture.server.client()
        #expect(Self.run(client, "ZCARD KEY", Self.partitionKey(KeySpace.Kind.occupied)) == "1")
        #expect(Self.run(client, "PTTL KEY", Self.partitionKey(KeySpace.Kind.occupied)) == "-1")
        let left = Int(Self.run(client, "PTTL KEY", Self.partitionKey(KeySpace.Kind.memberSweeps))) ?? 0
        #expect((250_000...300_000).contains(left), "\(left)")
        one.change(["alice": 0, "both": 0])
        two.change(["bob": 0, "both": 0])
        #expect(Self.run(client, "EXISTS KEY", Self.partitionKey(KeySpace.Kind.occupied)) == "0")
    }

    @Test("occupied channels that were lost are listed again by a heartbeat, and nobody is told anew")
    func occupiedLost() {
        let fixture = RedisFixture()
        let (one, two) = MemberNode.pair(fixture, Self.channel)
        Self.sayAgain(one, two)
        let client = fixture.server.client()
        #expect(Self.run(client, "DEL KEY", Self.partitionKey(KeySpace.Kind.occupied)) == "1")
        #expect(one.refresh()?.isKnown == true)
        #expect(Self.run(client, "ZCARD KEY", Self.partitionKey(KeySpace.Kind.occupied)) == "1")
        #expect(one.toldBackends() == ["occupied"])
        #expect(two.sweeping { two.list()?.occupancy == 0 })
        #expect(one.toldBackends() == ["occupied", "vacated"])
    }

    @Test("members whose nodes' leases are lost are taken out when nobody says that they're there")
    func leasesLost() {
        let fixture = RedisFixture()
        let (one, two) = MemberNode.pair(fixture, Self.channel)
        Self.sayAgain(one, two)
        #expect(Self.run(fixture.server.client(), "DEL KEY", Self.key(KeySpace.Kind.memberLeases)) == "1")
        #expect(two.sweeping { two.list()?.occupancy == 0 })
        #expect(fixture.run { two.rejoins.count == 2 }, "whoever lives after all is asked to say so: \(two.rejoins)")
        #expect(two.toldBackends() == ["occupied", "vacated"])
    }

    @Test(
        "what a sweep needs and is somebody else's gets a named error, and is left as it was",
        arguments: ["SET KEY mine", "RPUSH KEY mine", "HSET KEY name value"])
    func foreignSweep(_ command: String) {
        for kind in [KeySpace.Kind.occupied, KeySpace.Kind.memberSweeps] {
            let fixture = RedisFixture()
            let (one, _) = MemberNode.pair(fixture, Self.channel)
            let client = fixture.server.client()
            let key = Self.partitionKey(kind)
            _ = Self.run(client, command, key)
            let before = Self.run(client, "DUMP KEY", key)
            #expect(one.sweep() == nil && one.lastError?.code == .internal, "\(kind) \(command): \(String(describing: one.lastError))")
            if "\(kind)" == "mo" {
                #expect(one.change(["alice": 1]) == nil && one.lastError == .foreignKey(channel: Self.channel))
            } else {
                #expect(one.change(["alice": 1])?.occupancy == 1, "only the sweeps need it")
                #expect(one.refresh()?.isKnown == true, "and who may take somebody for dead")
            }
            #expect(Self.run(client, "DUMP KEY", key) == before)
        }
    }

    @Test("a channel whose own keys are somebody else's holds up no other, and deadlines of a clock that went back are cut")
    func heldUp() {
        let fixture = RedisFixture()
        let (one, two) = MemberNode.pair(fixture, Self.channel)
        Self.sayAgain(one, two)
        let client = fixture.server.client()
        let occupied = Self.partitionKey(KeySpace.Kind.occupied)
        // Before it in line, and it can't be ended; one of another partition; names that no channel can have.
        let names = (0...).lazy.map { Name(validating: "c:foreign\($0)")! }
        let foreign = names.first { Partition.of($0) == Partition.of(Self.channel) }!
        for (score, member) in [("1", foreign.bytes), ("2", [UInt8]("c:elsewhere".utf8)), ("3", [1, 10]), ("4", [])] as [(String, [UInt8])]
        {
            _ = client.text([[UInt8]("ZADD".utf8), occupied, [UInt8](score.utf8), member])
        }
        let users = KeySpace(prefix: "hub")!.key(Partition.of(foreign), KeySpace.Kind.memberUsers, foreign.bytes)
        _ = Self.run(client, "SET KEY mine", users)
        _ = client.text([[UInt8]("ZADD".utf8), occupied, [UInt8]("9999999999999".utf8), Self.channel.bytes])
        #expect(two.sweeping { two.list()?.occupancy == 0 })
        #expect(two.toldBackends() == ["occupied", "vacated"])
        #expect(Self.run(client, "GET KEY", users).contains("mine"))
    }
}
