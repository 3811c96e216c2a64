import HubBase
import HubCore

/// Every name that this deployment uses in Redis: `prefix:{tag}:…` (redis-design §1; docs/redis.md lists them all).
///
/// Keys are written as a partition's prefix, a short kind and a name, so that none is ever put together in memory of its own.
package struct KeySpace: Sendable {
    /// `hub:{137}:` for each partition.
    let partitions: [[UInt8]]
    /// `hub:cfg`, `hub:nodes`, and the nodes' facts in the same slot as `hub:nodes`: its name is their hash tag.
    let configuration: [UInt8]
    let nodes: [UInt8]
    let nodeFacts: [UInt8]
    /// Behind sentinels only: the last failover that the data have been through.
    let failover: [UInt8]
    /// The hash slot of each lane.
    package let slots: [Int]

    /// nil when the prefix is empty, longer than 64 bytes, or holds anything but letters, digits, `-`, `_`, `.` and `:` (a brace would take
    /// the place of our own hash tags).
    package init?(prefix: String) {
        let bytes = [UInt8](prefix.utf8)
        guard (1...64).contains(bytes.count), bytes.allSatisfy(KeySpace.isAllowed) else { return nil }
        partitions = PartitionTags.all.map { bytes + [UInt8](":{".utf8) + $0 + [UInt8]("}:".utf8) }
        configuration = bytes + [UInt8](":cfg".utf8)
        nodes = bytes + [UInt8](":nodes".utf8)
        nodeFacts = bytes + [UInt8](":{".utf8) + nodes + [UInt8]("}:facts".utf8)
        failover = bytes + [UInt8](":failover".utf8)
        // A name without braces is hashed as a whole.
        slots = PartitionTags.all.map { Slot.of($0) } + [Slot.of(configuration), Slot.of(nodes)]
    }

    private static func isAllowed(_ byte: UInt8) -> Bool {
        switch byte {
        case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"), UInt8(ascii: "0")...UInt8(ascii: "9"): true
        case UInt8(ascii: "-"), UInt8(ascii: "_"), UInt8(ascii: "."), UInt8(ascii: ":"): true
        default: false
        }
    }

    /// What the deployment is fixed to; a node that needs something else refuses to work (redis-design §1).
    static let configurationValue: StaticString = #"{"v":1,"P":256}"#

    /// Kinds of keys, with what names them.
    package enum Kind {
        // Of a channel.
        package static let meta: StaticString = "m:"
        package static let stream: StaticString = "s:"
        package static let dedup: StaticString = "d:"
        package static let live: StaticString = "c:"
        package static let reads: StaticString = "r:"
        package static let memberLeases: StaticString = "ml:"
        package static let memberMeta: StaticString = "mm:"
        package static let memberUsers: StaticString = "mu:"
        /// Of a channel and a node: `<channel>:<incarnation>`.
        package static let memberNode: StaticString = "mn:"
        // Of a user.
        package static let user: StaticString = "u:"
        package static let budgets: StaticString = "rl:"
        package static let trail: StaticString = "ut:"
        // Of a partition.
        package static let generation: StaticString = "g"
        package static let leases: StaticString = "pl"
        package static let grace: StaticString = "pg"
        package static let presenceMeta: StaticString = "pm"
        package static let presenceStream: StaticString = "ps"
        package static let presenceFeed: StaticString = "pf"
        package static let occupied: StaticString = "mo"
        package static let memberSweeps: StaticString = "mw"
        package static let hookQueue: StaticString = "hq"
        package static let hookLease: StaticString = "hl"
        package static let hookCounts: StaticString = "hm"
        package static let userFeed: StaticString = "uf:"
        package static let probe: StaticString = "probe:"
        package static let control: StaticString = "ctl:"
    }

    /// A key in full, for tables and tests; commands are written without making it.
    package func key(_ partition: Int, _ kind: StaticString, _ name: [UInt8] = []) -> [UInt8] {
        var key = partitions[partition]
        kind.withUTF8Buffer { key.append(contentsOf: $0) }
        key.append(contentsOf: name)
        return key
    }

    /// The pub/sub channel that carries a hub channel.
    package func liveChannel(_ channel: Name) -> [UInt8] { key(Partition.of(channel), Kind.live, channel.bytes) }
    package func feedChannel(_ partition: Int) -> [UInt8] { key(partition, Kind.presenceFeed) }
    /// One user's transitions, for nodes that watch it by itself.
    package func userFeedChannel(_ user: Name) -> [UInt8] { key(Partition.of(user), Kind.userFeed, user.bytes) }
    package func controlChannel(_ node: Name) -> [UInt8] { key(Partition.of(node), Kind.control, node.bytes) }
    /// A node's messages to itself; in a cluster there's one for each master, in a partition that it has.
    package func probeChannel(_ node: Name, _ partition: Int) -> [UInt8] { key(partition, Kind.probe, node.bytes) }

    /// The lanes that have a slot: one, seldom two (the prefix decides where the keys beside the partitions are), mostly none.
    package func lanes(ofSlot slot: Int) -> LaneSet {
        var lanes = LaneSet()
        for lane in slots.indices where slots[lane] == slot { lanes.insert(lane) }
        return lanes
    }
}
