import HubBase
import HubCore
import HubWire

/// Writes each call's command: keys, arguments, fresh epochs and tags. All numbers that Redis is given are made here.
final class CommandEncoder {
    let keys: KeySpace
    let timers: PresenceTimers
    let incarnation: Name
    /// What people call it.
    private let node: Name
    /// Whether messages go to their shard alone: in a cluster.
    private let isSharded: Bool
    let fingerprint = Fingerprint()
    var chance: Chance
    private var standard = HistoryOptions()
    private var namespaces: [(name: [UInt8], options: HistoryOptions)] = []
    /// "nf:3906:90000000", as hookqueue.lua has it; empty: nobody is told.
    private(set) var hookRules: [UInt8] = []
    private var hookKeep: Span = .seconds(1)
    private var scratch = ByteBuffer(capacity: 4096)
    var clocks = StoreClocks()

    /// How long a channel without publications keeps its place (redis-design §4).
    static let metaTTL: Span = .seconds(7 * 86_400)
    var dedupWindows: DedupWindows
    /// Users of one expire call.
    static let sweepLimit = 100

    init(
        keys: KeySpace, timers: PresenceTimers, namespaces: [String: HistoryOptions], incarnation: Name, node: Name, isSharded: Bool,
        chance: Chance
    ) {
        self.keys = keys
        self.timers = timers
        self.incarnation = incarnation
        self.node = node
        self.isSharded = isSharded
        self.chance = chance
        dedupWindows = DedupWindows(namespaces)
        setNamespaces(namespaces)
    }

    func setNamespaces(_ namespaces: [String: HistoryOptions]) {
        standard = namespaces[""] ?? HistoryOptions()
        self.namespaces = namespaces.filter { !$0.key.isEmpty }.map { ([UInt8]($0.key.utf8), $0.value) }
    }

    func setHookRules(_ rules: HookRules) {
        // A queue that nobody reads any more ends an hour after its events would have been given up.
        hookKeep = rules.keep + .seconds(3600)
        hookRules = rules.kinds.isEmpty ? [] : rules.kinds.letters + [UInt8](":\(rules.perPartition):\(hookKeep.milliseconds)".utf8)
    }

    /// How long a user's record outlives its last heartbeat. Where backends are told, as long as its events are: so that a user who comes back before
    /// anybody has swept is known to be online, however long no node lived.
    private var recordTTL: Span { hookRules.isEmpty ? timers.userTTL : max(timers.userTTL, hookKeep) }

    func fingerprint(_ publication: Publication) -> Mark { fingerprint.content(publication) }

    func options(_ channel: Name) -> HistoryOptions {
        let namespace = channel.namespace
        return namespaces.first { namespace.elementsEqual($0.name) }?.options ?? standard
    }

    func write(_ call: Call, into out: inout ByteBuffer, scripts: ScriptTable, at now: Instant) {
        switch call {
        case .publish(let call): publish(call, &out, scripts, at: now)
        case .history(let call): history(call, &out, scripts)
        case .marks(let call): marks(call, &out, scripts)
        case .markRead(let call): markRead(call, &out, scripts)
        case .broadcast(let channel, let publication): broadcast(publication, to: channel, &out)
        case .apply(let call): apply(call, &out, scripts, at: now)
        case .refresh(let call): refresh(call, &out, scripts)
        case .find(let sweep):
            clocks.asked(.sweep(partition: sweep.partition), at: now)
            find(sweep, &out, scripts)
        case .expire(let sweep): expire(sweep, &out, scripts)
        case .states(let call): states(call, &out)
        case .inspect(let user, let explains, _): inspect(user, explains: explains, &out, scripts)
        case .examine(_, let user): inspect(user, explains: false, &out, scripts)
        case .settle(let report, _): settle(report, &out, scripts)
        case .announce(let facts, _):
            clocks.asked(.announcement, at: now)
            announce(facts, &out, scripts)
        case .hooks(let call): hooks(call, &out, scripts)
        case .position(_, _, let subject): position(subject, &out)
        case .tip(_, _, let channel): tip(channel, &out, scripts)
        case .renew(let entry): renew(entry, &out, scripts, at: now)
        case .probe(let number, let partition): probe(number, partition, &out)
        case .trial(_, let partition): trial(partition, &out)
        case .strangers(let call): strangers(call, &out, scripts)
        case .members(let call): members(call, &out, scripts)
        case .memberFind(let sweep): memberFind(sweep, &out, scripts)
        case .control(let node, let message, _): control(message, to: node, &out)
        case .ping:
            out.command(1)
            out.argument("PING")
        case .setUp: break
        }
    }

    // MARK: Channels

