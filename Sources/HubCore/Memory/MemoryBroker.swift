import HubBase
import HubWire

/// The embedded broker: one node, no Redis, the same promises in process (redis-design §6).
///
/// Costs for a publication: one lookup of its channel, one of its id. Answers and publications wait in one queue and leave in order from
/// `advance`. What it keeps is bounded by `MemoryLimits`; what ran out is dropped by a walk that looks at a few channels in each `advance`.
package final class MemoryBroker: Broker {
    package weak var delegate: (any BrokerDelegate)?

    private var channels: [Name: MemoryChannel] = [:]
    /// The same channels, for the walk.
    private var list: [MemoryChannel] = []
    private var walk: Patrol?
    private var outputs = Queue<Output>()
    private var options: [[UInt8]: HistoryOptions] = [:]
    private let limits: MemoryLimits
    /// This node's incarnation: the only one that can be sent to.
    private let node: Name
    private var chance: Chance
    private var historyBytes = 0
    private var idCount = 0
    private var readCount = 0
    private var isAdvancing = false
    var faults = Faults()

    /// `namespaces`: by name; `""` holds for every other one.
    package init(namespaces: [String: HistoryOptions], chance: Chance, limits: MemoryLimits = MemoryLimits(), node: Name = .empty) {
        self.chance = chance
        self.limits = limits
        self.node = node
        setNamespaces(namespaces)
    }

    /// Cost: one look at every channel there is.
    package func setNamespaces(_ namespaces: [String: HistoryOptions]) {
        options = Dictionary(namespaces.map { ([UInt8]($0.key.utf8), $0.value) }, uniquingKeysWith: { _, last in last })
        for channel in list { channel.options = options(of: channel.name) }
    }

    private func options(of channel: Name) -> HistoryOptions {
        options[[UInt8](channel.namespace)] ?? options[[]] ?? HistoryOptions()
    }

    package func start(at now: Instant) {
        walk = Patrol(period: .seconds(10), stepsMax: 256, at: now)
        outputs.append(.health(.up))
    }

    package func publish(_ publication: Publication, to name: Name, tag: RequestTag, at now: Instant) {
        if let error = faults.refusal() { return outputs.append(.published(.failure(error), tag)) }
        guard let channel = channel(name) else { return outputs.append(.published(.failure(MemoryBroker.full("channels")), tag)) }
        expire(channel, at: now, idsMax: 4)

        let key = MessageKey(sender: publication.user, messageId: publication.messageId)
        let digest = MemoryBroker.digest(of: publication)
        if !key.messageId.isEmpty, let first = channel.remembered(key), first.ends > now {
            let result: Result<PublishResult, WireError> =
                first.digest == digest
                ? .success(PublishResult(position: first.position, isDuplicate: true))
                : .failure(WireError(.duplicateConflict, "messageId was used before in this channel, with another payload"))
            return outputs.append(.published(result, tag))
        }
        guard idCount < limits.messageIds else { return outputs.append(.published(.failure(MemoryBroker.full("message ids")), tag)) }
        guard historyBytes + MemoryChannel.cost(of: publication) <= limits.historyBytes else {
            return outputs.append(.published(.failure(MemoryBroker.full("bytes of history")), tag))
        }

        let epoch = chance.mark()
        let mark = chance.mark()
        let positioned = counting(channel) { channel in
            let positioned = channel.append(publication, epoch: epoch, tag: mark, at: now)
            if !key.messageId.isEmpty { channel.remember(key, digest: digest, at: now) }
            return positioned
        }
        outputs.append(.published(.success(PublishResult(position: positioned.position, isDuplicate: false)), tag))
        if channel.isWanted && !faults.dropsFeed() { outputs.append(.publication(positioned, channel)) }
    }

    package func broadcast(_ publication: Publication, to name: Name, at now: Instant) {
        guard faults.refusal() == nil, let channel = channels[name], channel.isWanted, !faults.dropsFeed() else { return }
        outputs.append(.ephemeral(publication, channel))
    }

    package func markRead(_ publication: Publication, offset: UInt64, in name: Name, tag: RequestTag, at now: Instant) {
        if let error = faults.refusal() { return outputs.append(.readMoved(.failure(error), tag)) }
        guard let channel = channel(name) else { return outputs.append(.readMoved(.failure(MemoryBroker.full("channels")), tag)) }
        expire(channel, at: now, idsMax: 4)
        guard readCount < limits.readPositions || channel.hasRead(publication.user) else {
            return outputs.append(.readMoved(.failure(MemoryBroker.full("read positions")), tag))
        }
        let read = counting(channel) { $0.moveRead(of: publication.user, to: offset, at: now) }
        outputs.append(.readMoved(.success(read.offset), tag))
        if read.hasMoved && channel.isWanted && !faults.dropsFeed() { outputs.append(.ephemeral(publication, channel)) }
    }

    package func subscribe(_ name: Name, tag: RequestTag, at now: Instant) {
        if let error = faults.refusal() { return outputs.append(.subscribed(name, .failure(error), tag)) }
        guard let channel = channel(name) else { return outputs.append(.subscribed(name, .failure(MemoryBroker.full("channels")), tag)) }
        expire(channel, at: now, idsMax: 4)
        if !channel.isWanted {
            channel.isWanted = true
            channel.live = channel.position
        }
        outputs.append(.subscribed(name, .success(channel.position), tag))
    }

    package func unsubscribe(_ name: Name, at now: Instant) {
        guard let channel = channels[name] else { return }
        channel.isWanted = false
        channel.live = nil
        // A channel that only ever carried typing leaves nothing behind.
        if channel.isForgettable { remove(channel) }
    }

    package func probe(tag: RequestTag, at now: Instant) {
        outputs.append(.probed(faults.refusal().map { .failure($0) } ?? .success(()), tag))
    }

    package func send(_ message: [UInt8], to node: Name, tag: RequestTag, at now: Instant) {
        if let error = faults.refusal() { return outputs.append(.sent(.failure(error), tag)) }
        let isOurs = node == self.node
        if isOurs { outputs.append(.control(message)) }
        outputs.append(.sent(.success(isOurs ? 1 : 0), tag))
    }

    package func stop(at now: Instant) {
        outputs.removeAll()
        delegate = nil
    }

    package func advance(at now: Instant) {
        // A delegate that calls back from inside an answer gets its own answers below, not inside that call.
        guard !isAdvancing else { return }
        isAdvancing = true
        defer { isAdvancing = false }
        // What delegates ask for while they are told is answered here too, a few rounds deep: their shells may not turn again for a while.
        for _ in 0..<8 where !outputs.isEmpty {
            for _ in 0..<outputs.count {
                if let output = outputs.popFirst() { deliver(output) }
            }
        }
        patrol(at: now)
    }

    // Delivery.

    private enum Output {
        case published(Result<PublishResult, WireError>, RequestTag)
        case readMoved(Result<UInt64, WireError>, RequestTag)
        case subscribed(Name, Result<Position, WireError>, RequestTag)
        case probed(Result<Void, WireError>, RequestTag)
        case publication(PositionedPublication, MemoryChannel)
        case ephemeral(Publication, MemoryChannel)
        case sent(Result<Int, WireError>, RequestTag)
        case control([UInt8])
        case health(BackendHealth)
    }

    private func deliver(_ output: Output) {
        guard let delegate else { return }
        switch output {
        case .published(let result, let tag): delegate.published(result, tag: tag)
        case .readMoved(let result, let tag): delegate.readMoved(result, tag: tag)
        case .subscribed(let channel, let result, let tag): delegate.subscribed(channel, result, tag: tag)
        case .probed(let result, let tag): delegate.probed(result, tag: tag)
        case .publication(let positioned, let channel): deliver(positioned, of: channel, to: delegate)
        case .ephemeral(let publication, let channel):
            if channel.isWanted { delegate.received(publication, channel: channel.name) }
        case .sent(let result, let tag): delegate.sent(result, tag: tag)
        case .control(let message): message.withUnsafeBytes { delegate.received(control: $0) }
        case .health(let health): delegate.brokerHealth(health)
        }
    }

    /// The live rule of redis-design §4: the next one by epoch, offset and tag is handed on; anything else is a hole, told first.
    private func deliver(_ next: PositionedPublication, of channel: MemoryChannel, to delegate: any BrokerDelegate) {
        guard let live = channel.live else { return }
        let before = Position(epoch: next.position.epoch, offset: next.position.offset - 1, tag: next.previous)
        let isFirst = live == .start && before.offset == 0
        if live != before && !isFirst {
            delegate.resync(channel.name, to: before, reason: MemoryBroker.reason(from: live, to: before))
        }
        channel.live = next.position
        delegate.received(next, channel: channel.name)
    }

    private static func reason(from live: Position, to position: Position) -> ResyncReason {
        // The same epoch at an earlier place, or at the same one under another tag: rolled back.
        position.epoch == live.epoch && position.offset > live.offset || live == .start ? .gap : .epochChanged
    }

    // Keeping.

    /// One step of the walk for some channels: drops what ran out, and finds the lost tail that no successor reveals.
    private func patrol(at now: Instant) {
        guard let steps = walk?.steps(over: list.count, at: now) else { return }
        for _ in 0..<steps {
            guard !list.isEmpty, let place = walk?.next(of: list.count) else { return }
            let channel = list[place]
            expire(channel, at: now, idsMax: 256)
            if channel.isForgettable {
                remove(channel)
                walk?.repeatPlace()
            } else if outputs.isEmpty, let live = channel.live, live != channel.position {
                channel.live = channel.position
                delegate?.resync(channel.name, to: channel.position, reason: MemoryBroker.reason(from: live, to: channel.position))
            }
        }
    }

    private func expire(_ channel: MemoryChannel, at now: Instant, idsMax: Int) {
        counting(channel) { $0.expire(at: now, idsMax: idsMax) }
    }

    /// Keeps the sums of what all channels hold.
    private func counting<Result>(_ channel: MemoryChannel, _ change: (MemoryChannel) -> Result) -> Result {
        let before = (channel.historyBytes, channel.idCount, channel.readCount)
        defer {
            historyBytes += channel.historyBytes - before.0
            idCount += channel.idCount - before.1
            readCount += channel.readCount - before.2
        }
        return change(channel)
    }

    /// nil when there are as many as may be.
    private func channel(_ name: Name) -> MemoryChannel? {
        if let channel = channels[name] { return channel }
        guard list.count < limits.channels else { return nil }
        let channel = MemoryChannel(name: name, options: options(of: name), place: list.count)
        channels[name] = channel
        list.append(channel)
        return channel
    }

    private func remove(_ channel: MemoryChannel) {
        channels[channel.name] = nil
        let last = list.removeLast()
        if last !== channel {
            list[channel.place] = last
            last.place = channel.place
        }
    }

    /// Swift's hasher is seeded for each process: a client can't aim for a collision. Only compared, so it may differ between runs.
    private static func digest(of publication: Publication) -> Int {
        var hasher = Hasher()
        hasher.combine(publication.contentByte)
        publication.payload.withUnsafeBytes { hasher.combine(bytes: $0) }
        return hasher.finalize()
    }

    private static func full(_ what: String) -> WireError {
        WireError(.storeFull, "the embedded broker holds as many \(what) as it may", retryAfter: 2_000)
    }

    // For MemoryBroker+Faults.

    func eachChannel(_ change: (MemoryChannel) -> Void) {
        for channel in list { counting(channel, change) }
    }

    func rollBackChannel(_ name: Name, by count: Int) {
        guard let channel = channels[name] else { return }
        counting(channel) { $0.rollBack(count) }
    }

    /// Cost: a walk over all channels.
    package var held: Held {
        Held(
            channels: list.count, publications: list.reduce(0) { $0 + $1.history.count }, messageIds: idCount, readPositions: readCount,
            bytes: historyBytes)
    }

    func queueHealth(_ health: BackendHealth) { outputs.append(.health(health)) }
}

/// What the embedded broker keeps at most; beyond it calls are refused with `storeFull`, as a full Redis does. Nothing is forgotten early
/// instead: a forgotten message id would let a retry through twice.
package struct MemoryLimits: Sendable, Equatable {
    package var channels = 1_000_000
    package var historyBytes = 1 << 30
    package var messageIds = 2_000_000
    package var readPositions = 2_000_000
    package init() {}
}
