import HubBase
import HubCore
import HubWire

/// One channel as Redis has it, nodes that hear of it late, and clients that wander between them: under a clock of steps, from a seed.
///
/// What a node hears is in order and late; what it reads of history is of the moment of the reading, and comes late too. Histories are
/// trimmed, rolled back and lost. Every client checks what it gets against what was published.
struct RecoveryWorld {
    struct Options {
        var nodes = 2
        var clients = 6
        var history = 100
        var recent = 8
        var page = 10
        var bytes = 1 << 20
        /// Of a thousand steps.
        var publishes = 400
        var losses = 0
        var rollBacks = 0
    }

    /// Where a client stands, and whom it asks.
    struct Client {
        var node: Int?
        /// Joined or not; the key of what it waits for.
        var waitsFor: UInt64?
        var isCatchingUp = false
        var position: Position?
        var isJoined = false
    }

    struct Node {
        var machine: RecoveryMachine
        /// What the broker still has to tell, in order.
        var feed: [PositionedPublication] = []
        var live: Position?
        var answers: [(due: Int, Answer)] = []
    }

    enum Answer {
        case subscribed(UInt64)
        case read(HistoryQuery, UInt64)
        case page(HistoryPage, UInt64)
    }

    static let channel: Name = "room:1"
    let options: Options
    var chance: Chance
    var step = 0
    var nodes: [Node]
    var clients: [Client]
    var tip: Position
    var kept: [PositionedPublication] = []
    var problems: [String] = []
    // What happened, so that a run which tested nothing shows.
    var delivered = 0
    var recovered = 0
    var lost = 0
    var continued = 0
    private var lastKey: UInt64 = 0

    var now: Instant { Instant(nanoseconds: 1_000_000_000 + UInt64(step) * 1_000_000) }

    init(_ options: Options, seed: UInt64) {
        self.options = options
        chance = Chance(seed: seed)
        tip = .origin(chance.mark())
        var limits = RecoveryMachine.Limits()
        limits.recent = options.recent
        limits.recentPinned = 1_000
        limits.patience = .seconds(2)
        nodes = (0..<options.nodes).map { _ in Node(machine: RecoveryMachine(limits: limits)) }
        clients = (0..<options.clients).map { _ in Client() }
    }

    mutating func roll(_ bound: Int) -> Int { Int(chance.next() % UInt64(bound)) }

    mutating func run(_ steps: Int) {
        for _ in 0..<steps {
            step += 1
            if roll(1000) < options.publishes { publish() }
            if roll(1000) < options.losses { loseAll() }
            if roll(1000) < options.rollBacks { rollBack(1 + roll(3)) }
            for node in nodes.indices { turn(node) }
            for client in clients.indices where roll(20) == 0 { move(client) }
        }
    }

    // MARK: Redis

    mutating func publish() {
        let before = tip
        if tip.isOrigin { kept = [] }
        tip = Position(epoch: tip.isOrigin ? chance.mark() : tip.epoch, offset: tip.offset + 1, tag: chance.mark())
        let count = 1 + roll(200)
        let publication = Publication(
            messageClass: .chat, user: "u", device: .empty, messageId: "m", time: 0, payload: [UInt8](repeating: 49, count: count))
        let next = PositionedPublication(position: tip, previous: before.tag, publication: publication)
        kept.append(next)
        if kept.count > options.history { kept.removeFirst() }
        for node in nodes.indices where nodes[node].live != nil { nodes[node].feed.append(next) }
    }

    mutating func loseAll() {
        tip = .origin(chance.mark())
        kept = []
    }

    /// A failover that lost the latest writes.
    mutating func rollBack(_ count: Int) {
        for _ in 0..<count {
            guard let last = kept.popLast() else { return }
            tip = Position(epoch: last.position.epoch, offset: last.position.offset - 1, tag: last.previous)
            if tip.offset == 0 { tip = .origin(tip.tag) }
        }
    }

    func read(_ query: HistoryQuery) -> HistoryPage {
        guard case .position(let position)? = query.after else { preconditionFailure("a recovery reads from a position") }
        let behind = kept.filter { $0.position.offset > position.offset }
        if let failure = RecoveryFailure.judge(position, tip: tip, first: behind.first) {
            return HistoryPage(publications: [], tip: tip, hasMore: false, continuity: .broken(failure))
        }
        let page = Array(behind.prefix(query.limit))
        return HistoryPage(publications: page, tip: tip, hasMore: page.count < behind.count, continuity: .whole)
    }

    // MARK: Nodes

