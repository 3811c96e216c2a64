import HubBase
import HubNet

/// The subscriber link: carries out what the subscription set wants, proves the link alive, hands messages up.
///
/// A subscriber only reads, and a link that brings nothing looks like a quiet one: so it's pinged, with a deadline for the answer, and it
/// counts as up only when all that's wanted has been confirmed and continued from a known position.
final class RedisSubscriber: ConnectionOwner {
    static let pingInterval: Span = .seconds(5)
    static let pingDeadline: Span = .seconds(5)
    static let confirmDeadline: Span = .seconds(5)

    private let connection: RedisConnection<RedisSubscriber>
    private let loop: NetLoop
    /// Owns this link, so it's there as long as it.
    private unowned(unsafe) let owner: RedisBackend
    var set: SubscriptionSet
    /// Commands whose confirmations are owed: how many, and since when.
    private var owed = Ring<(count: Int, sent: Instant)>()
    /// PINGs sent and answered, over all links: pub/sub messages from before a PING have arrived when its PONG has.
    private(set) var pings: UInt64 = 0
    private(set) var pongs: UInt64 = 0
    private var lastPing = Instant(nanoseconds: 0)
    private(set) var isUp = false

    init(connection: RedisConnection<RedisSubscriber>, loop: NetLoop, seed: UInt64, owner: RedisBackend) {
        self.connection = connection
        self.loop = loop
        self.owner = owner
        set = SubscriptionSet(seed: seed)
        connection.owner = self
    }

    func start(at now: Instant) { connection.start(at: now) }

    func stop() {
        isUp = false
        connection.stop()
    }

    func drop(_ reason: String) { connection.drop(reason) }

    func advance(at now: Instant) {
        if connection.isOpen {
            judge(at: now)
            sendCommands(at: now)
        }
        connection.advance(at: now)
    }

    private func judge(at now: Instant) {
        if pings > pongs {
            if now.since(lastPing) >= RedisSubscriber.pingDeadline {
                return connection.drop("no answer to a ping within \(RedisSubscriber.pingDeadline)")
            }
        } else if now.since(lastPing) >= RedisSubscriber.pingInterval {
            lastPing = now
            pings += 1
            connection.out.command(1)
            connection.out.argument("PING")
        }
        if let first = owed.first, now.since(first.sent) >= RedisSubscriber.confirmDeadline {
            return connection.drop("a subscription isn't confirmed within \(RedisSubscriber.confirmDeadline)")
        }
        if !isUp && set.isReady {
            isUp = true
            owner.subscriberUp()
        }
    }

    private func sendCommands(at now: Instant) {
        guard connection.isOpen else { return }
        let leaving = set.takeUnsubscribes(at: now)
        if !leaving.isEmpty { write("UNSUBSCRIBE", leaving, at: now) }
        let joining = set.takeSubscribes()
        if !joining.isEmpty { write("SUBSCRIBE", joining, at: now) }
    }

    private func write(_ command: StaticString, _ indexes: [Int], at now: Instant) {
        connection.out.command(1 + indexes.count)
        connection.out.argument(command)
        for index in indexes { connection.out.argument(set.name(index)) }
        owed.append((indexes.count, now))
    }

    private func confirmed() {
        guard var first = owed.removeFirst() else { return }
        first.count -= 1
        if first.count > 0 { owed.prepend(first) }
    }

    // MARK: ConnectionOwner

    func opened() {
        lastPing = loop.now
        pings += 1
        connection.out.command(1)
        connection.out.argument("PING")
        sendCommands(at: loop.now)
        connection.flush()
    }

    func received(_ reply: borrowing Reply) {
        // PING is answered by a status while nothing is subscribed, by an array otherwise.
        if reply.kind(0) == .status { return pongs = min(pongs + 1, pings) }
        if reply.isError { return connection.drop(reply.errorText) }
        guard let kind = reply.string(1) else { return connection.drop("an answer that isn't a subscriber's") }
        if kind.equals("message") {
            guard let name = reply.string(2), let body = reply.string(3) else { return }
            if let index = set.find(name) { owner.heard(index, body) }
        } else if kind.equals("subscribe") {
            guard let index = reply.string(2).flatMap({ set.find($0) }) else { return }
            if set[index].state == .subscribing { confirmed() }
            set.subscribed(index)
        } else if kind.equals("unsubscribe") {
            guard let index = reply.string(2).flatMap({ set.find($0) }) else { return }
            if set[index].state == .unsubscribing { confirmed() }
            set.unsubscribed(index)
        } else if kind.equals("pong") {
            pongs = min(pongs + 1, pings)
        }
    }

    func ended(_ reason: String) {
        isUp = false
        owed.removeAll()
        pongs = pings
        set.linkLost()
        owner.subscriberDown(reason)
    }
}
