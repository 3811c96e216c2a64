import HubBase
import HubNet

/// The subscriber link to one master: carries out what the subscription set wants of its lanes, proves the link alive, hands messages up.
///
/// A subscriber only reads, and a link that brings nothing looks like a quiet one: so it's pinged, with a deadline for the answer, and it
/// counts as up only when all that's wanted has been confirmed and continued from a known position.
///
/// In a cluster messages go to their shard alone (SSUBSCRIBE): one command names channels of one slot, and a slot that moves away takes its
/// subscriptions along, by an `sunsubscribe` that nobody asked for.
final class RedisSubscriber: ConnectionOwner {
    static let pingInterval: Span = .seconds(5)
    static let silence = Silence(after: .seconds(5))
    /// Subscriptions that may be under way: more wait here, so that a node with very many channels that comes back takes Redis in turns with
    /// the others, and a PING isn't behind all of them.
    static let window = 4 * SubscriptionSet.batch

    /// A command whose confirmations are owed.
    private struct Owed {
        /// `Lane.several` without a cluster.
        var lane: Int
        var count: Int
        var sent: Instant
        /// Its lane has moved away: its confirmations may have been taken for others', so they aren't waited for.
        var isForgiven = false
    }

    private let connection: RedisConnection<RedisSubscriber>
    private let loop: NetLoop
    /// Outlives this link.
    private unowned(unsafe) let owner: SubscriberLinks
    var lanes = LaneSet()
    private var owed = Ring<Owed>()
    /// Confirmations that `owed` stands for.
    private var unconfirmed = 0
    /// The last PING on this link, and the last that was answered; by the count of all links.
    private var ping: UInt64 = 0
    private var pongs: UInt64 = 0
    private var lastPing = Instant(nanoseconds: 0)
    /// When anything came last.
    private var heard = Instant(nanoseconds: 0)
    /// Why it may lack a message that Redis handed on, and the PING that tells: 0 before it's sent.
    private var suspicion: (reason: String, ping: UInt64)?
    private(set) var isUp = false
    private(set) var problem: String?

    init(connection: RedisConnection<RedisSubscriber>, loop: NetLoop, owner: SubscriberLinks) {
        self.connection = connection
        self.loop = loop
        self.owner = owner
        connection.owner = self
    }

    func start(at now: Instant) { connection.start(at: now) }

    func stop() {
        isUp = false
        connection.stop()
    }

    func drop(_ reason: String) { connection.drop(reason) }

    func move(to place: RedisURL.Place?, because reason: String) { connection.move(to: place, because: reason) }

    func advance(at now: Instant) {
        if connection.isOpen {
            judge(at: now)
            sendCommands(at: now)
        }
        connection.advance(at: now)
    }

    private func judge(at now: Instant) {
        let silence = RedisSubscriber.silence
        if ping > pongs {
            if let limit = silence.exceeded(asked: lastPing, heard: heard, at: now) {
                return connection.drop("no answer to a ping within \(limit)")
            }
        } else if suspicion?.ping == 0 || now.since(lastPing) >= RedisSubscriber.pingInterval {
            sendPing(at: now)
            suspicion?.ping = ping
        }
        while let first = owed.first, let limit = silence.exceeded(asked: first.sent, heard: heard, at: now) {
            guard first.isForgiven else { return connection.drop("a subscription isn't confirmed within \(limit)") }
            _ = takeOwed()
        }
        if !isUp && owner.set.isReady(in: lanes) {
            isUp = true
            problem = nil
        }
    }

    private func sendPing(at now: Instant) {
        lastPing = now
        ping = owner.nextPing()
        connection.out.command(1)
        connection.out.argument("PING")
    }

    private func sendCommands(at now: Instant) {
        guard connection.isOpen, owner.set.mayWrite() else { return }
        let isSharded = owner.isSharded
        // A batch of each a turn; of a cluster's small ones, as many as a third of the partitions need.
        for _ in 0..<(isSharded ? 96 : 1) {
            let leaving = owner.set.takeUnsubscribes(at: now, in: lanes, ofOneLane: isSharded)
            if !leaving.isEmpty { write(isSharded ? "SUNSUBSCRIBE" : "UNSUBSCRIBE", leaving, at: now) }
            let joining = unconfirmed < RedisSubscriber.window ? owner.set.takeSubscribes(in: lanes, ofOneLane: isSharded) : []
            if !joining.isEmpty { write(isSharded ? "SSUBSCRIBE" : "SUBSCRIBE", joining, at: now) }
            if leaving.isEmpty && joining.isEmpty { break }
        }
    }

