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

    init(historyMax: Int) { self.historyMax = historyMax }

    /// Deletes what it holds.
    func lose() { data = Data() }

    func publish(_ publication: Publication, to name: Name, _ chance: inout Chance) -> (PublishResult, Heard?) {
        let id = name.bytes + [0] + publication.user.bytes + [0] + publication.messageId.bytes
        if let known = data.ids[id] { return (PublishResult(position: known, isDuplicate: true), nil) }
        var channel = data.channels[name] ?? Channel(tip: .start)
        let previous = channel.tip.tag
        let epoch = channel.tip == .start ? chance.mark() : channel.tip.epoch
        channel.tip = Position(epoch: epoch, offset: channel.tip.offset + 1, tag: chance.mark())
        let heard = Heard(position: channel.tip, previous: previous, publication: publication)
        channel.entries.append(heard)
        if channel.entries.count > historyMax { channel.entries.removeFirst(channel.entries.count - historyMax) }
        data.channels[name] = channel
        data.ids[id] = channel.tip
        return (PublishResult(position: channel.tip, isDuplicate: false), heard)
    }

    func tip(of name: Name) -> Position { data.channels[name]?.tip ?? .start }

    func page(of name: Name, after position: Position, limit: Int) -> StreamPage {
        let channel = data.channels[name] ?? Channel(tip: .start)
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
