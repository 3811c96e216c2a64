import HubBase
import HubCore
import HubWire

extension Backplane: PresenceStoreDelegate {
    /// Does what the presence machine asks, until it asks for nothing more.
    func carryOutPresence() {
        for action in machine.takeActions(at: now) {
            switch action {
            case .apply(let operations, let partition, let tag): store.apply(operations, partition: partition, tag: tag, at: now)
            case .refresh(let renewal, let partition, let tag): store.refresh(renewal, partition: partition, tag: tag, at: now)
            case .sweep(let partition, let tag): store.sweep(partition: partition, tag: tag, at: now)
            case .read(let users, let tag): store.read(users, tag: tag, at: now)
            case .follow(let users): store.follow(users)
            case .unfollow(let users): store.unfollow(users, at: now)
            case .announce(let connections, let tag): announce(connections, tag: tag)
            case .probe(let connection):
                guard let serial = node.serial(of: connection) else { continue }
                post(.probe(id: serial.id.packed, connection: connection), to: UInt64(serial.loop))
            case .watchAnswer(let tag, let changes, let isStale):
                post(.watched(changes, isStale: isStale, tag: tag.low), to: tag.high)
            case .changed(let changes):
                numbers.presenceChanges += UInt64(changes.count)
                postToAll(.presence(changes))
            case .presenceAck(let tag, let result): post(.statusSet(result, tag: tag.low), to: tag.high)
            }
        }
    }

    func announce(_ connections: UInt64, tag: RequestTag) {
        store.announce(NodeFacts(connections: connections, notAsked: asker?.broken ?? []), tag: tag, at: now)
    }

    func applied(_ result: Result<[UInt64], WireError>, tag: RequestTag) { machine.applied(result, tag: tag, at: now) }
    func refreshed(_ result: Result<[Int], WireError>, tag: RequestTag) { machine.refreshed(result, tag: tag, at: now) }

    func swept(_ result: Result<Int, WireError>, partition: Int, tag: RequestTag) {
        if case .success(let count) = result { numbers.swept += UInt64(count) }
        machine.swept(result, partition: partition, tag: tag, at: now)
    }

    func read(_ result: Result<PresenceSnapshot, WireError>, tag: RequestTag) {
        if machine.owns(tag) {
            machine.read(result, tag: tag, at: now)
        } else {
            let (result, isStale) = judged(result) { machine.judge(&$0, at: now) }
            post(.presenceRead(result, isStale: isStale, tag: tag.low), to: tag.high)
        }
    }

    func inspected(_ result: Result<PresenceRecord, WireError>, tag: RequestTag) {
        if tag.high == Backplane.explainTags { return recordRead(result, key: tag.low) }
        let (result, isStale) = judged(result) { machine.judge(&$0, at: now) }
        post(.inspected(result, isStale: isStale, tag: tag.low), to: tag.high)
    }

    /// What the store answered, as watchers would be told it, and whether it's stale.
    private func judged<Value>(
        _ result: Result<Value, WireError>, by judge: (inout Value) -> Bool
    ) -> (result: Result<Value, WireError>, isStale: Bool) {
        guard case .success(var value) = result else { return (result, machine.isStale) }
        let isStale = judge(&value)
        return (.success(value), isStale)
    }

    func nodes(_ result: Result<[NodeEntry], WireError>, tag: RequestTag) {
        if machine.owns(tag) {
            machine.nodes(result, tag: tag, at: now)
            members.nodesLive = max(machine.nodes.count, 1)
        } else {
            post(.nodes(result, tag: tag.low), to: tag.high)
        }
    }

    func changed(_ changes: [PresenceChange], partition: Int, gap: Bool) {
        machine.changed(changes, partition: partition, gap: gap, at: now)
        hooks.noticed(partition, at: now)
    }

    func lost(partition: Int) { machine.lost(partition, at: now) }

    func followed(_ users: [Name]) { machine.followed(users) }

    func storeHealth(_ health: BackendHealth) { machine.storeHealth(health, at: now) }
}

extension Backplane: HookQueueDelegate {
    func claimed(_ result: Result<HookPage, WireError>, partition: Int, tag: RequestTag) { hooks.claimed(result, tag: tag, at: now) }
}
