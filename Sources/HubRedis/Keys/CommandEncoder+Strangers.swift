import HubBase
import HubCore
import HubWire

extension CommandEncoder {
    /// The keys of a call with what each should hold, in the order of its KEYS (of a read of many users: of its replies).
    func keys(of call: Call) -> [KeyOfOurs] {
        switch call {
        case .publish(let publish):
            var dedup = ByteBuffer(capacity: 64)
            dedup.append(keys.partitions[Partition.of(publish.channel)])
            dedup.append(KeySpace.Kind.dedup)
            fingerprint.appendDedupName(
                channel: publish.channel, user: publish.publication.user, id: publish.publication.messageId, to: &dedup)
            return [
                meta(publish.channel), stream(publish.channel), KeyOfOurs(kind: .string, key: dedup.copyBytes(), word: "the dedup key"),
                generation(publish.channel),
            ]
        case .history(let history): return [meta(history.channel), stream(history.channel), generation(history.channel)]
        case .tip(_, _, let channel): return [meta(channel), stream(channel), generation(channel)]
        case .renew(let entry): return [meta(entry.channel), stream(entry.channel), generation(entry.channel)]
        case .markRead(let read): return [meta(read.channel), reads(read.channel)]
        case .marks(let marks): return [meta(marks.channel), reads(marks.channel)]
        case .position(_, _, .channel(let channel)): return [meta(channel)]
        case .position(_, _, .feed(let partition)): return [presenceMeta(partition)]
        case .apply(let apply): return partition(apply.partition) + apply.operations.map { record($0.user) }
        case .refresh(let refresh):
            return partition(refresh.partition) + (refresh.renewal.coversRecords ? refresh.renewal.leases.map { record($0.user) } : [])
        case .find(let sweep), .expire(let sweep): return partition(sweep.partition)
        case .states(let states):
            return states.partitions.flatMap { [presenceMeta($0)] + partition($0) } + states.users.map { record($0) }
        case .inspect(let user, _, _), .examine(_, let user): return [record(user)] + partition(Partition.of(user))
        case .members(let call):
            return [
                of(call.channel, .sortedSet, KeySpace.Kind.memberLeases, "the nodes of the members"),
                of(call.channel, .hash, KeySpace.Kind.memberMeta, "the meta key of the members"),
                of(call.channel, .hash, KeySpace.Kind.memberUsers, "the members"), occupied(Partition.of(call.channel)),
            ]
        case .memberFind(let sweep):
            return [
                occupied(sweep.partition),
                KeyOfOurs(kind: .hash, key: keys.key(sweep.partition, KeySpace.Kind.memberSweeps), word: "the key of the members' sweeps"),
            ]
        case .settle(let report, _): return [of(report.user, .hash, KeySpace.Kind.budgets, "the user's budgets")]
        case .hooks(let call):
            return [
                KeyOfOurs(kind: .stream, key: keys.key(call.partition, KeySpace.Kind.hookQueue), word: "the queue of webhooks"),
                KeyOfOurs(kind: .string, key: keys.key(call.partition, KeySpace.Kind.hookLease), word: "the lease of webhooks"),
                KeyOfOurs(kind: .hash, key: keys.key(call.partition, KeySpace.Kind.hookCounts), word: "the counts of webhooks"),
            ]
        case .announce:
            return [
                KeyOfOurs(kind: .sortedSet, key: keys.nodes, word: "the list of nodes"),
                KeyOfOurs(kind: .hash, key: keys.nodeFacts, word: "the nodes' facts"),
            ]
        case .position, .broadcast, .probe, .trial, .strangers, .control, .ping, .setUp: return []
        }
    }

    private func meta(_ channel: Name) -> KeyOfOurs { of(channel, .hash, KeySpace.Kind.meta, "the meta key") }
    private func stream(_ channel: Name) -> KeyOfOurs { of(channel, .stream, KeySpace.Kind.stream, "the stream") }
    private func generation(_ channel: Name) -> KeyOfOurs {
        KeyOfOurs(
            kind: .string, key: keys.key(Partition.of(channel), KeySpace.Kind.generation), word: "the generation key")
    }

    private func reads(_ channel: Name) -> KeyOfOurs { of(channel, .hash, KeySpace.Kind.reads, "the read positions") }
    private func record(_ user: Name) -> KeyOfOurs { of(user, .hash, KeySpace.Kind.user, Self.recordWord) }
    static var recordWord: StaticString { "the user's record" }

    private func of(_ name: Name, _ type: KeyOfOurs.Kind, _ kind: StaticString, _ word: StaticString) -> KeyOfOurs {
        KeyOfOurs(kind: type, key: keys.key(Partition.of(name), kind, name.bytes), word: word)
    }

    private func occupied(_ partition: Int) -> KeyOfOurs {
        KeyOfOurs(kind: .sortedSet, key: keys.key(partition, KeySpace.Kind.occupied), word: "the occupied channels")
    }

    private func presenceMeta(_ partition: Int) -> KeyOfOurs {
        KeyOfOurs(kind: .hash, key: keys.key(partition, KeySpace.Kind.presenceMeta), word: "the partition's meta key")
    }

    private func partition(_ partition: Int) -> [KeyOfOurs] {
        [
            presenceMeta(partition),
            KeyOfOurs(kind: .sortedSet, key: keys.key(partition, KeySpace.Kind.leases), word: "the leases"),
            KeyOfOurs(kind: .sortedSet, key: keys.key(partition, KeySpace.Kind.grace), word: "the grace"),
            KeyOfOurs(kind: .stream, key: keys.key(partition, KeySpace.Kind.presenceStream), word: "the feed's stream"),
        ]
    }

    func strangers(_ call: StrangersCall, _ out: inout ByteBuffer, _ scripts: ScriptTable) {
        out.call(.strangers, scripts, keys: call.keys.count, arguments: call.keys.count)
        for key in call.keys { out.argument(key.key) }
        for key in call.keys { out.argument(key.kind.letter) }
    }

    /// A sorted set that isn't there gets nothing by XX; but it's a write, and one that a full Redis refuses.
    func trial(_ partition: Int, _ out: inout ByteBuffer) {
        out.command(5)
        out.argument("ZADD")
        out.argument(keys.probeChannel(incarnation, partition))
        out.argument("XX")
        out.argument("0")
        out.argument("x")
    }
}
