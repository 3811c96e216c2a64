import HubCore

/// The hash tag of each partition (redis-design §1): the smallest integer whose decimal digits fall into the partition's share of the
/// slots, [p·16384/P, (p+1)·16384/P). So masters that share the slots evenly share the partitions evenly too, which bare numbers
/// 0..<256 wouldn't give.
package enum PartitionTags {
    /// Cost: 478 slots computed, once.
    package static let all: [[UInt8]] = search().tags

    /// `trials`: how many integers were looked at.
    static func search() -> (tags: [[UInt8]], trials: Int) {
        let share = Slot.count / Partition.count
        var tags = [[UInt8]](repeating: [], count: Partition.count)
        var missing = Partition.count
        var candidate = 0
        while missing > 0 {
            let digits = [UInt8](String(candidate).utf8)
            let partition = Slot.of(digits) / share
            if tags[partition].isEmpty {
                tags[partition] = digits
                missing -= 1
            }
            candidate += 1
        }
        return (tags, candidate)
    }

    package static var trials: Int { search().trials }
}
