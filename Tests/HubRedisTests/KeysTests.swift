import HubBase
import HubCore
import HubRedis
import Testing

@Suite struct KeysTests {
    @Test(
        "slots are CRC16/XMODEM mod 16384, as Redis Cluster has them",
        arguments: [("123456789", 0x31C3), ("foo", 12_182), ("bar", 5_061), ("", 0)])
    func slots(text: String, slot: Int) {
        #expect(Slot.of([UInt8](text.utf8)) == slot)
    }

    @Test("each partition's tag lies in its share of the slots; finding all takes 478 trials, redis-design §1")
    func tags() {
        #expect(PartitionTags.all.count == 256)
        for (partition, tag) in PartitionTags.all.enumerated() {
            #expect((partition * 64..<(partition + 1) * 64).contains(Slot.of(tag)))
        }
        #expect(Set(PartitionTags.all).count == 256)
        #expect(PartitionTags.trials == 478)
    }

    @Test("on 32 masters with equal shares of the slots every master has exactly 8 partitions, redis-design §1")
    func balance() {
        var partitions = [Int](repeating: 0, count: 32)
        for tag in PartitionTags.all { partitions[Slot.of(tag) / 512] += 1 }
        #expect(partitions == [Int](repeating: 8, count: 32))
    }

    @Test("keys are prefix, tag of the partition, kind, name", arguments: ["room:1", "caf\u{E9}", "{a}|b"])
    func keys(name: String) throws {
        let keys = try #require(KeySpace(prefix: "hub"))
        let channel = Name(trusted: [UInt8](name.utf8))
        let tag = String(decoding: PartitionTags.all[Partition.of(channel)], as: UTF8.self)
        #expect(String(decoding: keys.liveChannel(channel), as: UTF8.self) == "hub:{\(tag)}:c:\(name)")
        #expect(keys.feedChannel(3) == [UInt8]("hub:{\(String(decoding: PartitionTags.all[3], as: UTF8.self))}:pf".utf8))
        #expect(keys.key(0, KeySpace.Kind.user, channel.bytes).starts(with: "hub:{".utf8))
    }

    @Test("a prefix that could take the place of our hash tags is refused", arguments: ["", "a{b", "a}", "hub ", "h\u{FC}b"])
    func prefixes(prefix: String) {
        #expect(KeySpace(prefix: prefix) == nil)
    }
}
