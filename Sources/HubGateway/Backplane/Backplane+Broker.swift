import HubBase
import HubCore
import HubWire

extension Backplane: BrokerDelegate {
    func published(_ result: Result<PublishResult, WireError>, tag: RequestTag) {
        post(.published(result, tag: tag.low), to: tag.high)
    }

    func readMoved(_ result: Result<UInt64, WireError>, tag: RequestTag) {
        post(.readMoved(result, tag: tag.low), to: tag.high)
    }

    func subscribed(_ channel: Name, _ result: Result<Position, WireError>, tag: RequestTag) {
        post(.subscribed(channel, result, tag: tag.low), to: tag.high)
    }

    func historyRead(_ channel: Name, _ result: Result<HistoryPage, WireError>, tag: RequestTag) {}
    func readMarks(_ channel: Name, _ result: Result<[ReadMark], WireError>, tag: RequestTag) {}

    func probed(_ result: Result<Void, WireError>, tag: RequestTag) {
        switch result {
        case .success: health.probeReturned(at: now)
        case .failure(let error):
            numbers.probesFailed += 1
            health.probeFailed(error.message)
        }
        announceHealth()
    }

    func received(_ publication: PositionedPublication, channel: Name) {
        numbers.received += 1
        postToCarriers(of: channel, .durable(DurableDelivery(channel: channel, publication: publication)))
    }

    func received(_ publication: Publication, channel: Name) {
        numbers.received += 1
        postToCarriers(of: channel, .ephemeral(publication, channel: channel))
    }

    func resync(_ channel: Name, to position: Position, reason: ResyncReason) {
        numbers.resyncs += 1
        log.warning("channel.resync", ["channel": "\(channel)", "reason": reason.rawValue])
        postToCarriers(of: channel, .resync(channel, to: position, reason: reason))
    }

    func brokerHealth(_ health: BackendHealth) {
        self.health.brokerChanged(health, at: now)
        announceHealth()
    }

    // MARK: Health

    /// Sends a probe when one is due, and notices those that don't come back.
    func watchHealth() {
        health.look(at: now)
        if health.probeIsDue(at: now) { broker.probe(tag: Backplane.probeTag, at: now) }
        announceHealth()
    }

    private func announceHealth() {
        guard let change = health.takeChange(at: now) else { return }
        switch change {
        case .up:
            log.info("node.ready", [:])
            state.enter(.ready)
        case .down(let reason):
            log.warning("node.degraded", ["reason": reason])
        }
        let told = HealthMachine.publicly(change, isLink: health.isLinkDown)
        if case .down(let reason) = told { state.enter(.degraded(reason)) }
        numbers.linkUp = change == .up
        postToAll(.health(told))
    }
}
