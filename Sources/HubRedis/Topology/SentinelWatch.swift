import HubBase
import HubNet

/// Follows the master through the sentinels: asks each of them every 5 s, and at once when one says `+switch-master` or a link is lost.
///
/// Two connections to each, since a connection that listens can't ask (RESP2).
final class SentinelWatch {
    static let interval: Span = .seconds(5)
    static let pause: Span = .milliseconds(100)
    static let deadline: Span = .seconds(3)

    private let links: [SentinelLink]
    private var view: SentinelView
    private var current: RedisURL.Place?
    /// Owns this, so it's there as long as it.
    private unowned(unsafe) let backend: RedisBackend
    /// Why no master is known; nil while nothing has failed.
    private(set) var problem: String?

    init(
        _ places: [RedisURL.Place], name: [UInt8], loop: NetLoop, chance: Chance, backend: RedisBackend,
        access: (StaticString) -> RedisAccess
    ) {
        var chance = chance
        self.backend = backend
        view = SentinelView(count: places.count)
        var links: [SentinelLink] = []
        for (number, place) in places.enumerated() {
            for listens in [false, true] {
                let connection = RedisConnection<SentinelLink>(
                    loop: loop, place: place, access: access(listens ? "failovers" : "topology"), chance: Chance(seed: chance.next()))
                links.append(SentinelLink(number, name: name, listens: listens, connection: connection, loop: loop))
            }
        }
        self.links = links
        for link in links { link.watch = self }
    }

    func start(at now: Instant) { for link in links { link.start(at: now) } }
    func stop() { for link in links { link.stop() } }
    func askSoon() { for link in links { link.isSoon = true } }
    func advance(at now: Instant) { for link in links { link.advance(at: now) } }

    func told(_ sentinel: Int, _ word: SentinelView.Word) {
        view.told(sentinel, word)
        problem = nil
        follow()
    }

    func silent(_ sentinel: Int, _ reason: String) {
        view.told(sentinel, nil)
        problem = reason
        follow()
    }

    /// The configuration epoch of who is believed.
    var failover: UInt64? { view.best?.epoch }

    private func follow() {
        guard let best = view.best, best.place != current else { return }
        let isFirst = current == nil
        current = best.place
        backend.masterMoved(to: best.place, because: isFirst ? "" : "the sentinels name \(best.place) as the master now")
    }
}

/// One of the two connections to a sentinel.
final class SentinelLink: ConnectionOwner {
    private let number: Int
    private let name: [UInt8]
    private let listens: Bool
    private let connection: RedisConnection<SentinelLink>
    private let loop: NetLoop
    /// Owns this link, so it's there as long as it.
    unowned(unsafe) var watch: SentinelWatch?
    var isSoon = false
    private var asked = Instant(nanoseconds: 0)
    private var isAsking = false

    init(_ number: Int, name: [UInt8], listens: Bool, connection: RedisConnection<SentinelLink>, loop: NetLoop) {
        self.number = number
        self.name = name
        self.listens = listens
        self.connection = connection
        self.loop = loop
        connection.owner = self
    }

    func start(at now: Instant) { connection.start(at: now) }
    func stop() { connection.stop() }

    func advance(at now: Instant) {
        if connection.isOpen {
            let since = now.since(asked)
            if isAsking {
                if since >= SentinelWatch.deadline { connection.drop("no answer within \(SentinelWatch.deadline)") }
            } else if since >= SentinelWatch.interval || !listens && isSoon && since >= SentinelWatch.pause {
                ask(at: now)
            }
        }
        connection.advance(at: now)
    }

    private func ask(at now: Instant) {
        isSoon = false
        isAsking = true
        asked = now
        if listens {
            connection.out.command(1)
            connection.out.argument("PING")
        } else {
            connection.out.command(3)
            connection.out.argument("SENTINEL")
            connection.out.argument("MASTER")
            connection.out.argument(name)
        }
        connection.flush()
    }

    func opened() {
        guard listens else { return ask(at: loop.now) }
        asked = loop.now
        connection.out.command(2)
        connection.out.argument("SUBSCRIBE")
        connection.out.argument("+switch-master")
        connection.flush()
        isAsking = true
    }

    func received(_ reply: borrowing Reply) {
        if reply.isError {
            let text = reply.errorText
            return connection.drop(
                text.hasPrefix("ERR No such master")
                    ? "this sentinel knows no master of the name in redis.sentinel.master" : RedisFault.advice(text))
        }
        guard !listens else {
            // Confirmation, pong or news. Who the master is, with its epoch, is asked for.
            if reply.string(1)?.equals("message") == true { watch?.askSoon() } else { isAsking = false }
            return
        }
        isAsking = false
        guard let word = SentinelView.Word(reply, asked: connection.place) else { return connection.drop("not what a sentinel answers") }
        watch?.told(number, word)
    }

    func ended(_ reason: String) {
        isAsking = false
        if !listens { watch?.silent(number, "sentinel \(reason)") }
    }
}
