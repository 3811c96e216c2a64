import HubBase
import HubWire

/// The embedded broker: one node, no Redis, the same promises in process (redis-design §6).
///
/// Costs for a publication: one lookup of its channel, one of its id. Answers and publications wait in one queue and leave in order from
/// `advance`. What it keeps is bounded by `MemoryLimits`; what ran out is dropped by a walk that looks at a few channels in each `advance`.
package final class MemoryBroker: Broker {
    package weak var delegate: (any BrokerDelegate)?

    private(set) var channels: [Name: MemoryChannel] = [:]
    /// The same channels, for the walks.
    private(set) var list: [MemoryChannel] = []
    /// Those besides that are only wanted.
    private var quiet = QuietChannels()
    private var walk: Patrol?
    let outputs = Outputs<Output>()
    private var options: [[UInt8]: SharedOptions] = [:]
    private var dedupWindows: DedupWindows
    private let standard = SharedOptions(HistoryOptions())
    private let limits: MemoryLimits
    /// This node's incarnation: the only one that can be sent to.
    private let node: Name
    private var chance: Chance
    private var historyBytes = 0
    private var idCount = 0
    private var readCount = 0
    /// Where channels stand of which there's nothing (decision 0135). It's kept by clean snapshots alone, and never as long as a channel's place
    /// after its last publication: under one generation, a channel without a place has never begun.
    package internal(set) var generation: Generation
    var origin: Position { .origin(generation.word) }
    var faults = Faults()
    package var keeper: (any BrokerKeeper)?
    /// How often something that a snapshot holds was changed.
    package private(set) var changes: UInt64 = 0
    /// How far a walk over the images of all channels has got, and those that it'd miss otherwise.
    var imagesPlace: Int?
    var imagesAhead: [ChannelImage] = []

    /// `namespaces`: by name; `""` holds for every other one.
    package init(namespaces: [String: HistoryOptions], chance: Chance, limits: MemoryLimits = MemoryLimits(), node: Name = .empty) {
        var chance = chance
        generation = Generation(word: chance.mark(), ends: .distantFuture)
        self.chance = chance
        self.limits = limits
        self.node = node
        dedupWindows = DedupWindows(namespaces)
        adopt(namespaces)
    }

    /// Cost: one look at every channel there is.
    package func setNamespaces(_ namespaces: [String: HistoryOptions], at now: Instant) {
        dedupWindows.adopt(namespaces, at: now)
        adopt(namespaces)
    }

    private func adopt(_ namespaces: [String: HistoryOptions]) {
        options = Dictionary(namespaces.map { ([UInt8]($0.key.utf8), SharedOptions($0.value)) }, uniquingKeysWith: { _, last in last })
        for channel in list { channel.adopt(options(of: channel.name)) }
    }

    private func options(of channel: Name) -> SharedOptions {
        options[[UInt8](channel.namespace)] ?? options[[]] ?? standard
    }

    package func start(at now: Instant) {
        walk = Patrol(period: .seconds(10), stepsMax: 256, at: now)
        if generation.ends == .distantFuture { generation.ends = now + Generation.life }
        outputs.append(.health(.up))
    }

    package func publish(_ publication: Publication, to name: Name, attempt: PublishAttempt?, tag: RequestTag, at now: Instant) {
        if let error = faults.refusal() { return outputs.append(.published(.failure(error), tag)) }
        guard let channel = channel(name) else { return outputs.append(.published(.failure(MemoryBroker.full("channels")), tag)) }
        expire(channel, at: now, idsMax: 4)

        let key = MessageKey(sender: publication.user, messageId: publication.messageId)
        let digest = MemoryBroker.digest(of: publication)
        if !key.messageId.isEmpty, let first = channel.remembered(key), first.ends > now {
            return outputs.append(.published(channel.repeated(first.position, isSame: first.digest == digest), tag))
        }
        if let attempt, dedupWindows.mayHaveForgotten(attempt, in: name.namespace, at: now) {
            switch channel.search(for: key, after: attempt.since, origin) {
            case .published(let earlier):
                let isSame = MemoryBroker.digest(of: earlier.publication) == digest
                return outputs.append(.published(channel.repeated(earlier.position, isSame: isSame), tag))
            case .unknown: return outputs.append(.published(.failure(.uncertain), tag))
            case .notPublished: break
            }
        }
        guard idCount < limits.messageIds || Self.isKeptAnyway(name) else {
            return outputs.append(.published(.failure(MemoryBroker.full("message ids")), tag))
        }
        guard historyBytes + MemoryChannel.cost(of: publication) <= limits.historyBytes || Self.isKeptAnyway(name) else {
            return outputs.append(.published(.failure(MemoryBroker.full("bytes of history")), tag))
        }

        let epoch = newEpoch()
        let mark = chance.mark()
        changes += 1
        let positioned = counting(channel) { channel in
            let positioned = channel.append(publication, epoch: epoch, origin: origin, tag: mark, at: now)
            if !key.messageId.isEmpty { channel.remember(key, digest: digest, at: now) }
            return positioned
        }
        outputs.append(.published(.success(PublishResult(position: positioned.position, isDuplicate: false)), tag))
        if channel.isWanted && !faults.dropsFeed() { outputs.append(.publication(positioned, channel)) }
    }

    package func broadcast(_ publication: Publication, to name: Name, at now: Instant) {
        guard faults.refusal() == nil, let channel = channels[name] ?? awoken(name), channel.isWanted, !faults.dropsFeed() else { return }
        outputs.append(.ephemeral(publication, channel))
    }

    package func markRead(_ publication: Publication, offset: UInt64, in name: Name, tag: RequestTag, at now: Instant) {
        if let error = faults.refusal() { return outputs.append(.readMoved(.failure(error), tag)) }
        guard let channel = channel(name) else { return outputs.append(.readMoved(.failure(MemoryBroker.full("channels")), tag)) }
        expire(channel, at: now, idsMax: 4)
        // Nobody has read what isn't there.
        guard offset <= channel.position.offset else {
            return outputs.append(.readMoved(.failure(.readAhead(of: channel.position.offset)), tag))
        }
        if !channel.hasRead(publication.user) {
            guard channel.readCount < ReadMark.perChannel else { return outputs.append(.readMoved(.failure(.readersFull), tag)) }
            guard readCount < limits.readPositions else {
                return outputs.append(.readMoved(.failure(MemoryBroker.full("read positions")), tag))
            }
        }
        changes += 1
        let read = counting(channel) { $0.moveRead(of: publication.user, to: offset, at: now) }
        outputs.append(.readMoved(.success(read.offset), tag))
        if read.hasMoved && channel.isWanted && !faults.dropsFeed() { outputs.append(.ephemeral(publication, channel)) }
    }

    package func subscribe(_ name: Name, tag: RequestTag, at now: Instant) {
        if let error = faults.refusal() { return outputs.append(.subscribed(name, .failure(error), tag)) }
        if let channel = channels[name] {
            expire(channel, at: now, idsMax: 4)
            if !channel.isWanted {
                channel.isWanted = true
                channel.live = channel.tip(origin)
            }
        } else if quiet.word(of: name) == nil {
            guard hasRoom else { return outputs.append(.subscribed(name, .failure(MemoryBroker.full("channels")), tag)) }
            quiet.insert(name, word: generation.word)
        }
        outputs.append(.subscribedTo(name, tag))
    }

    package func unsubscribe(_ name: Name, at now: Instant) {
        if quiet.remove(name) != nil { return }
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
        keeper?.stopping(self, at: now)
        outputs.removeAll()
        delegate = nil
    }

    package func advance(at now: Instant) {
        outputs.advance {
            deliver($0)
        } rest: {
            patrol(at: now)
            keeper?.turn(self, at: now)
        }
    }

    // Delivery.

    enum Output {
        case published(Result<PublishResult, WireError>, RequestTag)
        case readMoved(Result<UInt64, WireError>, RequestTag)
        case subscribed(Name, Result<Position, WireError>, RequestTag)
        /// The position is taken when the answer is given: what was delivered until then.
        case subscribedTo(Name, RequestTag)
        case historyRead(Name, Result<HistoryPage, WireError>, RequestTag)
        case readMarks(Name, Result<[ReadMark], WireError>, RequestTag)
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
        case .subscribedTo(let name, let tag):
            let place = channels[name].map { $0.live ?? $0.tip(origin) } ?? quiet.word(of: name).map { .origin($0) } ?? origin
            delegate.subscribed(name, .success(place), tag: tag)
        case .historyRead(let channel, let result, let tag): delegate.historyRead(channel, result, tag: tag)
        case .readMarks(let channel, let result, let tag): delegate.readMarks(channel, result, tag: tag)
        case .probed(let result, let tag): delegate.probed(result, tag: tag)
        case .publication(let positioned, let channel): deliver(positioned, of: channel, to: delegate)
        case .ephemeral(let publication, let channel):
            if channel.isWanted { delegate.received(publication, channel: channel.name) }
        case .sent(let result, let tag): delegate.sent(result, tag: tag)
        case .control(let message): message.withUnsafeBytes { delegate.received(control: $0) }
        case .health(let health): delegate.brokerHealth(health)
        }
    }

    /// The live rule of redis-design §4: the next one by epoch, offset and tag is handed on; anything else is a hole, filled or told first.
    private func deliver(_ next: PositionedPublication, of channel: MemoryChannel, to delegate: any BrokerDelegate) {
        guard let live = channel.live else { return }
        if !live.isContinued(by: next.position, previous: next.previous) {
            let before = Position(epoch: next.position.epoch, offset: next.position.offset - 1, tag: next.previous)
            // Queued for an earlier subscription, and part of the place that the present one began at.
            if next.position.offset <= live.offset && channel.judge(live, origin) == nil { return }
            fill(channel, from: live, to: before, delegate)
        }
        channel.live = next.position
        delegate.received(next, channel: channel.name)
    }

    /// Hands out what history has between two places, or says that it can't be had.
    private func fill(_ channel: MemoryChannel, from live: Position, to end: Position, _ delegate: any BrokerDelegate) {
        if let failure = channel.judge(live, origin) {
            return delegate.resync(channel.name, to: end, reason: failure == .trimmed ? .gap : .epochChanged)
        }
        // Copied first: a delegate may call back, and change what's kept.
        let missed = channel.kept(after: live.offset).prefix { channel.history[$0].position.offset <= end.offset }.map {
            channel.history[$0]
        }
        for one in missed { delegate.received(one, channel: channel.name) }
    }

    // Keeping.

    /// One step of the walk for some channels: drops what ran out, and finds the lost tail that no successor reveals. Behind the list it goes
    /// over the quiet ones: one that stands at another origin than the present one has something to be told, like others.
    private func patrol(at now: Instant) {
        guard let steps = walk?.steps(over: list.count + quiet.bound, at: now) else { return }
        if now >= generation.ends { generation = Generation(word: newEpoch(), ends: now + Generation.life) }
        for _ in 0..<steps {
            let places = list.count + quiet.bound
            guard places > 0, let place = walk?.next(of: places) else { return }
            guard place < list.count else {
                if outputs.isEmpty, let (name, word) = quiet.at(place - list.count), word != generation.word, let channel = awoken(name) {
                    tellTail(of: channel)
                }
                continue
            }
            let channel = list[place]
            expire(channel, at: now, idsMax: 256)
            if channel.isForgettable {
                remove(channel)
                walk?.repeatPlace()
            } else {
                tellTail(of: channel)
            }
        }
    }

    /// Where nothing that waits may tell it: what lies between the node's place in the channel and the channel's own.
    private func tellTail(of channel: MemoryChannel) {
        guard outputs.isEmpty, let delegate, let live = channel.live, live != channel.tip(origin) else { return }
        let tip = channel.tip(origin)
        channel.live = tip
        fill(channel, from: live, to: tip, delegate)
    }

    func expire(_ channel: MemoryChannel, at now: Instant, idsMax: Int) {
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
        if let channel = channels[name] ?? awoken(name) { return channel }
        return hasRoom ? begin(name) : nil
    }

    private var hasRoom: Bool { list.count + quiet.count < limits.channels }

    /// One that was only wanted, now that something happens to it.
    private func awoken(_ name: Name) -> MemoryChannel? {
        guard let word = quiet.remove(name) else { return nil }
        let channel = begin(name)
        channel.isWanted = true
        channel.live = .origin(word)
        return channel
    }

    private func begin(_ name: Name) -> MemoryChannel {
        let channel = MemoryChannel(name: name, options: options(of: name), place: list.count)
        channels[name] = channel
        list.append(channel)
        return channel
    }

    /// A channel of a snapshot.
    func add(_ image: ChannelImage, at now: Instant) {
        let channel = MemoryChannel(image, options: options(of: image.name), place: list.count)
        channels[image.name] = channel
        list.append(channel)
        historyBytes += channel.historyBytes
        idCount += channel.idCount
        readCount += channel.readCount
    }

    func newEpoch() -> Mark { chance.mark() }

    private func remove(_ channel: MemoryChannel) {
        channels[channel.name] = nil
        if let last = list.last, last !== channel { willMove(last, to: channel.place) }
        let last = list.removeLast()
        if last !== channel {
            list[channel.place] = last
            last.place = channel.place
        }
    }

    /// The same in every process, since it outlives this one in snapshots. Whoever finds a collision deceives only themselves: the sender is
    /// part of the key.
    private static func digest(of publication: Publication) -> UInt64 {
        publication.payload.withUnsafeBytes { FNV1a.hash($0, seed: 0xCBF2_9CE4_8422_2325 ^ UInt64(publication.contentByte)) }
    }

    /// Revocations are few, and bounded by their own list: a full hub has to be able to shut tokens out.
    private static func isKeptAnyway(_ channel: Name) -> Bool { channel == RevocationKeeper.channel }

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
            channels: list.count + quiet.count, publications: list.reduce(0) { $0 + $1.history.count }, messageIds: idCount,
            readPositions: readCount, bytes: historyBytes)
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
