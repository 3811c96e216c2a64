import HubCore
import HubRedis
import Testing

/// A reply as Redis writes it, read.
private func withReply<Result>(_ text: String, _ body: (borrowing Reply) -> Result) -> Result {
    let reader = ReplyReader()
    [UInt8](text.utf8).withUnsafeBytes { reader.feed($0) }
    #expect(reader.next() == .reply)
    return body(reader.reply)
}

private func array(_ elements: String...) -> String { "*\(elements.count)\r\n" + elements.joined() }
private func bulk(_ text: String) -> String { "$\(text.utf8.count)\r\n\(text)\r\n" }
private func number(_ value: Int) -> String { ":\(value)\r\n" }

@Suite struct TopologyTests {
    static let keys = KeySpace(prefix: "hub")!
    static let asked = RedisURL.Place.host("10.0.0.9", port: 7009)

    static func redirect(_ text: String) -> Redirect? { [UInt8](text.utf8).withUnsafeBytes { Redirect($0, asked: asked) } }

    @Test(
        "a redirection names slot and place, also by IPv6 and as the asked one's other port",
        arguments: [
            ("MOVED 3999 127.0.0.1:6381", Redirect.moved(slot: 3999, .host("127.0.0.1", port: 6381))),
            ("MOVED 0 redis-1.example:6379", .moved(slot: 0, .host("redis-1.example", port: 6379))),
            ("MOVED 16383 2001:db8::1:6381", .moved(slot: 16383, .host("2001:db8::1", port: 6381))),
            ("MOVED 5 :6381", .moved(slot: 5, .host("10.0.0.9", port: 6381))),
            ("MOVED 5 ?:6381", .moved(slot: 5, .host("10.0.0.9", port: 6381))),
            ("MOVED 5 h", .moved(slot: 5, nil)), ("MOVED 5 h:0", .moved(slot: 5, nil)), ("MOVED 5 h:65536", .moved(slot: 5, nil)),
            ("MOVED 5 a b:1", .moved(slot: 5, nil)), ("ASK 3999 127.0.0.1:6381", .later),
            ("TRYAGAIN Multiple keys request during rehashing of slot", .later), ("CLUSTERDOWN Hash slot not served", .down),
        ])
    func redirects(text: String, redirect: Redirect) { #expect(Self.redirect(text) == redirect) }

    @Test(
        "what isn't a redirection is none",
        arguments: ["", "MOVED", "MOVED x h:1", "MOVED 16384 h:1", "MOVED -1 h:1", "MOVED 99999999999 h:1", "ERR MOVED 1 h:1"])
    func noRedirect(text: String) { #expect(Self.redirect(text) == nil) }

    static func node(_ host: String, _ port: Int) -> String { array(bulk(host), number(port), bulk("id"), array()) }

    @Test("CLUSTER SLOTS says who has each lane, and whom else to ask")
    func slots() throws {
        let text = array(
            array(number(0), number(8191), Self.node("10.0.0.1", 7000), Self.node("10.0.0.4", 7003)),
            array(number(8192), number(16383), Self.node("", 7001)))
        let slots = try #require(withReply(text) { ClusterSlots($0, slots: Self.keys.slots, asked: Self.asked) })
        #expect(slots.nodes == [.host("10.0.0.1", port: 7000), .host("10.0.0.9", port: 7001), .host("10.0.0.4", port: 7003)])
        // Half of the slots, half of the partitions.
        #expect((0..<128).allSatisfy { slots.owners[$0] == .host("10.0.0.1", port: 7000) })
        #expect((128..<256).allSatisfy { slots.owners[$0] == .host("10.0.0.9", port: 7001) })
        #expect(slots.owners.count == Lane.count && slots.owners.allSatisfy { $0 != nil })
    }

    @Test("slots that nobody has are nobody's")
    func slotsWithHoles() throws {
        let text = array(array(number(0), number(100), Self.node("h", 1)))
        let slots = try #require(withReply(text) { ClusterSlots($0, slots: Self.keys.slots, asked: Self.asked) })
        #expect(slots.owners[0] == .host("h", port: 1) && slots.owners[255] == nil)
        #expect(withReply(array()) { ClusterSlots($0, slots: Self.keys.slots, asked: Self.asked) }?.owners.allSatisfy { $0 == nil } == true)
    }

    @Test(
        "what isn't an answer to CLUSTER SLOTS is refused",
        arguments: [
            ":1\r\n", array(number(1)), array(array(number(0), number(1))), array(array(number(0), number(16384), node("h", 1))),
            array(array(number(-1), number(5), node("h", 1))), array(array(bulk("0"), number(5), node("h", 1))),
            array(array(number(0), number(5), array(bulk("h")))), array(array(number(0), number(5), array(bulk("h"), bulk("1")))),
            array(array(number(0), number(5), node("h", 1), number(7))),
        ])
    func noSlots(text: String) { #expect(withReply(text) { ClusterSlots($0, slots: Self.keys.slots, asked: Self.asked) } == nil) }

    static func facts(_ text: String) -> ClusterFacts? { [UInt8](text.utf8).withUnsafeBytes { ClusterFacts($0) } }

    @Test("CLUSTER INFO says whether the cluster is whole, and how new the word is")
    func facts() {
        let good = Self.facts("cluster_enabled:1\r\ncluster_state:ok\r\ncluster_current_epoch:12\r\n")
        #expect(good?.isWhole == true && good?.epoch == 12)
        let bad = Self.facts("cluster_state:fail\r\ncluster_current_epoch:99999999999999999999\r\n")
        #expect(bad?.isWhole == false && bad?.epoch == 0)
        #expect(Self.facts("cluster_state:okay")?.isWhole == false)
        #expect(Self.facts("redis_version:7") == nil && Self.facts("") == nil)
    }

    static func word(_ fields: [(String, String)]) -> SentinelView.Word? {
        let text = "*\(fields.count * 2)\r\n" + fields.map { bulk($0.0) + bulk($0.1) }.joined()
        return withReply(text) { SentinelView.Word($0, asked: asked) }
    }

    @Test("SENTINEL MASTER names the master, with the epoch of the last failover")
    func sentinelWord() {
        let fields = [("name", "main"), ("ip", "10.0.0.1"), ("port", "6379"), ("flags", "master"), ("config-epoch", "3")]
        #expect(Self.word(fields) == .init(place: .host("10.0.0.1", port: 6379), epoch: 3))
        #expect(Self.word(Array(fields.dropLast())) == .init(place: .host("10.0.0.1", port: 6379), epoch: 0))
        for wrong in [
            [("ip", "h")], [("port", "1")], [("ip", ""), ("port", "1")], [("ip", "h"), ("port", "x")], [("ip", "h"), ("port", "70000")],
        ] {
            #expect(Self.word(wrong) == nil)
        }
        #expect(withReply(array(bulk("ip"))) { SentinelView.Word($0, asked: Self.asked) } == nil)
        #expect(withReply(array(bulk("ip"), number(1))) { SentinelView.Word($0, asked: Self.asked) } == nil)
    }

    @Test("the sentinel with the newest epoch is believed, whoever says something else")
    func sentinelView() {
        let (old, new) = (RedisURL.Place.host("old", port: 1), RedisURL.Place.host("new", port: 2))
        var view = SentinelView(count: 3)
        #expect(view.best == nil)
        view.told(0, .init(place: old, epoch: 0))
        #expect(view.best?.place == old)
        view.told(2, .init(place: new, epoch: 1))
        #expect(view.best?.place == new)
        view.told(1, .init(place: old, epoch: 0))
        #expect(view.best?.place == new)
        view.told(2, nil)
        #expect(view.best?.place == old)
        view.told(0, .init(place: new, epoch: 1))
        #expect(view.best?.place == new)
    }

    @Test("each lane has a slot; those of the partitions are apart, and a slot's lanes are found")
    func lanes() {
        #expect(Self.keys.slots.count == Lane.count)
        #expect(Set(Self.keys.slots.prefix(256)).count == 256)
        for lane in 0..<Lane.count { #expect(Self.keys.lanes(ofSlot: Self.keys.slots[lane]).contains(lane)) }
        let used = Set(Self.keys.slots)
        #expect(Self.keys.lanes(ofSlot: (0..<Slot.count).first { !used.contains($0) } ?? 0).isEmpty)
        // As CLUSTER KEYSLOT says.
        #expect(Self.keys.slots[Lane.configuration] == Slot.of([UInt8]("hub:cfg".utf8)))
    }

    @Test("a set of lanes does what a set of numbers does")
    func laneSets() {
        var lanes = LaneSet(), twin = Set<Int>()
        var chance = UInt64(7)
        for _ in 0..<5_000 {
            chance = chance &* 6_364_136_223_846_793_005 &+ 1
            let lane = Int(chance >> 33) % Lane.count
            if chance >> 63 == 0 {
                lanes.insert(lane)
                twin.insert(lane)
            } else {
                lanes.remove(lane)
                twin.remove(lane)
            }
        }
        #expect(Array(lanes) == twin.sorted() && lanes.first == twin.min() && lanes.isEmpty == twin.isEmpty)
        #expect(Array(LaneSet.all) == Array(0..<Lane.count))
        #expect(Set(LaneSet.all.subtracting(lanes)) == Set(0..<Lane.count).subtracting(twin))
        #expect(LaneSet.all.intersection(lanes) == lanes)
    }
}
