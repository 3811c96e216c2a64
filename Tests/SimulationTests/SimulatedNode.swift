import HubBase
import HubCheck
import HubCore
import HubRedis
import HubWire

/// A node's pure machines, joined as its backplane and one loop join them: what it wants to hear, the holes it fills, whom it brings up to date.
final class SimulatedNode {
    struct Asked {
        var client: Int
        /// The client's connection when it asked.
        var connection: Int
        var channel: Name
        var position: Position?
        /// The client was told that there's more, and asks for it.
        var isContinuation: Bool
    }

    private struct Publishing {
        var publication: Publication
        var channel: Name
        var client: Int
        var connection: Int
        var retryUntil: Instant
    }

    unowned let world: ClusterWorld
    let number: Int
    var wishes: SubscriptionSet
    private var ledger = AckLedger(seed: 1)
    var machine: RecoveryMachine
    let commands: ModelLink
    let pubsub: ModelLink
    private var pings: UInt64 = 0
    private var pongs: UInt64 = 0
    private var pingAt = Instant(nanoseconds: 0)
    private var commandsAgainAt = Instant(nanoseconds: 0)
    private var pubsubAgainAt = Instant(nanoseconds: 0)
    private var publishing: [Publishing] = []
    /// Subscriptions that are known already: answered at the turn's end.
    private var known: [(channel: Name, serial: UInt64)] = []
    private var lastMail = Instant(nanoseconds: 0)
    /// Which server it takes for the primary.
    var server: ModelRedis
    /// The failover that made it one.
    var failover: Int
    var pausedUntil = Instant(nanoseconds: 0)
    var isGone = false
    /// What came while it was paused.
    private var inbox: [() -> Void] = []
    /// What its clients were told is published.
    var acknowledged: [(message: DeliveryChecker.Message, channel: Name)] = []

    // The loop.
    /// Clients, each with its connection.
    private var members: [Name: [Int: Int]] = [:]
    private var asked: [UInt64: Asked] = [:]
    private var lastTag: UInt64 = 0

    init(_ world: ClusterWorld, number: Int, server: ModelRedis, failover: Int) {
        self.world = world
        self.number = number
        self.server = server
        self.failover = failover
        wishes = SubscriptionSet(seed: world.chance.next())
        var limits = RecoveryMachine.Limits()
        limits.recent = 8
        machine = RecoveryMachine(limits: limits)
        commands = ModelLink(world, node: number)
        pubsub = ModelLink(world, node: number)
        commands.whenAwake = { [weak self] in self?.run($0) }
        pubsub.whenAwake = { [weak self] in self?.run($0) }
    }

    // MARK: Turns

    /// Now, or when the node's process is let go on, in order.
    func run(_ body: @escaping () -> Void) {
        guard !isGone else { return }
        if pausedUntil > world.now || !inbox.isEmpty {
            inbox.append(body)
            if inbox.count == 1 { wakeUp() }
        } else {
            body()
        }
    }

    private func wakeUp() {
        world.plan(pausedUntil) { [weak self] in
            guard let self, !self.isGone else { return }
            if self.pausedUntil > self.world.now { return self.wakeUp() }
            let waiting = self.inbox
            self.inbox = []
            for body in waiting { body() }
        }
    }

    func turn() {
        let now = world.now
        openLinks(now)
        if commands.isUp, commands.silence(at: now) > .seconds(3) { cutCommands() }
        if pubsub.isUp {
            if pings > pongs, now.since(pingAt) > .seconds(5) {
                cutPubsub()
            } else if pings == pongs, now.since(pingAt) >= .seconds(5) {
                ping()
            }
        }
        sendSubscriptions(now)
        sendReads(now)
        for (subject, tag) in wishes.takeOverdue(at: now) {
            if case .channel(let channel) = subject { machine.subscribed(channel, .failure(Self.away), serial: tag.low) }
        }
        sendPublications(now)
        machine.tick(at: now)
        carryOut()
    }

    private func openLinks(_ now: Instant) {
        if !commands.isUp, commandsAgainAt <= now, !commands.open(to: server, failover: failover) {
            commandsAgainAt = now + world.backoff()
        }
        if !pubsub.isUp, pubsubAgainAt <= now {
            if pubsub.open(to: server, failover: nil) { ping() } else { pubsubAgainAt = now + world.backoff() }
        }
    }

    func cutCommands() {
        world.trace("node \(number) loses its command link")
        commands.cut()
        wishes.commandsLost()
        ledger.doubt(at: world.now)
        commandsAgainAt = world.now + world.backoff()
    }

