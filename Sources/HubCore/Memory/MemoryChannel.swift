import HubBase
import HubWire

/// One channel of the embedded broker: where it stands, what it keeps, what it remembers. A class, because the channel table, the walk
/// that evicts and queued publications all name it; it belongs to the broker's loop.
final class MemoryChannel {
    let name: Name
    var options: HistoryOptions
    /// Where it stands in the broker's list.
    var place: Int

    /// The last publication's; `.start` when there's none, and the channel stands at the broker's origin.
    private(set) var position = Position.start
    private var metaEnds = Instant.distantFuture
    private(set) var history = Queue<PositionedPublication>()
    private(set) var historyBytes = 0
    private var historyEnds = Instant.distantFuture

    /// Message ids within the dedup window: key to its number in `idOrder`, which is in the order of their ends.
    private var ids: [MessageKey: UInt64] = [:]
    private var idOrder = Queue<RememberedId>()
    private var idNumberOfFirst: UInt64 = 0

    private var reads: [Name: UInt64] = [:]
    private var readsEnd = Instant.distantFuture

    /// The node wants the channel's publications, and is at this place of it.
    var live: Position?
    var isWanted = false

    /// Positions are remembered for this long after the last publication (redis-design §4).
    static let metaTTL = Span.seconds(7 * 86_400)

    init(name: Name, options: HistoryOptions, place: Int) {
        self.name = name
        self.options = options
        self.place = place
    }

    /// From a snapshot. What ran out meanwhile goes with the next `expire`.
    convenience init(_ image: ChannelImage, options: HistoryOptions, place: Int) {
        self.init(name: image.name, options: options, place: place)
        position = image.position
        metaEnds = image.metaEnds
        history = image.history
        historyBytes = (0..<history.count).reduce(0) { $0 + MemoryChannel.cost(of: history[$1].publication) }
        historyEnds = image.historyEnds
        for number in 0..<image.ids.count { ids[image.ids[number].key] = UInt64(number) }
        idOrder = image.ids
        reads = image.reads
        readsEnd = image.readsEnd
    }

    var image: ChannelImage {
        ChannelImage(
            name: name, position: position, metaEnds: metaEnds, history: history, historyEnds: historyEnds, ids: idOrder, reads: reads,
            readsEnd: readsEnd)
    }

    var idCount: Int { idOrder.count }
    var readCount: Int { reads.count }
    /// Nothing that anybody could miss.
    var isForgettable: Bool { !isWanted && position == .start && history.isEmpty && idOrder.isEmpty && reads.isEmpty }

    /// Where it stands. `origin`: where channels stand of which there's nothing.
    func tip(_ origin: Position) -> Position { position == .start ? origin : position }

    /// Gives `publication` the next position and keeps what is to be kept. `epoch` is used when the channel begins, after `origin`.
    func append(_ publication: Publication, epoch: Mark, origin: Position, tag: Mark, at now: Instant) -> PositionedPublication {
        if position == .start {
            removeHistory()
            // Its offsets begin anew: an old read position would hold everybody's for ever.
            reads = [:]
            position = Position(epoch: epoch, offset: 0, tag: origin.tag)
        }
        let previous = position.tag
        position.offset += 1
        position.tag = tag
        metaEnds = now + max(MemoryChannel.metaTTL, options.ttl)
        let positioned = PositionedPublication(position: position, previous: previous, publication: publication)
        // What's kept has no hole: when nothing is kept any more, what was is over too.
        if options.size <= 0 { removeHistory() }
        if options.size > 0 {
            history.append(positioned)
            historyBytes += MemoryChannel.cost(of: publication)
            while history.count > options.size, let oldest = history.popFirst() {
                historyBytes -= MemoryChannel.cost(of: oldest.publication)
            }
            historyEnds = now + options.ttl
        }
        return positioned
    }

    /// What a kept publication is taken to weigh: its payload, and its fields with their array headers.
    static func cost(of publication: Publication) -> Int { publication.payload.count + 256 }

    // Message ids.

    func remembered(_ key: MessageKey) -> RememberedId? {
        guard let number = ids[key] else { return nil }
        return idOrder[Int(number - idNumberOfFirst)]
    }

