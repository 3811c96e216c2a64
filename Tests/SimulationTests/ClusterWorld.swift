import Foundation
import HubBase
import HubCheck
import HubCore
import HubRedis
import HubWire

/// Nodes, a Redis with a replica, and clients that publish, follow channels and wander between the nodes, under virtual time: everything from
/// one seed. What clients see goes to the checker that also judges journals of real runs.
final class ClusterWorld {
    struct Client {
        let name: Name
        let channels: [Name]
        var node: Int?
        var connection = 0
        var positions: [Name: Position] = [:]
        var sequence = 0
        /// Published, and not acknowledged: sent again with the same id.
        var owed: [(publication: Publication, channel: Name)] = []

        func isOn(_ connection: Int) -> Bool { node != nil && self.connection == connection }
    }

    private var timeline = Timeline(at: Instant(nanoseconds: 1_000_000_000))
    var chance: Chance
    var nodes: [SimulatedNode] = []
    var clients: [Client] = []
    private(set) var primary: ModelRedis
    /// What a failover would find: written behind the primary's back.
    private var replica = ModelRedis.Data()
    private var checker = DeliveryChecker()
    private var failovers = 0
    private var takeovers = 0
    /// What was acknowledged may be gone.
    private var losesData = false
    /// Since when each node has been away from Redis or standing still, until it has been well for the grace; and when it was so last.
    private var unwellSince: [Instant?]
    private var unwellAt: [Instant]
    /// Whether nodes look at what they acknowledged; without it the checker must find what's lost.
    let areRenewed: Bool
    private let seed: UInt64
    private var isolatedUntil: [Instant]
    /// Messages that nodes took for somebody else's.
    var strangers = 0
    private var lastLink = 0
    private var lastConnection = 0
    private var slowest: Span = .milliseconds(2)
    private let historyMax: Int
    let channels: [Name]

    var now: Instant { timeline.now }

    init(seed: UInt64, nodes: Int = 3, clients: Int = 10, channels: Int = 3, generationsLast: Bool = false, areRenewed: Bool = true) {
        self.seed = seed
        self.areRenewed = areRenewed
        chance = Chance(seed: seed)
        historyMax = [8, 40, 200][Int(chance.next() % 3)]
        primary = ModelRedis(historyMax: historyMax, seed: seed, generationsLast: generationsLast)
        unwellSince = [Instant?](repeating: nil, count: nodes)
        unwellAt = [Instant](repeating: Instant(nanoseconds: 0), count: nodes)
        isolatedUntil = [Instant](repeating: Instant(nanoseconds: 0), count: nodes)
        self.channels = (0..<channels).map { Name(trusted: [UInt8]("room:\($0)".utf8)) }
        for number in 0..<nodes { self.nodes.append(SimulatedNode(self, number: number, server: primary, failover: 0)) }
        for number in 0..<clients {
            var followed = self.channels.filter { _ in chance.next() % 3 > 0 }
            if followed.isEmpty { followed = [self.channels[0]] }
            self.clients.append(Client(name: Name(trusted: [UInt8]("user-\(number)".utf8)), channels: followed))
        }
        tick()
    }

    private func tick() {
        checker.pass(to: now)
        // As a hub tells its clients that it's degraded: what the others publish may come later, or be announced as missing. And where data may have
        // been taken back, only the node that was acknowledged them can say so.
        let unwell = nodes.map { $0.pausedUntil > now || !$0.isWhole }
        for node in unwell.indices {
            if unwell[node] {
                unwellSince[node] = unwellSince[node] ?? now
                unwellAt[node] = now
            } else if now.since(unwellAt[node]) > DeliveryChecker.grace {
                unwellSince[node] = nil
            }
        }
        for (number, client) in clients.enumerated() {
            guard let node = client.node else { continue }
            if unwell[node] || (losesData && unwell.contains(true)) { checker.degraded(number) } else { checker.restored(number) }
        }
        for node in nodes { node.run { node.turn() } }
        plan(now + .milliseconds(50)) { [weak self] in self?.tick() }
    }

    func pass(_ span: Span) {
        let end = now + span
        while let body = timeline.next(until: end) { body() }
    }

    func plan(_ at: Instant, _ body: @escaping () -> Void) { timeline.plan(at, body) }

