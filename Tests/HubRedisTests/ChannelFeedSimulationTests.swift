import HubBase
import HubCore
import HubRedis
import HubWire
import Testing

/// One channel in Redis, one node that follows it over two links that don't wait for each other, and everything that goes wrong between them.
private struct FeedWorld {
    var chance: Chance
    var feed = ChannelFeed()
    // In Redis.
    var tip: Position
    var stream: [Heard] = []
    let kept: Int
    // On the subscriber link, in order; a pong carries its number.
    enum Sent { case message(Heard), pong(UInt64) }
    var link: [Sent] = []
    var pings: UInt64 = 0
    var pongs: UInt64 = 0
    // On the command link: a read that was sent, a page that comes back.
    var asked: Position?
    var answer: StreamPage?
    // What subscribers saw.
    var at: Position
    var seen = Set<Mark>()
    var resyncs = 0
    var complaints: [String] = []

    init(seed: UInt64, kept: Int) {
        chance = Chance(seed: seed)
        self.kept = kept
        tip = .origin(chance.mark())
        at = tip
        feed.read(tip, reason: .linkLost, pings: 0)
    }

    mutating func publish(isLost: Bool) {
        let publication = Publication(messageClass: .chat, user: "a", device: "", messageId: "m", time: 1, payload: [49])
        if tip.offset == 0 {
            stream = []
            tip = Position(epoch: chance.mark(), offset: 0, tag: tip.tag)
        }
        let previous = tip.tag
        tip = Position(epoch: tip.epoch, offset: tip.offset + 1, tag: chance.mark())
        let heard = Heard(position: tip, previous: previous, publication: publication)
        stream.append(heard)
        if stream.count > kept { stream.removeFirst(stream.count - kept) }
        if !isLost { link.append(.message(heard)) }
    }

    /// A failover that loses the last writes, or all.
    mutating func fail(_ count: Int) {
        for _ in 0..<count {
            guard let last = stream.popLast() else { break }
            tip = last.before
        }
        if count == .max { tip = .origin(chance.mark()) }
        if tip.offset == 0 { tip = .origin(tip.tag) }
    }

    mutating func hear() {
        guard !link.isEmpty else { return }
        switch link.removeFirst() {
        case .pong(let number): pongs = number
        case .message(let heard):
            switch feed.judge(heard.position, previous: heard.previous, pongs: pongs) {
            case .drop: break
            case .hold: feed.hold(heard, reason: .gap, isShort: Int.random(in: 0..<40, using: &chance) == 0)
            case .deliver, .deliverAfterGap:
                tell([
                    .publication(PositionedPublication(position: heard.position, previous: heard.previous, publication: heard.publication!))
                ])
            }
        }
    }

    mutating func ask() { if asked == nil, answer == nil, feed.needsRead { asked = feed.takeRead() } }

    /// Redis carries the read out.
    mutating func read() {
        guard let position = asked else { return }
        asked = nil
        let behind = stream.filter { $0.position.offset > position.offset }
        let first = behind.first.map { PositionedPublication(position: $0.position, previous: $0.previous, publication: $0.publication!) }
        let failure = RecoveryFailure.judge(position, tip: tip, first: first)
        let entries = Array((failure == nil ? behind : stream).prefix(4))
        answer = StreamPage(
            tip: tip, failure: failure, hasMore: entries.count < (failure == nil ? behind : stream).count, entries: entries)
    }

    mutating func answered() {
        guard let page = answer else { return }
        answer = nil
        tell(feed.filled(page, pings: pings))
    }

    mutating func failRead() {
        guard asked != nil || answer != nil else { return }
        asked = nil
        answer = nil
        tell(feed.readFailed(isLasting: false, pings: pings))
    }

    mutating func loseLink() {
        link = []
        asked = nil
        answer = nil
        feed.linkLost()
        pings += 1
        pongs = pings
        feed.read(tip, reason: .linkLost, pings: pings)
    }

    mutating func tell(_ told: [ChannelFeed.Told]) {
        for one in told {
            switch one {
            case .stranger: break
            case .resync(let position, _):
                resyncs += 1
                at = position
            case .publication(let next):
                if !at.isContinued(by: next.position, previous: next.previous) {
                    complaints.append("\(next.position) doesn't continue \(at)")
                }
                if !seen.insert(next.position.tag).inserted { complaints.append("\(next.position) came twice") }
                at = next.position
            }
        }
    }

    mutating func settle() {
        for _ in 0..<10_000 {
            while !link.isEmpty { hear() }
            if feed.needsRead || asked != nil || answer != nil {
                ask()
                read()
                answered()
            } else if feed.position != tip {
                // The check of idle channels.
                feed.read(tip, reason: .gap, pings: pings)
            } else {
                return
            }
        }
    }
}

@Suite("A channel's feed under random faults")
struct ChannelFeedSimulationTests {
    static let steps = 20_000

    @Test("nothing is missing unannounced, nothing comes twice, and in the end the feed is where the channel is", arguments: 1...20)
    func faults(seed: UInt64) {
        var world = FeedWorld(seed: seed, kept: [0, 3, 20, 1_000][Int(seed % 4)])
        for step in 0..<Self.steps {
            switch Int.random(in: 0..<1_000, using: &world.chance) {
            case 0..<280: world.publish(isLost: Int.random(in: 0..<10, using: &world.chance) == 0)
            case 280..<620: world.hear()
            case 620..<720: world.ask()
            case 720..<820: world.read()
            case 820..<920: world.answered()
            case 920..<940: world.failRead()
            case 940..<980:
                world.pings += 1
                world.link.append(.pong(world.pings))
            case 980..<985: world.loseLink()
            case 985..<987: world.fail(Int.random(in: 1..<6, using: &world.chance))
            case 987: world.fail(.max)
            default: break
            }
            if !world.complaints.isEmpty {
                Issue.record("seed \(seed), step \(step): \(world.complaints[0])")
                return
            }
        }
        world.settle()
        #expect(world.complaints == [])
        #expect(world.feed.position == world.tip)
        #expect(world.at == world.tip)
        #expect(!world.feed.isFilling && world.feed.heldBytes == 0)
    }

    @Test("where history keeps all and no write is lost, every message comes, once, and nothing is ever announced", arguments: 1...10)
    func complete(seed: UInt64) {
        var world = FeedWorld(seed: seed, kept: .max)
        var published = 0
        for _ in 0..<Self.steps {
            switch Int.random(in: 0..<100, using: &world.chance) {
            case 0..<28:
                world.publish(isLost: Int.random(in: 0..<5, using: &world.chance) == 0)
                published += 1
            case 28..<62: world.hear()
            case 62..<72: world.ask()
            case 72..<82: world.read()
            case 82..<92: world.answered()
            case 92..<93: world.failRead()
            case 93..<94: world.loseLink()
            case 94..<97:
                world.pings += 1
                world.link.append(.pong(world.pings))
            default: break
            }
        }
        world.settle()
        #expect(world.complaints == [] && world.resyncs == 0)
        #expect(world.seen.count == published)
    }
}
