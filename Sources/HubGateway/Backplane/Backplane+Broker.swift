import HubBase
import HubCore
import HubWire

extension Backplane: BrokerDelegate {
    func published(_ result: Result<PublishResult, WireError>, tag: RequestTag) {
        if tag == Backplane.revocationTag { return revocations.rewritten(result, at: now) }
        post(.published(result, tag: tag.low), to: tag.high)
    }

    func readMoved(_ result: Result<UInt64, WireError>, tag: RequestTag) {
        post(.readMoved(result, tag: tag.low), to: tag.high)
    }

    func subscribed(_ channel: Name, _ result: Result<Position, WireError>, tag: RequestTag) {
        if tag.high == Backplane.revocationTags { return carryOut(revocations.subscribed(result, at: now)) }
        recovery.subscribed(channel, result, serial: tag.low)
        carryOutRecovery()
    }

    func historyRead(_ channel: Name, _ result: Result<HistoryPage, WireError>, tag: RequestTag) {
        if tag == Backplane.revocationCheckTag { return revocations.checked(result, at: now) }
        if tag == Backplane.revocationTag {
            return carryOut(revocations.historyRead(result, at: now, wall: WallClock.milliseconds()))
        }
        guard tag.high == Backplane.historyTags else { return post(.historyRead(channel, result, tag: tag.low), to: tag.high) }
        recovery.historyRead(result, key: tag.low)
        carryOutRecovery()
    }

    func readMarks(_ channel: Name, _ result: Result<[ReadMark], WireError>, tag: RequestTag) {
        recovery.marksRead(result, key: tag.low)
        carryOutRecovery()
    }

    /// Does what the recovery machine asks, at once: an answer's place among the deliveries is what it says.
    func carryOutRecovery() {
        while !recovery.actions.isEmpty {
            let actions = recovery.actions
            recovery.actions.removeAllForReuse()
            for action in actions { carryOut(action) }
        }
    }

    private func carryOut(_ action: RecoveryMachine.Action) {
        switch action {
        case .subscribe(let channel, let serial):
            broker.subscribe(channel, tag: RequestTag(high: Backplane.feedTags, low: serial), at: now)
        case .unsubscribe(let channel): broker.unsubscribe(channel, at: now)
        case .read(let channel, let query, let key):
            broker.readHistory(of: channel, query, tag: RequestTag(high: Backplane.historyTags, low: key), at: now)
        case .readMarks(let channel, let user, let limit, let key):
            broker.readMarks(of: channel, user: user, limit: limit, tag: RequestTag(high: Backplane.markTags, low: key), at: now)
        case .answer(let result, let loop, let tag): post(.joined(result, tag: tag), to: UInt64(loop))
        }
    }

    func probed(_ result: Result<Void, WireError>, tag: RequestTag) {
        switch result {
        case .success: health.probeReturned(at: now)
        case .failure(let error) where error.code == .storeFull: health.probeFoundFull(at: now)
        case .failure(let error):
            numbers.probesFailed += 1
            health.probeFailed(error.message)
        }
        announceHealth()
    }

    func received(_ publication: PositionedPublication, channel: Name) {
        numbers.received += 1
        if isOfRevocations(channel) { return carryOut(revocations.received(publication.publication, wall: WallClock.milliseconds())) }
        guard let (slot, carriers) = recovery.carried(channel) else { return }
        let delivery = DurableDelivery(channel: channel, publication: publication)
        post(.durable(delivery), toCarriers: carriers)
        recovery.delivered(delivery, at: slot)
        if !recovery.actions.isEmpty { carryOutRecovery() }
    }

    func received(_ publication: Publication, channel: Name) {
        numbers.received += 1
        // One that the store had no room for.
        if isOfRevocations(channel) { return carryOut(revocations.received(publication, wall: WallClock.milliseconds())) }
        guard let (_, carriers) = recovery.carried(channel) else { return }
        if publication.messageClass == .read, recovery.keepsMarks(of: channel) { keepMark(publication, channel) }
        post(.ephemeral(publication, channel: channel), toCarriers: carriers)
    }

    func resync(_ channel: Name, to position: Position, reason: ResyncReason) {
        numbers.resyncs += 1
        if isOfRevocations(channel) { return revocations.resync(at: now) }
        log.warning("channel.resync", ["channel": logged(channel), "reason": reason.rawValue])
        guard let (_, carriers) = recovery.carried(channel) else { return }
        post(.resync(channel, to: position, reason: reason), toCarriers: carriers)
        recovery.resync(channel, to: position, reason: reason)
        carryOutRecovery()
    }

    /// An inbox names a user.
    private func logged(_ channel: Name) -> String {
        logsPersonal || Inbox.owner(of: channel) == nil ? "\(channel)" : Pseudonym.of("\(channel)")
    }

    private func keepMark(_ publication: Publication, _ channel: Name) {
        let offset = publication.payload.withUnsafeBytes { Payload.readOffset($0, format: publication.payloadFormat) }
        if let offset { recovery.readPassed(ReadMark(user: publication.user, offset: offset), channel: channel) }
    }

    func brokerHealth(_ health: BackendHealth) {
        // Marks that moved meanwhile weren't heard here.
        if case .down = health { recovery.forgetAllMarks() }
        self.health.brokerChanged(health, at: now)
        revocations.health(health, at: now)
        announceHealth()
    }

    func foreignKey(_ key: [UInt8]) {
        log.warning(
            "redis.foreignKey",
            [
                "key": String(decoding: key, as: UTF8.self),
                "message":
                    "holds something that isn't a hub's: it's left as it is, and what needs it is refused (internal). Remove it, or give this hub"
                    + " a prefix of its own (redis.prefix)",
            ])
    }

    func renewed(_ channel: Name, wasAcknowledged place: Position) {
        numbers.channelsRenewed += 1
        // One failover may concern thousands; hub_channels_renewed_total has them all.
        if let told = numbers.renewalTold, now.since(told) < .seconds(10) { return }
        numbers.renewalTold = now
        log.warning(
            "redis.tookBack",
            [
                "channel": "\(channel)", "position": "\(place)",
                "message":
                    "acknowledged, and Redis has it no more (a failover, or older data): whoever stood before it is told. Other channels may be"
                    + " concerned too: hub_channels_renewed_total counts them, docs/redis.md says what makes this rare",
            ])
    }

    // MARK: Health

    /// Sends a probe when one is due, and notices those that don't come back.
    func watchHealth() {
        health.look(at: now)
        health.lacksRevocations = !revocations.isCurrent
        if health.probeIsDue(at: now) { broker.probe(tag: Backplane.probeTag, at: now) }
        announceHealth()
    }

    private func announceHealth() {
        guard let change = health.takeChange(at: now) else { return }
        switch change {
        case .up: log.info("node.ready", [:])
        case .full(let reason): log.warning("node.storeFull", ["reason": reason])
        case .down(let reason): log.warning("node.degraded", ["reason": reason])
        }
        let told = HealthMachine.publicly(change, isLink: health.isLinkDown, outage: broker.outage)
        switch told {
        case .up: state.enter(.ready)
        case .full(let reason): state.enter(.full(reason))
        case .down(let reason): state.enter(.degraded(reason))
        }
        numbers.linkUp = if case .down = change { false } else { true }
        numbers.storeFull = if case .full = change { true } else { false }
        machine.storeFull(numbers.storeFull, at: now)
        postToAll(.health(told))
    }
}
