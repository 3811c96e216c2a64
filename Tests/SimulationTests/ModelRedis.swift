import HubBase
import HubCore
import HubRedis
import HubWire

/// A Redis as far as channels go: what the scripts do, in a few obvious lines (redis-design §4), and who listens.
final class ModelRedis {
    struct Channel {
        var tip: Position
        var entries: [Heard] = []
    }

    /// What a replica has too, sooner or later.
    struct Data {
        var channels: [Name: Channel] = [:]
        var ids: [[UInt8]: Position] = [:]
        /// Channels whose record is gone, and whose stream isn't.
        var remains = Set<Name>()
        var generation: Mark?
        var failover = 0
    }

    enum Answer {
        case published(PublishResult)
        /// It was, and the channel has lost its place since.
        case takenBack
    }

    var data = Data()
    let historyMax: Int
    /// Which link listens to what; a link's number is its own.
    var listeners: [Int: Set<[UInt8]>] = [:]
    /// Nothing is carried out before.
    var frozenUntil = Instant(nanoseconds: 0)
    /// What came while it was frozen.
    var inbox: [() -> Void] = []
    /// A new one each time that it starts: what was on its way to the one before is gone.
    var life = 0

    private var chance: Chance
    /// As if nothing of an empty channel's position were lost with the data: what positions must not be.
    private let generationsLast: Bool

    init(historyMax: Int, seed: UInt64, generationsLast: Bool = false) {
        self.historyMax = historyMax
        self.generationsLast = generationsLast
        chance = Chance(seed: seed)
    }

    /// Deletes what it holds.
    func lose() {
        let generation = data.generation
        data = Data()
        if generationsLast { data.generation = generation }
    }

    /// As the generation's span ends, or a failover that it didn't know of.
    func endGeneration() { data.generation = nil }

    func pass(failover: Int) {
        guard failover != data.failover else { return }
        endGeneration()
        data.failover = failover
    }

    /// Its record is evicted; its stream stays.
    func forget(_ name: Name) { if data.channels.removeValue(forKey: name) != nil { data.remains.insert(name) } }

    private func origin(of name: Name) -> Position {
        if data.remains.contains(name) { return .start }
        let word = data.generation ?? chance.mark()
        data.generation = word
        return .origin(word)
    }

    func publish(_ publication: Publication, to name: Name, _ chance: inout Chance) -> (Answer, Heard?) {
        let id = name.bytes + [0] + publication.user.bytes + [0] + publication.messageId.bytes
        if let known = data.ids[id] {
            let tip = data.channels[name]?.tip
            let holds = known.epoch == tip?.epoch && known.offset <= tip?.offset ?? 0
            return (holds ? .published(PublishResult(position: known, isDuplicate: true)) : .takenBack, nil)
        }
        var channel = data.channels[name] ?? Channel(tip: origin(of: name))
        data.remains.remove(name)
        let previous = channel.tip.tag
        let epoch = channel.tip.isOrigin ? chance.mark() : channel.tip.epoch
        channel.tip = Position(epoch: epoch, offset: channel.tip.offset + 1, tag: chance.mark())
        let heard = Heard(position: channel.tip, previous: previous, publication: publication)
        channel.entries.append(heard)
        if channel.entries.count > historyMax { channel.entries.removeFirst(channel.entries.count - historyMax) }
        data.channels[name] = channel
        data.ids[id] = channel.tip
        return (.published(PublishResult(position: channel.tip, isDuplicate: false)), heard)
    }

    func tip(of name: Name) -> Position { data.channels[name]?.tip ?? origin(of: name) }

    func page(of name: Name, after position: Position, limit: Int) -> StreamPage {
        let channel = data.channels[name] ?? Channel(tip: origin(of: name))
        let later = channel.entries.filter { $0.position.offset > position.offset }
        let first = later.first.flatMap { heard in
            heard.publication.map { PositionedPublication(position: heard.position, previous: heard.previous, publication: $0) }
        }
        if let failure = RecoveryFailure.judge(position, tip: channel.tip, first: first) {
            return StreamPage(tip: channel.tip, failure: failure, hasMore: false, entries: [])
        }
        return StreamPage(tip: channel.tip, failure: nil, hasMore: later.count > limit, entries: Array(later.prefix(limit)))
    }
}