    /// Prints what happens, for a seed that is looked into (HUB_TRACE=1).
    func trace(_ text: @autoclosure () -> String) {
        if ClusterWorld.traces { print("\(Double(now.nanoseconds / 1_000) / 1_000_000) \(text())") }
    }
    private static let traces = ProcessInfo.processInfo.environment["HUB_TRACE"] != nil

    // MARK: The network

    func latency() -> Span { chance.span(in: .microseconds(100)..<slowest) }
    func mailDelay() -> Span { chance.span(in: .microseconds(1)..<(.milliseconds(chance.next() % 50 == 0 ? 40 : 2))) }
    func backoff() -> Span { chance.span(in: .milliseconds(50)..<(.milliseconds(800))) }
    func reachable(_ node: Int) -> Instant { isolatedUntil[node] }
    func canReach(_ node: Int) -> Bool { isolatedUntil[node] <= now }
    func liveName(_ channel: Name) -> [UInt8] { [UInt8]("hub:c:".utf8) + channel.bytes }

    func makeLinkNumber() -> Int {
        lastLink += 1
        return lastLink
    }

    /// In the order of arrival, also when the server is frozen meanwhile.
    func arrive(at server: ModelRedis, after time: Instant, _ body: @escaping () -> Void) {
        plan(time) { [weak self] in
            guard let self else { return }
            if server.frozenUntil > self.now || !server.inbox.isEmpty {
                server.inbox.append(body)
                if server.inbox.count == 1 { self.thaw(server) }
            } else {
                body()
            }
        }
    }

    private func thaw(_ server: ModelRedis) {
        plan(server.frozenUntil) { [weak self] in
            guard let self else { return }
            if server.frozenUntil > self.now { return self.thaw(server) }
            let waiting = server.inbox
            server.inbox = []
            for body in waiting { body() }
        }
    }

    /// PUBLISH: to every link that listens right now.
    func handOut(_ heard: Heard, of channel: Name, from server: ModelRedis) {
        let name = liveName(channel)
        for node in nodes where node.pubsub.server === server && server.listeners[node.pubsub.number]?.contains(name) == true {
            let link = node.pubsub.number
            node.pubsub.return(link) {
                node.run { if node.pubsub.isUp, node.pubsub.number == link { node.heard(name, channel, heard) } }
            }
        }
    }

    func tellRenewal(of channel: Name, from server: ModelRedis) {
        let name = liveName(channel)
        for node in nodes where node.pubsub.server === server && server.listeners[node.pubsub.number]?.contains(name) == true {
            let link = node.pubsub.number
            node.pubsub.return(link) { node.run { if node.pubsub.isUp, node.pubsub.number == link { node.heardOfRenewal(name) } } }
        }
    }

    // MARK: Clients

    func connect(_ number: Int) {
        guard clients[number].node == nil else { return }
        let node = Int(chance.next() % UInt64(nodes.count))
        lastConnection += 1
        clients[number].node = node
        clients[number].connection = lastConnection
        let client = clients[number]
        // Some begin anew now and then.
        let forgets = chance.next() % 20 == 0
        nodes[node].run { [self] in
            guard clients[number].isOn(client.connection) else { return }
            nodes[node].join(
                client.channels.map { channel in
                    SimulatedNode.Asked(
                        client: number, connection: client.connection, channel: channel,
                        position: forgets ? nil : client.positions[channel],
                        isContinuation: false)
                })
        }
        resend(number)
    }

    func disconnect(_ number: Int) {
        guard let node = clients[number].node else { return }
        trace("\(clients[number].name) leaves node \(node)")
        // Who came to such a node is served from what it remembers: what has been acknowledged elsewhere since isn't owed there.
        checker.ended(number, heard: unwellSince[node])
        clients[number].node = nil
        let running = nodes[node]
        let connection = clients[number].connection
        running.run { running.leave(number, connection: connection) }
    }