    mutating func turn(_ node: Int) {
        while let place = nodes[node].answers.firstIndex(where: { [step] in $0.due <= step }) {
            switch nodes[node].answers.remove(at: place).1 {
            case .subscribed(let serial):
                nodes[node].live = tip
                nodes[node].feed = []
                nodes[node].machine.subscribed(Self.channel, .success(tip), serial: serial)
            case .read(let query, let key): answer(.page(read(query), key), in: roll(10), node)
            case .page(let page, let key): nodes[node].machine.historyRead(.success(page), key: key)
            }
            carryOut(node)
        }
        // Sometimes it hears nothing for a while, then all at once.
        if roll(4) == 0 {
            for _ in 0..<roll(12) where !nodes[node].feed.isEmpty { hear(nodes[node].feed.removeFirst(), node) }
        }
        nodes[node].machine.tick(at: now)
        carryOut(node)
    }

    private mutating func answer(_ answer: Answer, in steps: Int, _ node: Int) { nodes[node].answers.append((step + steps, answer)) }

    private mutating func hear(_ next: PositionedPublication, _ node: Int) {
        guard let live = nodes[node].live else { return }
        let before = Position(epoch: next.position.epoch, offset: next.position.offset - 1, tag: next.previous)
        if !live.isContinued(by: next.position, previous: next.previous) {
            nodes[node].machine.resync(Self.channel, to: before, reason: .epochChanged)
            for client in clients.indices where clients[client].node == node && clients[client].isJoined {
                clients[client].position = before
                lost += 1
            }
            carryOut(node)
        }
        nodes[node].live = next.position
        guard let (slot, carriers) = nodes[node].machine.carried(Self.channel), carriers != 0 else { return }
        let delivery = DurableDelivery(channel: Self.channel, publication: next)
        for client in clients.indices where clients[client].node == node && clients[client].isJoined { take(next, client) }
        nodes[node].machine.delivered(delivery, at: slot)
        carryOut(node)
    }

    private mutating func carryOut(_ node: Int) {
        while !nodes[node].machine.actions.isEmpty {
            let actions = nodes[node].machine.actions
            nodes[node].machine.actions = []
            for action in actions {
                switch action {
                case .subscribe(_, let serial): answer(.subscribed(serial), in: 1 + roll(5), node)
                case .unsubscribe:
                    nodes[node].live = nil
                    nodes[node].feed = []
                case .read(_, let query, let key): answer(.read(query, key), in: roll(10), node)
                case .readMarks: problems.append("nobody asked for read marks")
                case .answer(let result, _, let tag): answered(result, tag, node)
                }
            }
        }
    }

    // MARK: Clients

    private mutating func move(_ client: Int) {
        guard let node = clients[client].node else {
            // Sometimes without a position: then wherever the channel stands.
            if roll(10) == 0 { clients[client].position = nil }
            return join(client, roll(nodes.count))
        }
        if clients[client].isCatchingUp && clients[client].waitsFor == nil { return join(client, node) }
        guard roll(3) == 0 else { return }
        clients[client].node = nil
        clients[client].isJoined = false
        clients[client].isCatchingUp = false
        clients[client].waitsFor = nil
        if !clients.contains(where: { $0.node == node }) {
            nodes[node].machine.drop(Self.channel, loop: 0)
            carryOut(node)
        }
    }

    private mutating func join(_ client: Int, _ node: Int) {
        lastKey += 1
        clients[client].node = node
        clients[client].waitsFor = lastKey
        let item = JoinBatch.Item(channel: Self.channel, position: clients[client].position, tag: lastKey)
        nodes[node].machine.join(
            JoinBatch(loop: 0, items: [item], user: "u", wantsMarks: false, limit: options.page, bytes: options.bytes), at: now)
        carryOut(node)
    }

    private mutating func answered(_ result: Result<JoinAnswer, WireError>, _ tag: UInt64, _ node: Int) {
        guard let client = clients.firstIndex(where: { $0.waitsFor == tag && $0.node == node }) else { return }
        clients[client].waitsFor = nil
        guard case .success(let answer) = result else {
            clients[client].node = nil
            clients[client].isCatchingUp = false
            return
        }
        if answer.recovered == false {
            lost += 1
        } else if answer.recovered == true {
            recovered += 1
            for publication in answer.publications { take(publication, client) }
            if clients[client].position != answer.position {
                problems.append("step \(step): \(answer.position) isn't where the page ended, \(clients[client].position ?? .start)")
            }
        }
        clients[client].position = answer.position
        clients[client].isJoined = !answer.hasMore
        clients[client].isCatchingUp = answer.hasMore
        if answer.hasMore { continued += 1 }
    }

    /// Exactly the next one, by offset and by chain.
    private mutating func take(_ next: PositionedPublication, _ client: Int) {
        delivered += 1
        let last = clients[client].position
        if let last, !last.isContinued(by: next.position, previous: next.previous) {
            problems.append("step \(step): client \(client) stood at \(last) and got \(next.position)")
        }
        clients[client].position = next.position
    }
}