    private func publish(_ call: PublishCall, _ out: inout ByteBuffer, _ scripts: ScriptTable, at now: Instant) {
        let options = options(call.channel)
        // It may have waited here too: time goes on for its id.
        let attempt = call.attempt.map { PublishAttempt(age: $0.age + now.since(call.madeAt), since: $0.since) }
        let isOlder = attempt.map { dedupWindows.mayHaveForgotten($0, in: call.channel.namespace, at: now) } ?? false
        let prefix = keys.partitions[Partition.of(call.channel)]
        out.call(isOlder ? .retry : .publish, scripts, keys: 5, arguments: isOlder ? 11 : 8)
        out.argument(key: prefix, KeySpace.Kind.meta, call.channel.bytes)
        out.argument(key: prefix, KeySpace.Kind.stream, call.channel.bytes)
        dedupKey(of: call.channel, user: call.publication.user, id: call.publication.messageId, &out)
        out.argument(key: prefix, KeySpace.Kind.live, call.channel.bytes)
        out.argument(key: prefix, KeySpace.Kind.generation)
        out.argument(chance.mark())
        out.argument(chance.mark())
        out.argument(decimal: UInt64(max(0, options.size)))
        // PX and PEXPIRE of zero would delete.
        out.argument(decimal: max(1, options.ttl.milliseconds))
        out.argument(decimal: max(CommandEncoder.metaTTL, options.ttl).milliseconds)
        out.argument(decimal: max(1, options.dedup.milliseconds))
        out.argument(call.fingerprint)
        body(call.publication, &out)
        if isOlder { since(attempt?.since, &out) }
    }

    func dedupKey(of channel: Name, user: Name, id: Name, _ out: inout ByteBuffer) {
        scratch.removeAll()
        scratch.append(keys.partitions[Partition.of(channel)])
        scratch.append(KeySpace.Kind.dedup)
        fingerprint.appendDedupName(channel: channel, user: user, id: id, to: &scratch)
        out.argument(scratch.bytes)
    }

    private func body(_ publication: Publication, _ out: inout ByteBuffer) {
        scratch.removeAll()
        PublicationCodec.encode(publication, into: &scratch)
        out.argument(scratch.bytes)
        scratch.removeAll()
        scratch.trim(above: 1 << 18)
    }

    private func markRead(_ call: ReadCall, _ out: inout ByteBuffer, _ scripts: ScriptTable) {
        let prefix = keys.partitions[Partition.of(call.channel)]
        out.call(.read, scripts, keys: 3, arguments: call.again == nil ? 5 : 6)
        out.argument(key: prefix, KeySpace.Kind.meta, call.channel.bytes)
        out.argument(key: prefix, KeySpace.Kind.reads, call.channel.bytes)
        out.argument(key: prefix, KeySpace.Kind.live, call.channel.bytes)
        out.argument(call.publication.user.bytes)
        out.argument(decimal: call.offset)
        out.argument(decimal: CommandEncoder.metaTTL.milliseconds)
        body(call.publication, &out)
        out.argument(decimal: UInt64(ReadMark.perChannel))
        if let again = call.again { out.argument(again.epoch) }
    }

    /// A publication without a place: a plain PUBLISH, no script. Nobody waits for its reply, but it's counted like any other.
    private func broadcast(_ publication: Publication, to channel: Name, _ out: inout ByteBuffer) {
        scratch.removeAll()
        scratch.append("E:")
        PublicationCodec.encode(publication, into: &scratch)
        out.command(3)
        out.argument(isSharded ? "SPUBLISH" : "PUBLISH")
        out.argument(key: keys.partitions[Partition.of(channel)], KeySpace.Kind.live, channel.bytes)
        out.argument(scratch.bytes)
        scratch.removeAll()
    }

    private func position(_ subject: SubscriptionSet.Subject, _ out: inout ByteBuffer) {
        out.command(5)
        out.argument("HMGET")
        switch subject {
        case .channel(let channel):
            out.argument(key: keys.partitions[Partition.of(channel)], KeySpace.Kind.meta, channel.bytes)
        case .feed(let partition): out.argument(key: keys.partitions[partition], KeySpace.Kind.presenceMeta)
        case .probe, .control, .user: preconditionFailure("\(subject) has no position")
        }
        out.argument("e")
        out.argument("s")
        out.argument("g")
    }

    private func probe(_ number: UInt64, _ partition: Int, _ out: inout ByteBuffer) {
        out.command(3)
        out.argument(isSharded ? "SPUBLISH" : "PUBLISH")
        out.argument(keys.probeChannel(incarnation, partition))
        out.argument(decimal: number)
    }

    private func control(_ message: [UInt8], to node: Name, _ out: inout ByteBuffer) {
        out.command(3)
        out.argument(isSharded ? "SPUBLISH" : "PUBLISH")
        out.argument(key: keys.partitions[Partition.of(node)], KeySpace.Kind.control, node.bytes)
        out.argument(message)
    }

    // MARK: Presence