    func cutPubsub() {
        guard pubsub.isUp else { return }
        world.trace("node \(number) loses its subscriber link")
        pubsub.cut()
        pongs = pings
        wishes.linkLost()
        pubsubAgainAt = world.now + world.backoff()
    }

    private func ping() {
        pingAt = world.now
        pings += 1
        let number = pings
        pubsub.ask({ _ in () }, answer: { [weak self] in self?.run { self?.ponged(number) } }, lost: {})
    }

    private func ponged(_ number: UInt64) { pongs = max(pongs, number) }

    private func sendSubscriptions(_ now: Instant) {
        guard pubsub.isUp else { return }
        let link = pubsub.number
        let leaving = wishes.takeUnsubscribes(at: now).map { wishes.name($0) }
        for name in leaving {
            pubsub.ask(
                { $0.listeners[link]?.remove(name) }, answer: { [weak self] _ in self?.run { self?.confirmed(name, isGone: true) } },
                lost: {})
        }
        let joining = wishes.takeSubscribes().map { wishes.name($0) }
        for name in joining {
            pubsub.ask(
                { $0.listeners[link, default: []].insert(name) },
                answer: { [weak self] _ in self?.run { self?.confirmed(name, isGone: false) } }, lost: {})
        }
    }

    private func confirmed(_ name: [UInt8], isGone: Bool) {
        guard let index = wishes.find(name) else { return }
        world.trace(
            "node \(number) \(isGone ? "no longer hears" : "hears") \(String(decoding: name, as: UTF8.self)), \(wishes[index].state)")
        if isGone { wishes.unsubscribed(index) } else { wishes.subscribed(index) }
    }

    private func sendReads(_ now: Instant) {
        guard commands.isUp else { return }
        while world.areRenewed, let entry = ledger.take(at: now) { renew(entry) }
        while let index = wishes.takeRead() { readPosition(index) }
        for index in wishes.takeTipChecks(at: now) { readPosition(index) }
        while let (index, position) = wishes.takeFill() {
            let generation = wishes[index].generation
            guard case .channel(let channel) = wishes[index].subject else { continue }
            commands.ask(
                { [world] in $0.page(of: channel, after: position, limit: 16, at: world.now) },
                answer: { [weak self] page in self?.run { self?.filled(index, generation, channel, page) } },
                lost: { [weak self] in self?.run { self?.fillFailed(index, generation, channel) } })
        }
    }

    /// Asks what became of what it acknowledged.
    private func renew(_ entry: AckLedger.Entry) {
        let world = world
        commands.ask(
            { server in
                let verdict = server.renew(entry, at: world.now)
                world.trace("node \(self.number) asks for \(entry.channel) \(entry.position): \(verdict)")
                if case .renewed = verdict { world.tellRenewal(of: entry.channel, from: server) }
                return verdict
            }, answer: { [weak self] verdict in self?.run { self?.ledger.found(verdict, of: entry, at: world.now) } },
            lost: { [weak self] in self?.ledger.failed(entry, isLasting: false, at: world.now) })
    }

    /// The channel has another epoch, a message says.
    func heardOfRenewal(_ name: [UInt8]) {
        if let index = wishes.find(name), commands.isUp, wishes.looks(index) { readPosition(index) }
    }

    private func readPosition(_ index: Int) {
        let generation = wishes[index].generation
        guard case .channel(let channel) = wishes[index].subject else { return }
        commands.ask(
            { [world] in $0.tip(of: channel, at: world.now) },
            answer: { [weak self] tip in self?.run { self?.positionRead(index, generation, channel, tip) } },
            lost: { [weak self] in self?.run { self?.wishes.readFailed(index, generation) } })
    }

    private func positionRead(_ index: Int, _ generation: UInt32, _ channel: Name, _ tip: Position) {
        world.trace(
            "node \(number) reads \(channel) is at \(tip), itself at \(wishes.isCurrent(index, generation) ? wishes[index].feed.position.map { "\($0)" } ?? "-" : "another time")"
        )
        guard wishes.read(index, generation, tip, pings: pings) != nil else { return }
        answerWaiters(index, channel)
    }

    private func answerWaiters(_ index: Int, _ channel: Name, before: Position? = nil) {
        guard let position = before ?? wishes[index].feed.position else { return }
        for waiter in wishes.takeWaiters(index) {
            machine.subscribed(channel, .success(position), serial: waiter.tag.low)
            carryOut()
        }
    }