    func joined(_ item: SimulatedNode.Asked, _ answer: JoinAnswer) {
        let page = answer.publications.map { entry in
            (message: DeliveryChecker.Message(user: entry.publication.user, id: entry.publication.messageId), position: entry.position)
        }
        trace(
            "\(clients[item.client].name) joined \(item.channel) from \(item.position.map { "\($0)" } ?? "nowhere") at \(answer.position), "
                + "recovered \(answer.recovered.map { "\($0)" } ?? "-"), \(answer.publications.count) missed, more \(answer.hasMore)")
        // A continuation that can't be proved is as a new subscription that wasn't recovered.
        if item.isContinuation && answer.recovered == true {
            checker.continued(item.channel, page: page, at: answer.position, hasMore: answer.hasMore, by: item.client)
        } else {
            if let reason = answer.reason, reason != .trimmed {
                checker.saidChanged(item.channel, from: item.position, to: answer.position, by: item.client)
            }
            checker.subscribed(
                item.channel, at: answer.hasMore ? page.last?.position ?? answer.position : answer.position, recovered: answer.recovered,
                page: page, hasMore: answer.hasMore, from: item.position, by: item.client)
        }
        clients[item.client].positions[item.channel] = answer.position
        guard answer.hasMore, let node = clients[item.client].node else { return }
        var next = item
        next.position = answer.position
        next.isContinuation = true
        nodes[node].join([next])
    }

    func refusedJoin(_ item: SimulatedNode.Asked) {
        plan(now + backoff()) { [self] in
            guard clients[item.client].isOn(item.connection), let node = clients[item.client].node else { return }
            nodes[node].run { [self] in if clients[item.client].isOn(item.connection) { nodes[node].join([item]) } }
        }
    }

    func delivered(_ publication: PositionedPublication, _ channel: Name, to client: Int) {
        trace("\(clients[client].name) gets \(channel) \(publication.position)")
        checker.received(
            DeliveryChecker.Message(user: publication.publication.user, id: publication.publication.messageId), in: channel,
            at: publication.position, by: client)
        clients[client].positions[channel] = publication.position
    }

    func announced(_ channel: Name, _ position: Position, _ reason: ResyncReason, to client: Int) {
        trace("\(clients[client].name) is told of a gap in \(channel) before \(position)")
        if reason == .epochChanged { checker.saidChanged(channel, to: position, by: client) }
        checker.announced(channel, at: position, by: client)
        clients[client].positions[channel] = position
    }

    func publish(_ number: Int, to wanted: Name? = nil) {
        clients[number].sequence += 1
        let channel = wanted ?? clients[number].channels[Int(chance.next() % UInt64(clients[number].channels.count))]
        let publication = Publication(
            messageClass: .chat, user: clients[number].name, device: .empty,
            messageId: Name(trusted: [UInt8]("m\(clients[number].sequence)".utf8)), time: 0, payload: [UInt8]("1".utf8))
        clients[number].owed.append((publication, channel))
        if clients[number].node != nil { send(number, publication, channel) }
    }

    private func send(_ number: Int, _ publication: Publication, _ channel: Name) {
        guard let node = clients[number].node else { return }
        trace("\(clients[number].name) sends \(publication.messageId) to \(channel) on node \(node)")
        checker.sent(DeliveryChecker.Message(user: publication.user, id: publication.messageId), to: channel, by: number)
        let connection = clients[number].connection
        let running = nodes[node]
        running.run { running.publish(publication, to: channel, client: number, connection: connection) }
    }

    private func resend(_ number: Int) {
        for (publication, channel) in clients[number].owed { send(number, publication, channel) }
    }

    func published(_ publication: Publication, _ channel: Name, _ result: PublishResult?, client: Int, connection: Int) {
        guard clients[client].isOn(connection) else { return }
        guard let result else {
            // Refused for now: again in a while.
            return plan(now + backoff()) { [self] in
                if clients[client].isOn(connection),
                    clients[client].owed.contains(where: { $0.publication.messageId == publication.messageId })
                {
                    send(client, publication, channel)
                }
            }
        }
        trace("\(clients[client].name) is acknowledged \(publication.messageId) at \(channel) \(result.position)")
        let message = DeliveryChecker.Message(user: publication.user, id: publication.messageId)
        checker.acknowledged(message, in: channel, at: result.position, isDuplicate: result.isDuplicate, by: client)
        if let node = clients[client].node { nodes[node].acknowledged.append((message, channel)) }
        clients[client].owed.removeAll { $0.publication.messageId == publication.messageId }
    }

    /// Nobody can say whether anybody will be handed it.
    func uncertain(_ publication: Publication, _ channel: Name, client: Int, connection: Int) {
        guard clients[client].isOn(connection) else { return }
        trace("\(clients[client].name)'s \(publication.messageId) is uncertain")
        checker.refused(DeliveryChecker.Message(user: publication.user, id: publication.messageId), in: channel)
        clients[client].owed.removeAll { $0.publication.messageId == publication.messageId }
    }

