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
    let incarnation: Name
    let feeds: Configuration.PresenceFeeds
    private let plan: RedisPlan
    private var chance: Chance
    // Made in `init` after `self`, and never changed.
    private var mastersStorage: Masters?
    private var linkStorage: CommandLinks?
    private var subscriberStorage: SubscriberLinks?
    private var topology = Topology.fixed
    // Each takes itself out in its `deinit`.
    unowned(unsafe) var broker: RedisBroker?
    unowned(unsafe) var store: RedisPresenceStore?
    unowned(unsafe) var rates: RedisRateStore?
    unowned(unsafe) var hookQueue: RedisHookQueue?
    unowned(unsafe) var members: RedisMemberStore?

    /// Who says where the masters are.
    private enum Topology {
        case fixed
        case sentinel(SentinelWatch)
        case cluster(ClusterWatch)
    }

    private var isStarted = false
    private var stops = 0
    private var lastSlowTurn = Instant(nanoseconds: 0)
    private(set) var health: BackendHealth?
    private var outageTold: String?
    var probes = Probes()
    var strangers = Strangers()
    var reads = HistoryReads()
    var ledger: AckLedger
    var readLedger = ReadLedger()
    /// Messages on our pub/sub channels that weren't ours to read.
    package internal(set) var foreignMessages: UInt64 = 0

    /// A probe's way there and back. Longer than a command link's patience: when Redis is silent that says so first.
    static let probeDeadline: Span = .milliseconds(3500)
    /// How long a subscribe waits for links that are down.
    static let subscribeDeadline: Span = .seconds(3)
    /// Calls that reads which nobody waits for leave to others.
    static let readHeadroom = RedisLink.callLimit / 2

    /// `incarnation`: 12 random characters, new with each start of the process; `node`: what people call it. `tipCheck`: how long a lost last
    /// message may go unnoticed.
    package init(
        loop: NetLoop, redis: Configuration.Redis, timers: PresenceTimers, namespaces: [String: HistoryOptions], incarnation: Name,
        node: Name, feeds: Configuration.PresenceFeeds = .partitions, chance: Chance, tipCheck: Span = SubscriptionSet.tipCheck
    ) throws(Problem) {
        guard let keys = KeySpace(prefix: redis.prefix) else {
            throw Problem(description: "redis.prefix: 1 to 64 letters, digits, '-', '_', '.' and ':'")
        }
        do throws(RedisPlan.Problem) { plan = try RedisPlan(redis) } catch { throw Problem(description: error.description) }
        self.loop = loop
        self.keys = keys
        self.node = node
        self.incarnation = incarnation
        self.feeds = feeds
        var chance = chance
        encoder = CommandEncoder(
            keys: keys, timers: timers, namespaces: namespaces, incarnation: incarnation, node: node,
            isSharded: plan.isCluster, chance: Chance(seed: chance.next()))
        ledger = AckLedger(seed: chance.next())
        self.chance = chance
        let masters = Masters(loop: loop, isCluster: plan.isCluster, backend: self)
        mastersStorage = masters
        linkStorage = CommandLinks(loop: loop, keys: keys, masters: masters, backend: self)
        subscriberStorage = SubscriberLinks(
            seed: self.chance.next(), tipCheck: tipCheck, slots: keys.slots, isSharded: plan.isCluster, backend: self)
        if feeds == .partitions {
            for partition in 0..<Partition.count { _ = subscriber.set.want(keys.feedChannel(partition), .feed(partition)) }
        }
        _ = subscriber.set.want(keys.controlChannel(incarnation), .control(Partition.of(incarnation)))
        switch plan.servers {
        case .single(let place): masters.setOnly(place)
        case .sentinel(let places, let name):
            masters.setOnly(nil)
            topology = .sentinel(
                SentinelWatch(places, name: name, loop: loop, chance: Chance(seed: self.chance.next()), backend: self) { [plan] in
                    plan.sentinelAccess(RedisBackend.clientName(incarnation, $0))
                })
        case .cluster(let places):
            let access = plan.access(RedisBackend.clientName(incarnation, "topology"))
            topology = .cluster(ClusterWatch(places, access: access, loop: loop, chance: Chance(seed: self.chance.next()), backend: self))
        }
        lanesMoved()
    }

    /// CLIENT SETNAME takes no spaces and no control characters.
    private static func clientName(_ incarnation: Name, _ role: StaticString) -> [UInt8] {
        var name = [UInt8]("hub-".utf8)
        name += incarnation.bytes.filter { $0 > 32 && $0 < 127 }
        name.append(UInt8(ascii: "-"))
        role.withUTF8Buffer { name.append(contentsOf: $0) }
        return name
    }

    /// The two links to one master.
    func makeLinks(_ place: RedisURL.Place?) -> (RedisLink, RedisSubscriber) {
        let command = RedisConnection<RedisLink>(
            loop: loop, place: place, access: plan.access(RedisBackend.clientName(incarnation, "commands")),
            chance: Chance(seed: chance.next()))
        let pubsub = RedisConnection<RedisSubscriber>(
            loop: loop, place: place, access: plan.access(RedisBackend.clientName(incarnation, "subscriptions")),
            chance: Chance(seed: chance.next()))
        return (
            RedisLink(connection: command, keys: keys, loop: loop, isSharded: plan.isCluster, owner: link),
            RedisSubscriber(connection: pubsub, loop: loop, owner: subscriber)
        )
    }

    var masters: Masters {
        guard let mastersStorage else { preconditionFailure("made in init") }
        return mastersStorage
    }

    var link: CommandLinks {
        guard let linkStorage else { preconditionFailure("made in init") }
        return linkStorage
    }

    var subscriber: SubscriberLinks {
        guard let subscriberStorage else { preconditionFailure("made in init") }
        return subscriberStorage
    }

    // MARK: Life

    func start(at now: Instant) {
        guard !isStarted else { return }
        isStarted = true
        masters.start(at: now)
        switch topology {
        case .fixed: break
        case .sentinel(let watch): watch.start(at: now)
        case .cluster(let watch): watch.start(at: now)
        }
    }

    /// The links close once all of the pair have stopped.
    func stop() {
        stops += 1
        guard stops == (broker == nil ? 0 : 1) + (store == nil ? 0 : 1) + (members == nil ? 0 : 1) else { return }
        if link.refusal() == nil {
            // A word of parting, so that the node isn't listed until its entry ends. Nobody waits for the answer.
            link.send(.announce(facts: [], .none))
            masters.flush()
            loop.flushEarly()
        }
        switch topology {
        case .fixed: break
        case .sentinel(let watch): watch.stop()
        case .cluster(let watch): watch.stop()
        }
        masters.stop()
        link.stop()
        tellProbes(probes.failAll())
        isStarted = false
        stops = 0
        health = nil
    }

    func advance(at now: Instant) {
        guard isStarted else { return }
        switch topology {
        case .fixed: break
        case .sentinel(let watch): watch.advance(at: now)
        case .cluster(let watch): watch.advance(at: now)
        }
        masters.advance(at: now)
        link.advance(at: now)
        renew(at: now)
        moveAgain(at: now)
        readPositions()
        members?.sendWaiting()
        checkTips(at: now)
        sendReads(at: now)
        if now.since(lastSlowTurn) >= .milliseconds(100) {
            lastSlowTurn = now
            for (subject, tag) in subscriber.set.takeOverdue(at: now) {
                if case .channel(let channel) = subject { broker?.delegate?.subscribed(channel, .failure(.redisAway), tag: tag) }
            }
            for master in probes.silent(at: now) {
                guard let master = masters.all.first(where: { $0.number == master }), master.link.isUp else { continue }
                master.subscriber.suspect("a message to ourselves didn't come back within \(RedisBackend.probeDeadline)")
            }
            tellProbes(probes.failOverdue(at: now))
        }
        tellHealth(at: now)
        masters.flush()
    }

    // MARK: Who has what

    /// The sentinels name another master.
    func masterMoved(to place: RedisURL.Place, because reason: String) { masters.moveOnly(to: place, because: reason) }

    /// As the sentinels number it; nil without them.
    var failover: UInt64? { if case .sentinel(let watch) = topology { watch.failover } else { nil } }

    /// What is known of who has what may be out of date.
    func topologyIsOld() {
        switch topology {
        case .fixed: break
        case .sentinel(let watch): watch.askSoon()
        case .cluster(let watch): watch.askSoon()
        }
    }

    /// Each master is to carry a message to ourselves: in a cluster by one of its own partitions.
    func lanesMoved() {
        for master in masters.all {
            guard let partition = masters.isCluster ? master.lanes.first : Partition.of(incarnation), partition < Partition.count else {
                continue
            }
            _ = subscriber.set.want(keys.probeChannel(incarnation, partition), .probe(partition))
        }
    }

    func linkDown(_ link: RedisLink) {
        topologyIsOld()
        // Why the link is lost says more than that a probe is.
        tellHealth(at: loop.now)
        if let master = masters.all.first(where: { $0.link === link }) {
            tellProbes(probes.fail(of: master.number))
            doubt(in: masters.isCluster ? master.lanes : .all)
        }
    }

    // MARK: Health

    private func tellHealth(at now: Instant) {
        let current: BackendHealth
        if let problem = problem(at: now) {
            // The first attempt is under way.
            guard !problem.isEmpty else { return }
            current = .down(problem)
        } else {
            current = .up
        }
        switch (health, current) {
        case (.up, .up): return
        case (.down, .down):
            // Only for those who are told why: an operator who changed something during an outage looks there. What differs in the log's words
            // alone (refused, timed out) isn't news.
            guard outage != outageTold else { return }
            outageTold = outage
            broker?.delegate?.brokerHealth(current)
            return
        case (nil, _), (.up, _), (.down, _): break
        }
        health = current
        outageTold = outage
        broker?.delegate?.brokerHealth(current)
        store?.delegate?.storeHealth(current)
        members?.delegate?.memberStoreHealth(current)
    }

    /// What everybody may be told of why the links are down.
    var outage: String? {
        masters.outage ?? problem(at: loop.now).flatMap { RedisFault.kind(of: $0) }.map { "the link to Redis is down: \($0)" }
    }

    private func problem(at now: Instant) -> String? {
        guard let problem = masters.problem(wasUp: health == .up, at: now) else { return nil }
        switch topology {
        case .fixed: return problem
        case .sentinel(let watch): return problem.isEmpty ? watch.problem ?? "" : problem
        case .cluster(let watch): return problem.isEmpty ? watch.problem ?? "" : problem
        }
    }

    func followed(_ user: Name) { store?.delegate?.followed([user]) }

    // MARK: Positions

    private func readPositions() {
        for master in masters.all where master.link.isUp {
            let lanes = link.openLanes(of: master)
            while master.link.hasRoom(for: .positions), let index = subscriber.set.takeRead(in: lanes) {
                let generation = subscriber.set.generation(of: index)
                link.send(.position(index: index, generation: generation, subscriber.set.subject(of: index)))
            }
        }
    }

    private func positionRead(_ index: Int, _ generation: UInt32, _ subject: SubscriptionSet.Subject, _ reply: borrowing Reply) {
        guard let position = Position(meta: reply, at: 0) else {
            let call = Call.position(index: index, generation: generation, subject)
            foreignMessages += 1
            foreign(call, "the meta key")
            return positionUnreadable(index, generation, subject, call.foreignKey)
        }
        if position == .start, case .channel(let channel) = subject {
            // No record: where it stands instead takes a script. Seldom, so a second way rather than a script for every channel.
            guard subscriber.set.isCurrent(index, generation) else { return }
            return link.send(.tip(index: index, generation: generation, channel))
        }
        positionRead(index, generation, subject, position)
    }

    private func positionRead(_ index: Int, _ generation: UInt32, _ subject: SubscriptionSet.Subject, _ position: Position) {
        guard let outcome = subscriber.set.read(index, generation, position, pings: subscriber.pings) else {
            // It was live and has been looked at again, for somebody who came when its place wasn't known for sure.
            if case .channel(let channel) = subject, subscriber.set.isLive(index, generation) { answerWaiters(index, channel) }
            return
        }
        switch subject {
        case .channel(let channel):
            // A channel that isn't where it was has begun to fill the hole.
            answerWaiters(index, channel)
        case .feed(let partition):
            if outcome.missed != nil { store?.delegate?.changed([], partition: partition, gap: true) }
        case .probe, .control, .user: break
        }
    }

    private func positionFailed(_ index: Int, _ generation: UInt32, _ subject: SubscriptionSet.Subject, _ error: WireError) {
        guard error.code == .unavailable || error.code == .overloaded else {
            foreignMessages += 1
            return positionUnreadable(index, generation, subject, error)
        }
        subscriber.set.readFailed(index, generation)
        if case .channel(let channel) = subject, subscriber.set.isLive(index, generation) { failWaiters(index, channel, error) }
    }

    /// Somebody else's value stands where the position should. Nobody is told of a place in such a channel; who was told of one already hears
    /// that nothing before the next publication can be bridged. A feed does without.
    private func positionUnreadable(_ index: Int, _ generation: UInt32, _ subject: SubscriptionSet.Subject, _ error: WireError) {
        guard case .channel(let channel) = subject else { return positionRead(index, generation, subject, .start) }
        guard subscriber.set.isCurrent(index, generation) else { return }
        let isUntold = subscriber.set.refuse(index, at: loop.now)
        guard isUntold || subscriber.set[index].state != .unsubscribing else { return }
        failWaiters(index, channel, error)
        if !isUntold { positionRead(index, generation, subject, .start) }
    }

    private func failWaiters(_ index: Int, _ channel: Name, _ error: WireError) {
        for waiter in subscriber.set.takeWaiters(index) { broker?.delegate?.subscribed(channel, .failure(error), tag: waiter.tag) }
    }

    func answerWaiters(_ index: Int, _ channel: Name, before: Position? = nil) {
        guard let position = before ?? subscriber.set.position(of: index) else { return }
        for waiter in subscriber.set.takeWaiters(index) {
            broker?.delegate?.subscribed(channel, .success(position), tag: waiter.tag)
        }
    }

    // MARK: Calls

    func write(_ call: Call, into out: inout ByteBuffer, scripts: ScriptTable) {
        encoder.write(call, into: &out, scripts: scripts, at: loop.now)
    }

    func replied(_ call: Call, _ reply: borrowing Reply) {
        switch call {
        case .publish(let call): broker?.published(call, reply)
        case .markRead(let call): readMoved(call, reply)
        case .history(let call): historyRead(call, reply)
        case .marks(let call): marksRead(call, reply)
        case .renew(let entry): renewed(entry, reply)
        case .apply(let call):
            applied(call, reply)
        case .refresh(let call):
            store?.delegate?.refreshed(PresenceReplies.indexes(reply, count: call.renewal.leases.count), tag: call.tag)
        case .find(let sweep): store?.found(sweep, reply)
        case .expire(let sweep): store?.expired(sweep, reply)
        case .states(let call): store?.stateRead(call, reply)
        case .inspect(let user, let explains, let tag): store?.inspected(user, explains: explains, tag, reply)
        case .examine(let call, let user): store?.examined(call, user, isOurs: true)
        case .settle(let report, let tag): rates?.settled(report, reply, tag)
        case .announce(let facts, let tag):
            guard !facts.isEmpty else { return }
            let nodes = PresenceReplies.nodes(reply)
            store?.announced(nodes, time: PresenceReplies.announceTime(reply), at: loop.now)
            store?.delegate?.nodes(nodes.map { .success($0) } ?? .failure(.notOurs), tag: tag)
        case .hooks(let call): hookQueue?.replied(call, reply)
        case .position(let index, let generation, let subject): positionRead(index, generation, subject, reply)
        case .tip(let index, let generation, let channel):
            guard let position = Position(meta: reply, at: 0) else {
                foreignMessages += 1
                return positionUnreadable(index, generation, .channel(channel), .notOurs)
            }
            positionRead(index, generation, .channel(channel), position)
        case .control(_, _, let tag): broker?.controlSent(reply, tag)
        case .trial(let number, _): probeTried(number, isFull: false)
        case .strangers(let call): strangersFound(call, reply)
        case .members(let call): members?.replied(call, reply)
        case .memberFind(let sweep): members?.found(sweep, reply)
        case .probe(let number, _): probes.published(number)
        case .broadcast, .ping, .setUp: break
        }
    }

    func failed(_ call: Call, _ error: WireError) {
        switch call {
        case .publish(let call): broker?.delegate?.published(.failure(error), tag: call.tag)
        case .markRead(let call): readFailed(call, error)
        case .history(let call): historyFailed(call, error)
        case .marks(let call): broker?.delegate?.readMarks(call.channel, .failure(error), tag: call.tag)
        case .renew(let entry): renewalFailed(entry, error)
        case .apply(let call): store?.delegate?.applied(.failure(error), tag: call.tag)
        case .refresh(let call): store?.delegate?.refreshed(.failure(error), tag: call.tag)
        case .find(let sweep), .expire(let sweep): store?.delegate?.swept(.failure(error), partition: sweep.partition, tag: sweep.tag)
        case .states(let call):
            call.failure = error
            store?.statesEnded(call)
        case .inspect(_, _, let tag): store?.delegate?.inspected(.failure(error), tag: tag)
        case .examine(let call, let user): store?.examined(call, user, isOurs: false)
        case .settle(_, let tag): rates?.delegate?.settled(.failure(error), tag: tag)
        case .announce(let facts, let tag):
            if !facts.isEmpty { store?.delegate?.nodes(.failure(error), tag: tag) }
        case .hooks(let call): hookQueue?.failed(call, error)
        case .tip(let index, let generation, let channel): positionFailed(index, generation, .channel(channel), error)
        case .position(let index, let generation, let subject): positionFailed(index, generation, subject, error)
        case .control(_, _, let tag):
            let uncertain = WireError(.uncertain, "the link to Redis was lost before it said whether anybody heard")
            broker?.delegate?.sent(.failure(error.code == .unavailable ? uncertain : error), tag: tag)
        case .trial(let number, _): if error.code != .unavailable { probeTried(number, isFull: error.code == .storeFull) }
        case .strangers: strangers.ended()
        case .members(let call): members?.failed(call, error)
        case .memberFind(let sweep): members?.failed(sweep, error)
        case .broadcast, .probe, .ping, .setUp: break
        }
    }

    private func applied(_ call: ApplyCall, _ reply: borrowing Reply) {
        let foreignKey = Call.apply(call).foreignKey
        let versions = PresenceReplies.versions(reply, count: call.operations.count, foreign: foreignKey)
        if case .failure(foreignKey) = versions {
            for place in PresenceReplies.foreign(reply) where place < call.operations.count { tellForeign(.apply(call), user: place) }
        }
        store?.delegate?.applied(versions, tag: call.tag)
    }

    // MARK: Messages

    /// A message on one of our pub/sub channels.
    func heard(_ index: Int, _ body: UnsafeRawBufferPointer, pongs: UInt64) {
        let subject = subscriber.set.subject(of: index)
        if case .probe = subject { return probeCameBack(body) }
        if case .user(let user) = subject {
            if store?.heard(body, of: user) != true { foreignMessages += 1 }
            return
        }
        if case .control = subject { return broker?.delegate?.received(control: body) ?? () }
        guard let message = LiveMessage(body) else {
            foreignMessages += 1
            return
        }
        switch (subject, message) {
        case (.channel(let channel), .positioned(let position, let previous, let body)):
            if subscriber.set.beginsWithMessage(index) {
                // It says itself where the channel was before it.
                answerWaiters(
                    index, channel, before: Position(epoch: position.epoch, offset: position.offset - 1, tag: previous))
            }
            switch subscriber.set.judge(index, position, previous: previous, pongs: pongs) {
            case .drop: break
            case .deliver: broker?.heard(position, previous: previous, body, channel)
            case .deliverAfterGap:
                broker?.tell([.resync(Position(epoch: position.epoch, offset: position.offset - 1, tag: previous), .epochChanged)], channel)
                broker?.heard(position, previous: previous, body, channel)
            case .hold:
                let heard = Heard(position: position, previous: previous, publication: PublicationCodec.decode(body))
                subscriber.set.hold(index, heard)
            }
        case (.channel(let channel), .ephemeral(let body)): broker?.heard(body, channel, epoch: subscriber.set.position(of: index)?.epoch)
        case (.channel, .renewed): heardOfRenewal(index)
        case (.channel(let channel), .members(let news)): members?.delegate?.heard(news, channel: channel)
        case (.feed(let partition), .positioned(let position, let previous, let body)):
            let verdict = subscriber.set.judgeFeed(index, position, previous: previous, pongs: pongs)
            store?.heard(body, verdict, partition: partition)
        case (.feed, .ephemeral), (.feed, .members), (.feed, .renewed), (.probe, _), (.control, _), (.user, _): foreignMessages += 1
        }
    }
}