    /// The seven keys of a partition that presence scripts share.
    private func partitionKeys(_ prefix: [UInt8], _ out: inout ByteBuffer) {
        out.argument(key: prefix, KeySpace.Kind.leases)
        out.argument(key: prefix, KeySpace.Kind.grace)
        out.argument(key: prefix, KeySpace.Kind.presenceMeta)
        out.argument(key: prefix, KeySpace.Kind.presenceStream)
        out.argument(key: prefix, KeySpace.Kind.presenceFeed)
        out.argument(key: prefix, KeySpace.Kind.hookQueue)
        out.argument(key: prefix, KeySpace.Kind.hookCounts)
    }

    /// A user's record and trail.
    private func userKeys(_ prefix: [UInt8], _ user: [UInt8], _ out: inout ByteBuffer) {
        out.argument(key: prefix, KeySpace.Kind.user, user)
        out.argument(key: prefix, KeySpace.Kind.trail, user)
    }

    private func apply(_ call: ApplyCall, _ out: inout ByteBuffer, _ scripts: ScriptTable, at now: Instant) {
        let prefix = keys.partitions[call.partition]
        let time = clocks.time(call.partition, at: now)
        let count = call.operations.count
        out.call(.apply, scripts, keys: 7 + 2 * count, arguments: 9 + 5 * count)
        partitionKeys(prefix, &out)
        for operation in call.operations { userKeys(prefix, operation.user.bytes, &out) }
        out.argument(decimal: timers.lease.milliseconds)
        out.argument(decimal: recordTTL.milliseconds)
        out.argument(decimal: timers.tombstoneTTL.milliseconds)
        out.argument(chance.mark())
        out.argument(chance.mark())
        out.argument(decimal: timers.explainTTL.milliseconds)
        out.argument(decimal: timers.versionStep)
        out.argument(hookRules)
        out.argument(decimal: timers.hold.milliseconds)
        for operation in call.operations {
            switch operation.kind {
            case .up(let state):
                switch (operation.isAsked, operation.isKnown, operation.knowsLoss && state == .invisible) {
                case (false, false, false): out.argument("+")
                case (false, false, true): out.argument("+n")
                case (false, true, false): out.argument("+k")
                case (false, true, true): out.argument("+kn")
                case (true, false, false): out.argument("s")
                case (true, false, true): out.argument("sn")
                case (true, true, false): out.argument("sk")
                case (true, true, true): out.argument("skn")
                }
                out.argument(operation.connection.bytes)
                value(state, operation, &out)
            case .restore(let state):
                out.argument("r")
                out.argument(operation.connection.bytes)
                value(state, operation, &out)
            case .down(let grace, let ago, let told):
                out.argument(operation.isAsked ? "x" : "-")
                out.argument(operation.connection.bytes)
                end(operation, grace: grace, ago: ago, told: told, at: time, &out)
            }
            out.argument(decimal: operation.versionFloor)
            out.argument(operation.user.bytes)
        }
    }

    private func value(_ state: ConnectionState, _ operation: PresenceOperation, _ out: inout ByteBuffer) {
        scratch.removeAll()
        ConnectionValue.append(state: state, node: operation.node, device: operation.device, age: operation.age, to: &scratch)
        out.argument(scratch.bytes)
    }

    /// `at`: Redis's clock now, as far as is known. A call that reaches it long after this is told late.
    private func end(
        _ operation: PresenceOperation, grace: Span, ago: Span, told: PresenceChange?, at time: UInt64?, _ out: inout ByteBuffer
    ) {
        scratch.removeAll()
        scratch.append(decimal: grace.milliseconds)
        func append(_ separator: Unicode.Scalar, _ number: UInt64) {
            scratch.append(UInt8(ascii: separator))
            scratch.append(decimal: number)
        }
        if told != nil || ago.milliseconds > 0 { append(":", ago.milliseconds) }
        if let told {
            append(":", told.version)
            append(":", told.lastSeen)
        }
        if let time {
            append("@", time)
            append(":", timers.grace.milliseconds)
        }
        if let was = operation.was {
            append(";", UInt64(operation.loss.rawValue))
            scratch.append(UInt8(ascii: ";"))
            ConnectionValue.append(state: was, node: operation.node, device: operation.device, age: operation.age, to: &scratch)
        }
        out.argument(scratch.bytes)
    }

    private func refresh(_ call: RefreshCall, _ out: inout ByteBuffer, _ scripts: ScriptTable) {
        let prefix = keys.partitions[call.partition]
        let leases = call.renewal.leases
        let records = call.renewal.coversRecords ? leases : []
        out.call(.refresh, scripts, keys: 1 + records.count, arguments: 2 + leases.count)
        out.argument(key: prefix, KeySpace.Kind.leases)
        for lease in records { out.argument(key: prefix, KeySpace.Kind.user, lease.user.bytes) }
        out.argument(decimal: timers.lease.milliseconds)
        out.argument(decimal: recordTTL.milliseconds)
        for lease in leases { out.argument(lease.user.bytes, lease.connection.bytes, separator: UInt8(ascii: "|")) }
    }

