import HubBase
import HubWire

// A store that comes back with older data has connections again that have ended since.
extension PresenceMachine {
    /// Ends that are refused so often when they're written again are given up: their leases run out.
    private static let endsAgainMax = 5

    /// The store is back, perhaps without its last writes: whatever ended shortly before is written again, before anything else is written or
    /// read. Where nothing was lost that changes nothing, at the cost of an operation for each.
    ///
    /// `partition`: of that one alone, whose data are gone.
    mutating func endAgain(of partition: Int? = nil) {
        for end in ends.all(of: partition) {
            ends.beginRepeating(end.user)
            repeatEnd(end)
        }
    }

    private mutating func repeatEnd(_ end: PresenceEnd) {
        let partition = Int(end.partition)
        partitions[partition].endsAgain.append(end)
        activate(partition)
    }

    /// Those that were refused, once the pace allows.
    mutating func retryEnds(at now: Instant) {
        while let next = endsRefused.first, next.until <= now {
            _ = endsRefused.popFirst()
            repeatEnd(next.end)
        }
    }

    /// They have their own calls.
    mutating func sendEnds(_ partition: Int, at now: Instant) {
        // One that was refused goes alone: perhaps it keeps the others out.
        let queued = partitions[partition].endsAgain
        let count = queued[0].refusals > 0 ? 1 : min(queued.firstIndex { $0.refusals > 0 } ?? queued.count, PresenceLimits.operations)
        let sent = Array(queued[..<count])
        partitions[partition].endsAgain.removeFirst(count)
        partitions[partition].isInFlight = true
        let operations = sent.map { end in
            let floor = users.place(of: end.user).map { users[$0].floor } ?? 0
            return PresenceOperation(
                kind: .down(grace: timers.grace, ago: now.since(end.endedAt), told: end.told), user: end.user, connection: end.connection,
                node: node, device: end.device.isEmpty ? DeviceName.standard(of: end.connection) : end.device, age: now.since(end.cameAt),
                versionFloor: max(end.version, floor), isAsked: end.isClean, was: end.was,
                loss: end.isOver ? .over : .repeated)
        }
        let tag = open(.endAgain(partition: partition, ends: sent), at: now)
        actions.append(.apply(operations, partition: partition, tag: tag))
    }

    mutating func endedAgain(_ result: Result<[UInt64], WireError>, _ partition: Int, _ sent: [PresenceEnd], at now: Instant) {
        partitions[partition].isInFlight = false
        switch result {
        case .success(let versions):
            for (index, end) in sent.enumerated() {
                if index < versions.count, let place = users.place(of: end.user) {
                    users[place].floor = max(users[place].floor, versions[index])
                }
                ends.endRepeating(end.user)
            }
        case .failure:
            for var end in sent {
                end.refusals += 1
                // While the store is away they wait in any case: they are still remembered, and begin again when it's back.
                if isUp && end.refusals < PresenceMachine.endsAgainMax {
                    endsRefused.append((end: end, until: now + PresenceMachine.pace))
                } else {
                    ends.endRepeating(end.user)
                }
            }
        }
        activate(partition)
    }

    /// The store is away: what was to be written again will be, once it's back.
    mutating func forgetRepeats() {
        for partition in partitions.indices { partitions[partition].endsAgain = [] }
        endsRefused = Queue()
        ends.forgetRepeats()
    }
}