    func remember(_ key: MessageKey, digest: UInt64, at now: Instant) {
        ids[key] = idNumberOfFirst + UInt64(idOrder.count)
        idOrder.append(RememberedId(key: key, digest: digest, position: position, ends: now + options.dedup))
    }

    /// What a repeated message is answered, whose first attempt got `place`. Where the channel has begun anew since, or was rolled back behind
    /// it, nobody can be handed that message any more.
    func repeated(_ place: Position, isSame: Bool) -> Result<PublishResult, WireError> {
        guard isSame else {
            return .failure(WireError(.duplicateConflict, "messageId was used before in this channel, with another payload"))
        }
        guard place.epoch == position.epoch, place.offset <= position.offset else { return .failure(.takenBack) }
        return .success(PublishResult(position: place, isDuplicate: true))
    }

    // Read positions.

    /// The offset that counts for `user` from now on, and whether that is news.
    func moveRead(of user: Name, to offset: UInt64, at now: Instant) -> (offset: UInt64, hasMoved: Bool) {
        let current = reads[user] ?? 0
        guard offset > current else { return (current, false) }
        reads[user] = offset
        readsEnd = now + MemoryChannel.metaTTL
        return (offset, true)
    }

    /// `user`'s own first, then some others', `limit` in all. Cost: those that are given.
    func marks(of user: Name, limit: Int) -> [ReadMark] {
        guard limit > 0 else { return [] }
        var marks: [ReadMark] = []
        if let own = reads[user] { marks.append(ReadMark(user: user, offset: own)) }
        for (other, offset) in reads where other != user {
            if marks.count >= limit { break }
            marks.append(ReadMark(user: other, offset: offset))
        }
        return marks
    }

    func hasRead(_ user: Name) -> Bool { reads[user] != nil }

    // Ends.

    /// Drops what ran out. Message ids: a few for each call, as each call that adds one makes room for more than one.
    func expire(at now: Instant, idsMax: Int) {
        if now >= historyEnds { removeHistory() }
        if now >= metaEnds {
            position = .start
            metaEnds = .distantFuture
            removeHistory()
        }
        if now >= readsEnd {
            reads = [:]
            readsEnd = .distantFuture
        }
        var left = idsMax
        while left > 0, let ends = idOrder.first?.ends, ends <= now, let key = idOrder.popFirst()?.key {
            // The same id may have been used again since, under a later number.
            if ids[key] == idNumberOfFirst { ids[key] = nil }
            idNumberOfFirst += 1
            left -= 1
        }
    }

    private func removeHistory() {
        history.removeAll()
        historyBytes = 0
        historyEnds = .distantFuture
    }

    // Faults.

    func loseData() {
        position = .start
        metaEnds = .distantFuture
        removeHistory()
        ids = [:]
        idNumberOfFirst += UInt64(idOrder.count)
        idOrder.removeAll()
        reads = [:]
    }

    func rollBack(_ count: Int) {
        for _ in 0..<count {
            guard let last = history.popLast() else { return }
            historyBytes -= MemoryChannel.cost(of: last.publication)
            position.offset -= 1
            position.tag = last.previous
        }
    }
}

/// Whose id for what: nobody can suppress another user's publication by guessing its id. Its bytes are hashed once, however often it's looked up.
struct MessageKey: Hashable, Sendable {
    let sender: Name
    let messageId: Name
    private let hash: Int

    init(sender: Name, messageId: Name) {
        self.sender = sender
        self.messageId = messageId
        var hasher = Hasher()
        hasher.combine(sender)
        hasher.combine(messageId)
        hash = hasher.finalize()
    }

    func hash(into hasher: inout Hasher) { hasher.combine(hash) }

    static func == (left: MessageKey, right: MessageKey) -> Bool {
        left.hash == right.hash && left.messageId == right.messageId && left.sender == right.sender
    }
}

struct RememberedId: Sendable {
    var key: MessageKey
    /// Of class and payload: the same id with another content is a conflict, not a retry.
    var digest: UInt64
    var position: Position
    var ends: Instant
}