    private func find(_ sweep: Sweep, _ out: inout ByteBuffer, _ scripts: ScriptTable) {
        let prefix = keys.partitions[sweep.partition]
        out.call(.find, scripts, keys: 3, arguments: 6)
        out.argument(key: prefix, KeySpace.Kind.leases)
        out.argument(key: prefix, KeySpace.Kind.grace)
        out.argument(key: prefix, KeySpace.Kind.presenceMeta)
        out.argument(decimal: UInt64(CommandEncoder.sweepLimit))
        // A sweep that goes on isn't held up by its own beginning.
        out.argument(decimal: sweep.rounds == 0 ? timers.sweepInterval.milliseconds : 0)
        out.argument(decimal: timers.gapMax.milliseconds)
        out.argument(decimal: timers.hold.milliseconds)
        out.argument(decimal: timers.lease.milliseconds)
        out.argument(decimal: timers.grace.milliseconds)
    }

    private func expire(_ sweep: Sweep, _ out: inout ByteBuffer, _ scripts: ScriptTable) {
        let prefix = keys.partitions[sweep.partition]
        out.call(.expire, scripts, keys: 7 + 2 * sweep.entries.count, arguments: 10 + 4 * sweep.entries.count)
        partitionKeys(prefix, &out)
        for entry in sweep.entries { userKeys(prefix, entry.user, &out) }
        out.argument(sweep.now)
        out.argument(decimal: timers.gapMax.milliseconds)
        out.argument(decimal: timers.lease.milliseconds)
        out.argument(decimal: timers.tombstoneTTL.milliseconds)
        out.argument(chance.mark())
        out.argument(chance.mark())
        out.argument(decimal: timers.explainTTL.milliseconds)
        out.argument(node.bytes)
        out.argument(decimal: timers.versionStep)
        out.argument(hookRules)
        for entry in sweep.entries {
            out.argument(entry.isNodeDead ? "n" : entry.isLease ? "l" : "g")
            out.argument(entry.score)
            out.argument(entry.connection)
            out.argument(entry.user)
        }
    }

    private func inspect(_ user: Name, explains: Bool, _ out: inout ByteBuffer, _ scripts: ScriptTable) {
        let prefix = keys.partitions[Partition.of(user)]
        out.call(.inspect, scripts, keys: 5, arguments: 2)
        out.argument(key: prefix, KeySpace.Kind.user, user.bytes)
        out.argument(key: prefix, KeySpace.Kind.leases)
        out.argument(key: prefix, KeySpace.Kind.grace)
        out.argument(key: prefix, KeySpace.Kind.trail, user.bytes)
        out.argument(key: prefix, KeySpace.Kind.presenceMeta)
        out.argument(user.bytes)
        out.argument(decimal: explains ? UInt64(PresenceTransition.kept) : 0)
    }

    private func hooks(_ call: HookCall, _ out: inout ByteBuffer, _ scripts: ScriptTable) {
        let prefix = keys.partitions[call.partition]
        let claim = call.claim
        out.call(.hooks, scripts, keys: 3, arguments: 7 + claim.dropped.count + claim.settled.count)
        out.argument(key: prefix, KeySpace.Kind.hookQueue)
        out.argument(key: prefix, KeySpace.Kind.hookLease)
        out.argument(key: prefix, KeySpace.Kind.hookCounts)
        out.argument(incarnation.bytes)
        // PX of zero would be refused.
        out.argument(decimal: max(1, claim.lease.milliseconds))
        switch claim.holding {
        case .take: out.argument("t")
        case .want: out.argument("w")
        case .letGo: out.argument("l")
        }
        out.argument(decimal: UInt64(max(0, claim.limit)))
        out.argument(decimal: hookKeep.milliseconds)
        out.argument(decimal: claim.told)
        out.argument(decimal: UInt64(claim.dropped.count))
        for id in claim.dropped + claim.settled {
            scratch.removeAll()
            scratch.append(decimal: id.milliseconds)
            scratch.append(UInt8(ascii: "-"))
            scratch.append(decimal: id.sequence)
            out.argument(scratch.bytes)
        }
    }

    private func announce(_ facts: [UInt8], _ out: inout ByteBuffer, _ scripts: ScriptTable) {
        out.call(.announce, scripts, keys: 2, arguments: 3)
        out.argument(keys.nodes)
        out.argument(keys.nodeFacts)
        out.argument(incarnation.bytes)
        out.argument(decimal: facts.isEmpty ? 0 : PresenceLimits.nodeHolds.milliseconds)
        out.argument(facts)
    }
}