    private func write(_ command: StaticString, _ indexes: [Int], at now: Instant) {
        connection.out.command(1 + indexes.count)
        connection.out.argument(command)
        for index in indexes { connection.out.argument(owner.set.name(index)) }
        let lane = owner.isSharded ? owner.set[indexes[0]].lane : Lane.several
        owed.append(Owed(lane: lane, count: indexes.count, sent: now))
        unconfirmed += indexes.count
    }

    private func takeOwed() -> Owed? {
        let first = owed.removeFirst()
        unconfirmed -= first?.count ?? 0
        return first
    }

    /// Commands are answered in their order, so forgiven ones in front of an answer have had theirs.
    private func confirmed() {
        while let first = owed.first, first.isForgiven { _ = takeOwed() }
        guard var first = owed.removeFirst() else { return }
        unconfirmed -= 1
        first.count -= 1
        if first.count > 0 { owed.prepend(first) }
    }

    /// Another master has the lane from now on.
    func forgive(_ lane: Int) { owed.update { if $0.lane == lane { $0.isForgiven = true } } }

    // MARK: ConnectionOwner

    func opened() {
        sendPing(at: loop.now)
        sendCommands(at: loop.now)
        connection.flush()
    }

    func received(_ reply: borrowing Reply) {
        heard = loop.now
        // PING is answered by a status while nothing is subscribed, by an array otherwise.
        if reply.kind(0) == .status { return ponged() }
        if reply.isError { return refused(reply) }
        guard let kind = reply.string(1) else { return connection.drop("an answer that isn't a subscriber's") }
        // "smessage" and the like of sharded pub/sub mean the same.
        if kind.equals(owner.isSharded ? "smessage" : "message") {
            guard let name = reply.string(2), let body = reply.string(3) else { return }
            guard let index = find(name) else { return }
            if suspicion != nil, case .probe = owner.set.subject(of: index) { suspicion = nil }
            owner.heard(index, body, pongs: pongs)
        } else if kind.equals(owner.isSharded ? "ssubscribe" : "subscribe") {
            guard let index = reply.string(2).flatMap({ find($0) }) else { return }
            if owner.set.isAt(.subscribing, index) { confirmed() }
            owner.set.subscribed(index)
            if case .user(let user) = owner.set.subject(of: index) { owner.followed(user) }
        } else if kind.equals(owner.isSharded ? "sunsubscribe" : "unsubscribe") {
            guard let index = reply.string(2).flatMap({ find($0) }) else { return }
            if owner.set.isAt(.unsubscribing, index) {
                confirmed()
            } else if owner.isSharded {
                // The slot is leaving. It's asked for at once, where it was: the answer says where it is.
                owner.moved(.later)
            }
            owner.set.unsubscribed(index)
        } else if kind.equals("pong") {
            ponged()
        }
    }

    private func ponged() {
        pongs = ping
        if let suspicion, suspicion.ping == ping { connection.drop(suspicion.reason) }
    }

    /// Redis says that it handed a message on which hasn't come. It may be on its way still, behind many others; but not behind the answer to a
    /// PING that leaves from now on: that ends this link, unless a message to ourselves comes first.
    func suspect(_ reason: String) { if isUp && suspicion == nil { suspicion = (reason, 0) } }

    /// The place of a channel whose lane is ours; what comes of others was under way when they moved.
    private func find(_ name: UnsafeRawBufferPointer) -> Int? { owner.set.place(of: name, in: lanes) }

    private func refused(_ reply: borrowing Reply) {
        guard let text = reply.string(0) else { return }
        if owner.isSharded, let redirect = Redirect(text, asked: connection.place), case .moved(let slot, _) = redirect {
            return moved(redirect, slot)
        }
        if owner.isSharded, text.hasPrefix("ERR unknown command") {
            return connection.drop("a cluster has to be of Redis 7 or later, or of Valkey: this server knows no sharded pub/sub")
        }
        connection.drop(RedisFault.advice(reply.errorText))
    }

    private func moved(_ redirect: Redirect, _ slot: Int) {
        // The answer to the first command that is about this slot; forgiven ones before it have had theirs.
        while let first = takeOwed() {
            guard owner.slots[first.lane] == slot else {
                if first.isForgiven { continue }
                break
            }
            owner.moved(redirect)
            // Still ours: the server contradicts itself, or names nobody.
            if lanes.contains(first.lane) { connection.drop("slot \(slot) is nobody's") }
            return
        }
        connection.drop("an error that nothing was asked for")
    }

    func ended(_ reason: String) {
        isUp = false
        problem = reason
        owed.removeAll()
        unconfirmed = 0
        suspicion = nil
        pongs = ping
        owner.set.linkLost(in: lanes)
        owner.linkDown()
    }
}
