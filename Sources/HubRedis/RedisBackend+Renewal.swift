import HubBase
import HubCore
import HubWire

// What was acknowledged over a link that's lost is looked at on the next one; what was taken back is told to everybody (decision 0250).
extension RedisBackend {
    /// One of this node's publications was acknowledged.
    func acknowledged(_ call: PublishCall, at position: Position) {
        let entry = AckLedger.Entry(
            channel: call.channel, position: position, at: loop.now,
            message: AckLedger.Entry.Message(user: call.publication.user, id: call.publication.messageId))
        // Another master has the lane already, which may never have got it.
        if link.isOnDetour(call.channel) { ledger.doubt(entry) } else { ledger.note(entry) }
        guard let index = subscriber.set.find(keys.liveChannel(call.channel)) else { return }
        subscriber.set.acknowledged(index, at: position)
    }

    /// The link that has `lanes` is lost, or another master has them now.
    func doubt(in lanes: LaneSet) {
        subscriber.set.commandsLost(in: lanes)
        ledger.doubt(in: lanes, at: loop.now)
        readLedger.doubt(in: lanes, at: loop.now)
    }

    /// Asks what became of places that are in doubt, some at a time.
    func renew(at now: Instant) {
        guard ledger.doubtful > 0 else { return }
        for master in masters.all where master.link.isUp {
            let lanes = link.openLanes(of: master)
            while master.link.owedReplies < RedisBackend.readHeadroom, let entry = ledger.take(in: lanes, at: now) {
                link.send(.renew(entry))
            }
        }
    }

    func renewed(_ entry: AckLedger.Entry, _ reply: borrowing Reply) {
        var verdict = AckLedger.Verdict.stands
        var none = Mark.none
        if let word = reply.string(1), word.equals("renewed"), let text = reply.string(2),
            let position = Position(reply: text, fingerprint: &none)
        {
            verdict = .renewed(position)
            broker?.delegate?.renewed(entry.channel, wasAcknowledged: entry.position)
        }
        ledger.found(verdict, of: entry, at: loop.now)
    }

    func renewalFailed(_ entry: AckLedger.Entry, _ error: WireError) {
        // Somebody else's keys: they're told of as ever, and nobody can be told of what was in ours.
        ledger.failed(entry, isLasting: error.code == .internal, at: loop.now)
    }

    /// A channel has another epoch, its message says: whoever wrote that, the record tells.
    func heardOfRenewal(_ index: Int) { lookAgain(index) }

    /// Reads where a live channel stands. False: it can't be read now, or is being read already.
    @discardableResult
    func lookAgain(_ index: Int) -> Bool {
        let entry = subscriber.set[index]
        guard let master = masters.master(of: masters.isCluster ? entry.lane : 0), link.openLanes(of: master).contains(entry.lane),
            master.link.owedReplies < RedisBackend.readHeadroom, subscriber.set.looks(index)
        else { return false }
        link.send(.position(index: index, generation: entry.generation, entry.subject))
        return true
    }
}

extension CommandEncoder {
    func renew(_ entry: AckLedger.Entry, _ out: inout ByteBuffer, _ scripts: ScriptTable, at now: Instant) {
        let options = options(entry.channel)
        let age = now.since(entry.at)
        let prefix = keys.partitions[Partition.of(entry.channel)]
        out.call(.renew, scripts, keys: 5, arguments: 8)
        out.argument(key: prefix, KeySpace.Kind.meta, entry.channel.bytes)
        out.argument(key: prefix, KeySpace.Kind.stream, entry.channel.bytes)
        dedupKey(of: entry.channel, user: entry.message?.user ?? .empty, id: entry.message?.id ?? .empty, &out)
        out.argument(key: prefix, KeySpace.Kind.live, entry.channel.bytes)
        out.argument(key: prefix, KeySpace.Kind.generation)
        out.argument(entry.position.epoch)
        out.argument(decimal: entry.position.offset)
        out.argument(entry.position.tag)
        out.argument(decimal: age.milliseconds)
        // The namespace's window may have become shorter since; then too much is told rather than too little.
        out.argument(entry.message != nil && age + .seconds(1) < options.dedup ? "1" : "0")
        out.argument(chance.mark())
        out.argument(chance.mark())
        out.argument(decimal: max(CommandEncoder.metaTTL, options.ttl).milliseconds)
    }
}
