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

    /// Records, leases and the sweeps' memory are gone, as after FLUSHALL or a restart of Redis without data. The feeds say nothing of it.
    package func loseAllData() {
        while let user = list.last { forget(user) }
        for partition in partitions.indices {
            partitions[partition] = PartitionState()
            partitions[partition].isOther = true
        }
    }

    /// What the store holds now, to come back to: a replica that is behind, a log that was written last.
    package struct Memory {
        fileprivate var users: [MemoryUser]
        fileprivate var partitions: [PartitionState]
    }

    package func remember() -> Memory { Memory(users: list.map { MemoryUser(copying: $0, place: 0) }, partitions: partitions) }

    /// The restart from that, without what was written since.
    package func comeBack(to memory: Memory) {
        while let user = list.last { forget(user) }
        for partition in partitions.indices {
            partitions[partition] = memory.partitions[partition]
            partitions[partition].deadlines = DeadlineHeap()
            partitions[partition].hasGap = true
        }
        for remembered in memory.users {
            let user = keep(MemoryUser(copying: remembered, place: list.count))
            schedule(user, partition: Partition.of(user.name))
        }
    }

    /// Redis's clock went back to `now`: what the next sweep then makes of deadlines that are too far away.
    package func clockWentBack(to now: Instant) {
        for partition in partitions.indices {
            partitions[partition].deadlines = DeadlineHeap()
            partitions[partition].warmUntil = min(partitions[partition].warmUntil, now + timers.hold)
            partitions[partition].holdUntil = now + timers.hold
            if partitions[partition].lastSweep != nil { partitions[partition].lastSweep = now }
        }
        for user in list {
            user.bringNear(now + timers.lease, awaited: now + timers.grace)
            schedule(user, partition: Partition.of(user.name))
        }
    }

    /// One record is gone, as after an eviction.
    package func forgetRecord(of name: Name) {
        if let user = known(name) { forget(user) }
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