    private func filled(_ index: Int, _ generation: UInt32, _ channel: Name, _ page: StreamPage) {
        world.trace("node \(number) fills \(channel): \(page.entries.count) up to \(page.tip), \(page.failure.map { "\($0)" } ?? "whole")")
        for told in wishes.filled(index, generation, page, pings: pings) { tell(told, channel) }
    }

    private func fillFailed(_ index: Int, _ generation: UInt32, _ channel: Name) {
        for told in wishes.fillFailed(index, generation, isLasting: false, pings: pings) { tell(told, channel) }
    }

    private func tell(_ told: ChannelFeed.Told, _ channel: Name) {
        switch told {
        case .publication(let publication): received(publication, channel)
        case .resync(let position, let reason): resync(channel, position, reason)
        case .stranger: world.strangers += 1
        }
    }

    /// A message on the subscriber link.
    func heard(_ name: [UInt8], _ channel: Name, _ message: Heard) {
        guard let index = wishes.find(name), let publication = message.publication else { return }
        world.trace(
            "node \(number) hears \(channel) \(message.position) after \(message.previous), \(wishes[index].state), at \(wishes[index].feed.position.map { "\($0)" } ?? "-")"
        )
        if wishes.beginsWithMessage(index) { answerWaiters(index, channel, before: message.before) }
        switch wishes.judge(index, message.position, previous: message.previous, pongs: pongs) {
        case .drop: return
        case .deliver:
            received(PositionedPublication(position: message.position, previous: message.previous, publication: publication), channel)
        case .deliverAfterGap:
            resync(channel, message.before, .epochChanged)
            received(PositionedPublication(position: message.position, previous: message.previous, publication: publication), channel)
        case .hold: wishes.hold(index, message)
        }
    }

    // MARK: The backplane

    private func received(_ publication: PositionedPublication, _ channel: Name) {
        guard let (slot, _) = machine.carried(channel) else { return }
        mail { [weak self] in self?.deliver(publication, channel) }
        machine.delivered(DurableDelivery(channel: channel, publication: publication), at: slot)
        carryOut()
    }

    private func resync(_ channel: Name, _ position: Position, _ reason: ResyncReason) {
        world.trace("node \(number) can't fill \(channel): \(reason), goes on from \(position)")
        guard machine.carried(channel) != nil else { return }
        mail { [weak self] in self?.announce(channel, position, reason) }
        machine.resync(channel, to: position, reason: reason)
        carryOut()
    }

    private func carryOut() {
        while !machine.actions.isEmpty || !known.isEmpty {
            let actions = machine.actions
            machine.actions = []
            for action in actions { carryOut(action) }
            let answers = known
            known = []
            for (channel, serial) in answers {
                guard let index = wishes.find(world.liveName(channel)), let position = wishes[index].feed.position else { continue }
                machine.subscribed(channel, .success(position), serial: serial)
            }
        }
    }

    private func carryOut(_ action: RecoveryMachine.Action) {
        switch action {
        case .subscribe(let channel, let serial):
            let index = wishes.want(world.liveName(channel), .channel(channel))
            if wishes[index].feed.position != nil && wishes[index].state != .unsubscribing {
                known.append((channel, serial))
            } else {
                wishes.wait(index, SubscriptionSet.Waiter(tag: RequestTag(high: 0, low: serial), deadline: world.now + .seconds(3)))
            }
        case .unsubscribe(let channel):
            if let index = wishes.find(world.liveName(channel)) { wishes.unwant(index, at: world.now) }
        case .read(let channel, let query, let key):
            guard case .position(let position)? = query.after else { preconditionFailure("recoveries read from a position") }
            commands.ask(
                { [world] in $0.page(of: channel, after: position, limit: query.limit, at: world.now) },
                answer: { [weak self] page in
                    self?.run {
                        self?.machine.historyRead(.success(Self.historyPage(page)), key: key)
                        self?.carryOut()
                    }
                },
                lost: { [weak self] in
                    self?.run {
                        self?.machine.historyRead(.failure(Self.away), key: key)
                        self?.carryOut()
                    }
                })
        case .readMarks: preconditionFailure("nobody asked for read marks")
        case .answer(let result, _, let tag): mail { [weak self] in self?.answered(tag, result) }
        }
    }

    private static func historyPage(_ page: StreamPage) -> HistoryPage {
        HistoryPage(
            publications: page.entries.compactMap { heard in
                heard.publication.map { PositionedPublication(position: heard.position, previous: heard.previous, publication: $0) }
            }, tip: page.tip, hasMore: page.hasMore, continuity: page.failure.map { .broken($0) } ?? .whole)
    }

