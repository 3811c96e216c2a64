import HubBase
import HubCore
import HubRedis
import HubWire

/// A Redis as far as channels go: what the scripts do, in a few obvious lines (redis-design §4), and who listens.
final class ModelRedis {
    struct Channel {
        var tip: Position
        var entries: [Heard] = []
        /// When its epoch began, and up to where the one before goes on into it.
        var began: Instant
        var before: (epoch: Mark, offset: UInt64)?
    }

    /// What a replica has too, sooner or later.
    struct Data {
        var channels: [Name: Channel] = [:]
        var ids: [[UInt8]: Position] = [:]
        /// Channels whose record is gone, and whose stream isn't.
        var remains = Set<Name>()
        var generation: Mark?
        var generationMade = Instant(nanoseconds: 0)
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

    private func origin(of name: Name, at now: Instant) -> Position {
        if data.remains.contains(name) { return .start }
        if data.generation == nil { data.generationMade = now }
        let word = data.generation ?? chance.mark()
        data.generation = word
        return .origin(word)
    }

    func publish(_ publication: Publication, to name: Name, at now: Instant, _ chance: inout Chance) -> (Answer, Heard?) {
        let id = ModelRedis.id(name, publication.user, publication.messageId)
        if let known = data.ids[id] {
            if let channel = data.channels[name], let before = channel.before, known.epoch == before.epoch, known.offset <= before.offset {
                let place = Position(epoch: channel.tip.epoch, offset: known.offset, tag: known.tag)
                return (.published(PublishResult(position: place, isDuplicate: true)), nil)
            }
            let tip = data.channels[name]?.tip
            let holds = known.epoch == tip?.epoch && known.offset <= tip?.offset ?? 0
            return (holds ? .published(PublishResult(position: known, isDuplicate: true)) : .takenBack, nil)
        }
        var channel = data.channels[name] ?? Channel(tip: origin(of: name, at: now), began: now)
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

    func tip(of name: Name, at now: Instant) -> Position { data.channels[name]?.tip ?? origin(of: name, at: now) }

    /// What became of a place that a node acknowledged (renew.lua).
    func renew(_ entry: AckLedger.Entry, at now: Instant) -> AckLedger.Verdict {
        let place = entry.position
        guard var channel = data.channels[entry.channel] else {
            guard !data.remains.contains(entry.channel), data.generation != nil, data.generationMade < entry.at else { return .stands }
            let tip = Position(epoch: chance.mark(), offset: 0, tag: chance.mark())
            data.channels[entry.channel] = Channel(tip: tip, began: now, before: (tip.epoch, 0))
            return .renewed(tip)
        }
        if channel.tip.epoch != place.epoch {
            if channel.began >= entry.at {
                // Another renewal tells everybody; a new life doesn't tell who stands at an origin that's older than the acknowledgement.
                if channel.before != nil { return .stands }
                if data.generation != nil && data.generationMade >= entry.at && data.generationMade <= channel.began { return .stands }
            }
        } else if channel.tip.offset == place.offset {
            if channel.tip.tag == place.tag { return .stands }
        } else if channel.tip.offset > place.offset {
            if let kept = channel.entries.first(where: { $0.position.offset == place.offset }) {
                if kept.position.tag == place.tag { return .stands }
            } else {
                guard let message = entry.message else { return .stands }
                if data.ids[ModelRedis.id(entry.channel, message.user, message.id)] == place { return .stands }
            }
        }
        channel.before = (channel.tip.epoch, channel.tip.offset)
        channel.began = now
        channel.tip.epoch = chance.mark()
        for index in channel.entries.indices { channel.entries[index].position.epoch = channel.tip.epoch }
        data.channels[entry.channel] = channel
        return .renewed(channel.tip)
    }

    private static func id(_ channel: Name, _ user: Name, _ id: Name) -> [UInt8] { channel.bytes + [0] + user.bytes + [0] + id.bytes }

    func page(of name: Name, after position: Position, limit: Int, at now: Instant) -> StreamPage {
        let channel = data.channels[name] ?? Channel(tip: origin(of: name, at: now), began: now)
        let later = channel.entries.filter { $0.position.offset > position.offset }
        let first = later.first.flatMap { heard in
            heard.publication.map { PositionedPublication(position: heard.position, previous: heard.previous, publication: $0) }
        }
        let failure =
            position.isOrigin && channel.before != nil ? .epochChanged : RecoveryFailure.judge(position, tip: channel.tip, first: first)
        if let failure {
            return StreamPage(tip: channel.tip, failure: failure, hasMore: false, entries: [])
        }
        return StreamPage(tip: channel.tip, failure: nil, hasMore: later.count > limit, entries: Array(later.prefix(limit)))
    }
}