    // MARK: Faults

    func isolate(_ node: Int, for span: Span) {
        trace("node \(node) is cut off for \(span)")
        isolatedUntil[node] = max(isolatedUntil[node], now + span)
    }

    func pause(_ node: Int, for span: Span) {
        trace("node \(node) is paused for \(span)")
        nodes[node].pausedUntil = max(nodes[node].pausedUntil, now + span)
    }

    /// Its clients are cut off, and another process takes its place.
    func crash(_ node: Int) {
        trace("node \(node) dies")
        for client in clients.indices where clients[client].node == node {
            checker.ended(client, heard: unwellSince[node])
            clients[client].node = nil
        }
        // Nobody else remembers what it acknowledged: were that taken back too, that's one fault more than anybody is told of.
        for (message, channel) in nodes[node].acknowledged { checker.excuse(message, in: channel) }
        nodes[node].isGone = true
        nodes[node].commands.cut()
        nodes[node].pubsub.cut()
        nodes[node] = SimulatedNode(self, number: node, server: primary, failover: failovers)
    }

    func freeze(for span: Span) {
        trace("Redis freezes for \(span)")
        primary.frozenUntil = max(primary.frozenUntil, now + span)
    }

    func slow(_ span: Span) { slowest = span }

    /// Redis starts with what it had saved last.
    func restartOlder() {
        trace("Redis restarts with older data")
        losesData = true
        primary.life += 1
        primary.data = replica
        for node in nodes where node.server === primary { cut(node) }
    }

    func restart(losing: Bool) {
        trace("Redis restarts\(losing ? " without its data" : "")")
        primary.life += 1
        if losing { primary.lose() }
        losesData = losesData || losing
        for node in nodes where node.server === primary { cut(node) }
    }

    private func cut(_ node: SimulatedNode) {
        node.run {
            node.cutCommands()
            node.cutPubsub()
        }
    }

    func forgetChannel() {
        let channel = channels[Int(chance.next() % UInt64(channels.count))]
        trace("\(channel)'s record is evicted")
        primary.forget(channel)
        losesData = true
    }

    func endGeneration() {
        trace("the generation ends")
        primary.endGeneration()
    }

    /// The replica has everything that was written up to now.
    func replicate() { replica = primary.data }

    /// The replica takes over. Nodes hear of it one after the other; who hasn't yet goes on with the old primary.
    /// `isNumbered`: as by sentinels, whose nodes tell the number; without, as in a cluster.
    func failOver(isNumbered: Bool = true) {
        trace("the replica takes over")
        takeovers += 1
        losesData = true
        if isNumbered { failovers += 1 }
        let next = ModelRedis(historyMax: historyMax, seed: seed &+ UInt64(takeovers) << 32)
        next.data = replica
        primary = next
        for node in nodes {
            plan(now + chance.span(in: .zero..<(.seconds(3)))) { [weak self] in
                guard let self, self.nodes.contains(where: { $0 === node }) else { return }
                node.run {
                    // Whoever hears late hears of the latest one.
                    node.server = self.primary
                    node.failover = self.failovers
                    self.cut(node)
                }
            }
        }
    }

    // MARK: The end

    /// Heals everything, brings everybody back, lets the last word of each channel through, and judges.
    func settle() -> (report: CheckReport, problems: [String]) {
        slowest = .milliseconds(2)
        // What's frozen, paused or cut off is so for 20 s at most.
        pass(.seconds(25))
        for node in nodes.indices {
            let running = nodes[node]
            if running.server !== primary { running.server = primary }
            running.failover = failovers
            if running.commands.server !== primary || running.pubsub.server !== primary { cut(running) }
        }
        pass(.seconds(10))
        for client in clients.indices { connect(client) }
        pass(.seconds(40))
        for channel in channels {
            if let client = clients.indices.first(where: { clients[$0].channels.contains(channel) }) { publish(client, to: channel) }
        }
        // Over the check of idle channels' tips.
        pass(.seconds(70))
        var problems: [String] = []
        for node in nodes where !node.isWhole || node.waiting > 0 {
            problems.append("node \(node.number) isn't whole: \(node.waiting) wait")
        }
        for client in clients where !client.owed.isEmpty {
            problems.append("\(client.name) never heard of \(client.owed.count) publications")
        }
        return (checker.finish(), problems)
    }
}
