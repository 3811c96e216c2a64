import HubBase
import HubWire

// What can go wrong, for tests and simulations (redis-design §6). Nothing here is called otherwise.
extension MemoryPresenceStore {
    /// The next `count` messages of the feeds are lost; the next one that arrives, or the check of the feed's tail, tells of a gap.
    package func dropFeed(_ count: Int) { faults.feedDrops += count }

    /// The next `count` calls are refused, without effect.
    package func failNext(_ count: Int, with error: WireError) {
        faults.failures += count
        faults.failure = error
    }

    /// Records, leases and the sweeps' memory are gone, as after a restart of Redis without data.
    package func loseAllData() {
        while let user = list.last { forget(user) }
        for partition in partitions.indices {
            partitions[partition] = PartitionState()
            partitions[partition].hasGap = true
        }
    }

    /// One record is gone, as after an eviction.
    package func forgetRecord(of name: Name) {
        if let user = users[name] { forget(user) }
    }

    /// Down: every call is refused and what happened meanwhile shows as a gap.
    package func setHealth(_ health: BackendHealth) {
        faults.isDown = health != .up
        if health == .up {
            for partition in partitions.indices { partitions[partition].hasGap = true }
        }
        outputs.append(.health(health))
    }
}
