import HubBase
import HubCore
import HubNet
import HubWire

/// What broker and presence store have in common on one Redis: the links, the keys, the way of replies and messages.
///
/// Everything happens on the thread of one loop, the backplane's; both `advance` of the pair drive it. Its owner keeps it, the broker and
/// the store alive until the loop has stopped.
package final class RedisBackend {
    /// Why a backend can't be made: a URL or a prefix that makes no sense.
    package struct Problem: Error, CustomStringConvertible {
        package let description: String
    }

    let loop: NetLoop
    let encoder: CommandEncoder
    let keys: KeySpace
    let node: Name
    private let incarnation: Name
    // Made in `init` after `self`, and never changed.
    private var linkStorage: RedisLink?
    private var subscriberStorage: RedisSubscriber?
    // Each takes itself out in its `deinit`.
    unowned(unsafe) var broker: RedisBroker?
    unowned(unsafe) var store: RedisPresenceStore?

    private var isStarted = false
    private var stops = 0
    private var lastSlowTurn = Instant(nanoseconds: 0)
    private var linkProblem: String?
    private var subscriberProblem: String?
    private var health: BackendHealth?
    private var probes: [Probe] = []
    private var lastProbe: UInt64 = 0
    /// Messages on our pub/sub channels that weren't ours to read.
    package private(set) var foreignMessages: UInt64 = 0

    private struct Probe {
        var number: UInt64
        var tag: RequestTag
        var deadline: Instant
    }

    /// A probe's way there and back. Longer than a command's deadline: when Redis is silent the link says so first.
    static let probeDeadline: Span = .milliseconds(3500)
    /// How long a subscribe waits for links that are down.
    static let subscribeDeadline: Span = .seconds(3)
    /// Calls that position reads leave to others.
    private static let readHeadroom = RedisLink.callLimit / 2

    /// `incarnation`: 12 random characters, new with each start of the process; `node`: what people call it.
    package init(
        loop: NetLoop, redis: Configuration.Redis, timers: PresenceTimers, namespaces: [String: HistoryOptions], incarnation: Name,
        node: Name, chance: Chance
    ) throws(Problem) {
        var chance = chance
        guard let keys = KeySpace(prefix: redis.prefix) else {
            throw Problem(description: "redis.prefix: 1 to 64 letters, digits, '-', '_', '.' and ':'")
        }
        let url: RedisURL
        do {
            url = try RedisURL(redis.url ?? "redis://127.0.0.1:6379")
        } catch {
            throw Problem(description: error.description)
        }
        self.loop = loop
        self.keys = keys
        self.node = node
        self.incarnation = incarnation
        encoder = CommandEncoder(
            keys: keys, timers: timers, namespaces: namespaces, incarnation: incarnation, chance: Chance(seed: chance.next()))
        let command = RedisConnection<RedisLink>(
            loop: loop, url: url, password: redis.password, name: RedisBackend.clientName(incarnation, "commands"),
            chance: Chance(seed: chance.next()))
        let pubsub = RedisConnection<RedisSubscriber>(
            loop: loop, url: url, password: redis.password, name: RedisBackend.clientName(incarnation, "subscriptions"),
            chance: Chance(seed: chance.next()))
        linkStorage = RedisLink(connection: command, keys: keys, loop: loop, owner: self)
        subscriberStorage = RedisSubscriber(connection: pubsub, loop: loop, seed: chance.next(), owner: self)
        wantOwnChannels()
    }

    /// CLIENT SETNAME takes no spaces and no control characters.
    private static func clientName(_ incarnation: Name, _ role: StaticString) -> [UInt8] {
        var name = [UInt8]("hub-".utf8)
        name += incarnation.bytes.filter { $0 > 32 && $0 < 127 }
        name.append(UInt8(ascii: "-"))
        role.withUTF8Buffer { name.append(contentsOf: $0) }
        return name
    }

    private func wantOwnChannels() {
        _ = subscriber.set.want(keys.probeChannel(incarnation), .probe)
        _ = subscriber.set.want(keys.controlChannel(incarnation), .control)
        for partition in 0..<Partition.count { _ = subscriber.set.want(keys.feedChannel(partition), .feed(partition)) }
    }

    var link: RedisLink {
        guard let linkStorage else { preconditionFailure("made in init") }
        return linkStorage
    }

    var subscriber: RedisSubscriber {
        guard let subscriberStorage else { preconditionFailure("made in init") }
        return subscriberStorage
    }

    // MARK: Life

    func start(at now: Instant) {
        guard !isStarted else { return }
        isStarted = true
        link.start(at: now)
        subscriber.start(at: now)
    }

    /// The links close once all of the pair have stopped.
    func stop() {
        stops += 1
        guard stops == (broker == nil ? 0 : 1) + (store == nil ? 0 : 1) else { return }
        if link.isUp {
            // A word of parting, so that the node isn't listed until its entry ends. Nobody waits for the answer.
            link.send(.announce(facts: [], .none))
            link.flush()
            loop.flushEarly()
        }
        link.stop()
        subscriber.stop()
        failProbes { _ in true }
        isStarted = false
        stops = 0
        health = nil
    }

    func advance(at now: Instant) {
        guard isStarted else { return }
        link.advance(at: now)
        subscriber.advance(at: now)
        readPositions()
        if now.since(lastSlowTurn) >= .milliseconds(100) {
            lastSlowTurn = now
            for (subject, tag) in subscriber.set.takeOverdue(at: now) {
                if case .channel(let channel) = subject { broker?.delegate?.subscribed(channel, .failure(.redisAway), tag: tag) }
            }
            if failProbes({ $0.deadline <= now }), link.isUp {
                subscriber.drop("a message to ourselves didn't come back within \(RedisBackend.probeDeadline)")
            }
        }
        tellHealth()
        link.flush()
    }

    // MARK: Health

    func linkUp() { linkProblem = nil }
    func linkDown(_ reason: String) {
        linkProblem = reason
        failProbes { _ in true }
    }
    func subscriberUp() { subscriberProblem = nil }
    func subscriberDown(_ reason: String) { subscriberProblem = reason }

    private func tellHealth() {
        let current: BackendHealth
        if link.isUp && subscriber.isUp {
            current = .up
        } else if let reason = linkProblem ?? subscriberProblem {
            current = .down(reason)
        } else {
            // The first attempt is under way.
            return
        }
        // A new reason for the same state isn't news.
        switch (health, current) {
        case (.up, .up), (.down, .down): return
        case (nil, _), (.up, _), (.down, _): break
        }
        health = current
        broker?.delegate?.brokerHealth(current)
        store?.delegate?.storeHealth(current)
    }

    // MARK: Probes

    func probe(tag: RequestTag, at now: Instant) -> WireError? {
        if let refusal = link.refusal() { return refusal }
        guard subscriber.isUp else { return .redisAway }
        lastProbe += 1
        probes.append(Probe(number: lastProbe, tag: tag, deadline: now + RedisBackend.probeDeadline))
        link.send(.probe(lastProbe))
        return nil
    }

    private func probeCameBack(_ body: UnsafeRawBufferPointer) {
        guard let number = body.decimal, let place = probes.firstIndex(where: { $0.number == number }) else { return }
        let tag = probes.remove(at: place).tag
        broker?.delegate?.probed(.success(()), tag: tag)
    }

    @discardableResult
    private func failProbes(_ which: (Probe) -> Bool) -> Bool {
        let failed = probes.filter(which)
        probes.removeAll(where: which)
        for probe in failed { broker?.delegate?.probed(.failure(.redisAway), tag: probe.tag) }
        return !failed.isEmpty
    }

    // MARK: Positions

    private func readPositions() {
        while link.refusal(replies: RedisBackend.readHeadroom) == nil, let index = subscriber.set.takeRead() {
            let entry = subscriber.set[index]
            link.send(.position(index: index, generation: entry.generation, entry.subject))
        }
    }

    private func positionRead(_ index: Int, _ generation: UInt32, _ subject: SubscriptionSet.Subject, _ reply: borrowing Reply) {
        // Somebody else's value under our key: as if the channel had none. The next publication says where it really is.
        if Position(meta: reply, at: 0) == nil { foreignMessages += 1 }
        positionRead(index, generation, subject, Position(meta: reply, at: 0) ?? .start)
    }

    private func positionRead(_ index: Int, _ generation: UInt32, _ subject: SubscriptionSet.Subject, _ position: Position) {
        guard let outcome = subscriber.set.read(index, generation, position, pings: subscriber.pings) else { return }
        switch subject {
        case .channel(let channel):
            if let reason = outcome.missed { broker?.delegate?.resync(channel, to: position, reason: reason) }
            answerWaiters(index, channel)
        case .feed(let partition):
            if outcome.missed != nil { store?.delegate?.changed([], partition: partition, gap: true) }
        case .probe, .control: break
        }
    }

    func answerWaiters(_ index: Int, _ channel: Name, before: Position? = nil) {
        guard let position = before ?? subscriber.set[index].chain.position else { return }
        for waiter in subscriber.set.takeWaiters(index) {
            broker?.delegate?.subscribed(channel, .success(position), tag: waiter.tag)
        }
    }

    // MARK: Calls

    func write(_ call: Call, into out: inout ByteBuffer, scripts: ScriptTable) {
        encoder.write(call, into: &out, scripts: scripts)
    }

    func replied(_ call: Call, _ reply: borrowing Reply) {
        switch call {
        case .publish(let call): broker?.published(call, reply)
        case .markRead(let call): broker?.readMoved(call, reply)
        case .apply(let call):
            store?.delegate?.applied(PresenceReplies.versions(reply, count: call.operations.count), tag: call.tag)
        case .refresh(let call):
            store?.delegate?.refreshed(PresenceReplies.indexes(reply, count: call.leases.count), tag: call.tag)
        case .find(let sweep): store?.found(sweep, reply)
        case .expire(let sweep): store?.expired(sweep, reply)
        case .states(let call): store?.stateRead(call, reply)
        case .inspect(let user, let tag): store?.inspected(user, tag, reply)
        case .announce(let facts, let tag):
            guard !facts.isEmpty else { return }
            let nodes = PresenceReplies.nodes(reply)
            store?.delegate?.nodes(nodes.map { .success($0) } ?? .failure(.notOurs), tag: tag)
        case .position(let index, let generation, let subject): positionRead(index, generation, subject, reply)
        case .control(_, _, let tag): broker?.controlSent(reply, tag)
        case .broadcast, .probe, .ping, .setUp: break
        }
    }

    func failed(_ call: Call, _ error: WireError) {
        switch call {
        case .publish(let call): broker?.delegate?.published(.failure(error), tag: call.tag)
        case .markRead(let call): broker?.delegate?.readMoved(.failure(error), tag: call.tag)
        case .apply(let call): store?.delegate?.applied(.failure(error), tag: call.tag)
        case .refresh(let call): store?.delegate?.refreshed(.failure(error), tag: call.tag)
        case .find(let sweep), .expire(let sweep): store?.delegate?.swept(.failure(error), partition: sweep.partition, tag: sweep.tag)
        case .states(let call): store?.delegate?.read(.failure(error), tag: call.tag)
        case .inspect(_, let tag): store?.delegate?.inspected(.failure(error), tag: tag)
        case .announce(let facts, let tag):
            if !facts.isEmpty { store?.delegate?.nodes(.failure(error), tag: tag) }
        case .position(let index, let generation, let subject):
            if error.code == .unavailable {
                subscriber.set.readFailed(index, generation)
            } else {
                foreignMessages += 1
                positionRead(index, generation, subject, .start)
            }
        case .control(_, _, let tag):
            let uncertain = WireError(.uncertain, "the link to Redis was lost before it said whether anybody heard")
            broker?.delegate?.sent(.failure(error.code == .unavailable ? uncertain : error), tag: tag)
        case .broadcast, .probe, .ping, .setUp: break
        }
    }

    // MARK: Messages

    /// A message on one of our pub/sub channels.
    func heard(_ index: Int, _ body: UnsafeRawBufferPointer) {
        let subject = subscriber.set[index].subject
        if subject == .probe { return probeCameBack(body) }
        if subject == .control { return broker?.delegate?.received(control: body) ?? () }
        guard let message = LiveMessage(body) else {
            foreignMessages += 1
            return
        }
        switch (subject, message) {
        case (.channel(let channel), .positioned(let position, let previous, let body)):
            if subscriber.set[index].chain.position == nil {
                // It says itself where the channel was before it.
                answerWaiters(
                    index, channel, before: Position(epoch: position.epoch, offset: position.offset - 1, tag: previous))
            }
            let verdict = subscriber.set.judge(index, position, previous: previous, pongs: subscriber.pongs)
            broker?.heard(position, previous: previous, body, verdict, channel)
        case (.channel(let channel), .ephemeral(let body)): broker?.heard(body, channel)
        case (.feed(let partition), .positioned(let position, let previous, let body)):
            let verdict = subscriber.set.judge(index, position, previous: previous, pongs: subscriber.pongs)
            store?.heard(body, verdict, partition: partition)
        case (.feed, .ephemeral), (.probe, _), (.control, _): foreignMessages += 1
        }
    }
}