    static let away = WireError(.unavailable, "Redis is away", retryAfter: 1_000)

    // MARK: Publications

    func publish(_ publication: Publication, to channel: Name, client: Int, connection: Int) {
        publishing.append(
            Publishing(
                publication: publication, channel: channel, client: client, connection: connection, retryUntil: world.now + .seconds(30)))
        sendPublications(world.now)
    }

    private func sendPublications(_ now: Instant) {
        let due = publishing
        publishing = []
        for call in due {
            if call.retryUntil <= now {
                answerPublish(call, nil)
            } else if commands.isUp {
                send(call)
            } else {
                publishing.append(call)
            }
        }
    }

    private func send(_ call: Publishing) {
        let world = world
        commands.ask(
            { server in
                let (result, heard) = server.publish(call.publication, to: call.channel, at: world.now, &world.chance)
                world.trace("Redis has \(call.publication.user)'s \(call.publication.messageId) in \(call.channel): \(result)")
                if let heard { world.handOut(heard, of: call.channel, from: server) }
                return result
            }, answer: { [weak self] result in self?.run { self?.published(call, result) } },
            // The same id again: it's published once.
            lost: { [weak self] in self?.run { self?.publishing.append(call) } })
    }

    private func published(_ call: Publishing, _ answer: ModelRedis.Answer) {
        guard case .published(let result) = answer else {
            return mail { [weak self] in
                self?.world.uncertain(call.publication, call.channel, client: call.client, connection: call.connection)
            }
        }
        ledger.note(
            AckLedger.Entry(
                channel: call.channel, position: result.position, at: world.now,
                message: AckLedger.Entry.Message(user: call.publication.user, id: call.publication.messageId)))
        if let index = wishes.find(world.liveName(call.channel)) { wishes.acknowledged(index, at: result.position) }
        answerPublish(call, result)
    }

    private func answerPublish(_ call: Publishing, _ result: PublishResult?) {
        mail { [weak self] in
            guard let self else { return }
            self.world.published(call.publication, call.channel, result, client: call.client, connection: call.connection)
        }
    }

    // MARK: The loop

    /// What a loop gets, in order.
    private func mail(_ body: @escaping () -> Void) {
        lastMail = max(lastMail, world.now + world.mailDelay())
        world.plan(lastMail) { [weak self] in self?.run(body) }
    }

    func join(_ items: [Asked]) {
        var batch: [JoinBatch.Item] = []
        for item in items {
            lastTag += 1
            asked[lastTag] = item
            batch.append(JoinBatch.Item(channel: item.channel, position: item.position, tag: lastTag))
        }
        machine.join(JoinBatch(loop: 0, items: batch, user: .empty, wantsMarks: false, limit: 10, bytes: 1 << 20), at: world.now)
        carryOut()
    }

    private func answered(_ tag: UInt64, _ result: Result<JoinAnswer, WireError>) {
        guard let item = asked.removeValue(forKey: tag) else { return }
        defer { dropIfEmpty(item.channel) }
        guard world.clients[item.client].isOn(item.connection) else { return }
        switch result {
        case .failure: world.refusedJoin(item)
        case .success(let answer):
            if !answer.hasMore { members[item.channel, default: [:]][item.client] = item.connection }
            world.joined(item, answer)
        }
    }

    func leave(_ client: Int, connection: Int) {
        for channel in members.keys.sorted(by: { $0.bytes.lexicographicallyPrecedes($1.bytes) })
        where members[channel]?[client] == connection {
            members[channel]?[client] = nil
            dropIfEmpty(channel)
        }
    }

    /// What's written for a connection that has gone reaches nobody.
    private func present(_ channel: Name) -> [Int] {
        members[channel, default: [:]].filter { world.clients[$0.key].isOn($0.value) }.keys.sorted()
    }

    private func dropIfEmpty(_ channel: Name) {
        guard members[channel, default: [:]].isEmpty, !asked.values.contains(where: { $0.channel == channel }) else { return }
        machine.drop(channel, loop: 0)
        carryOut()
    }

    private func deliver(_ publication: PositionedPublication, _ channel: Name) {
        for client in present(channel) { world.delivered(publication, channel, to: client) }
    }

    private func announce(_ channel: Name, _ position: Position, _ reason: ResyncReason) {
        for client in present(channel) { world.announced(channel, position, reason, to: client) }
    }

    /// Everybody who waits for an answer or a subscription here.
    var waiting: Int { asked.count + machine.waitingCount + publishing.count }
    var isWhole: Bool { wishes.isReady && commands.isUp && pubsub.isUp }
}
