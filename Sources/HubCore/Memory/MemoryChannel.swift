import HubBase
import HubWire

/// One channel of the embedded broker: where it stands, what it keeps, what it remembers. A class, because the channel table, the walk
/// that evicts and queued publications all name it; it belongs to the broker's loop.
///
/// Most are inboxes in which nothing was ever said: 100 bytes. What the others keep stands in an object of its own (`Kept`).
final class MemoryChannel {
    let name: Name
    /// One for all channels of a namespace.
    private var shared: SharedOptions
    private var kept: Kept?
    /// The last publication's; `.start` when there's none, and the channel stands at the broker's origin.
    private(set) var position = Position.start
    /// The node wants the channel's publications, and is at this place of it.
    var live: Position?
    var isWanted = false
    private var listPlace: Int32

    private final class Kept {
        var metaEnds = Instant.distantFuture
        var history = Queue<PositionedPublication>()
        var historyBytes = 0
        var historyEnds = Instant.distantFuture
        /// Message ids within the dedup window: key to its number in `idOrder`, which is in the order of their ends.
        var ids: [MessageKey: UInt64] = [:]
        var idOrder = Queue<RememberedId>()
        var idNumberOfFirst: UInt64 = 0
        /// When the first of them ends: asked with each publication, without a look at its names.
        var idsEnd = Instant.distantFuture
        var reads: [Name: UInt64] = [:]
        var readsEnd = Instant.distantFuture

        var isNothing: Bool { metaEnds == .distantFuture && history.isEmpty && idOrder.isEmpty && reads.isEmpty }

        func removeHistory() {
            history.removeAll()
            historyBytes = 0
            historyEnds = .distantFuture
        }
    }

    /// Positions are remembered for this long after the last publication (redis-design §4).
    static let metaTTL = Span.seconds(7 * 86_400)

    init(name: Name, options: SharedOptions, place: Int) {
        self.name = name
        shared = options
        listPlace = Int32(truncatingIfNeeded: place)
    }

    /// From a snapshot. What ran out meanwhile goes with the next `expire`.
    convenience init(_ image: ChannelImage, options: SharedOptions, place: Int) {
        self.init(name: image.name, options: options, place: place)
        position = image.position
        let kept = keeping()
        kept.metaEnds = image.metaEnds
        kept.history = image.history
        kept.historyBytes = (0..<image.history.count).reduce(0) { $0 + MemoryChannel.cost(of: image.history[$1].publication) }
        kept.historyEnds = image.historyEnds
        for number in 0..<image.ids.count { kept.ids[image.ids[number].key] = UInt64(number) }
        kept.idOrder = image.ids
        kept.idsEnd = image.ids.first?.ends ?? .distantFuture
        kept.reads = image.reads
        kept.readsEnd = image.readsEnd
    }

    var image: ChannelImage {
        guard let kept else { return ChannelImage(name: name, position: position) }
        return ChannelImage(
            name: name, position: position, metaEnds: kept.metaEnds, history: kept.history, historyEnds: kept.historyEnds,
            ids: kept.idOrder, reads: kept.reads, readsEnd: kept.readsEnd)
    }

    var options: HistoryOptions { shared.value }
    func adopt(_ options: SharedOptions) { shared = options }

    /// Where it stands in the broker's list.
    var place: Int {
        get { Int(listPlace) }
        set { listPlace = Int32(truncatingIfNeeded: newValue) }
    }

    var history: Queue<PositionedPublication> { kept?.history ?? Queue() }
    var historyBytes: Int { kept?.historyBytes ?? 0 }
    var idCount: Int { kept?.idOrder.count ?? 0 }
    var readCount: Int { kept?.reads.count ?? 0 }
    /// Nothing that anybody could miss.
    var isForgettable: Bool { !isWanted && isBlank }

    private func keeping() -> Kept {
        let kept = kept ?? Kept()
        self.kept = kept
        return kept
    }

    /// Where it stands. `origin`: where channels stand of which there's nothing.
    func tip(_ origin: Position) -> Position { position == .start ? origin : position }

    /// Gives `publication` the next position and keeps what is to be kept. `epoch` is used when the channel begins, after `origin`.
    func append(_ publication: Publication, epoch: Mark, origin: Position, tag: Mark, at now: Instant) -> PositionedPublication {
        let kept = keeping()
        if position == .start {
            kept.removeHistory()
            // Its offsets begin anew: an old read position would hold everybody's for ever.
            kept.reads = [:]
            position = Position(epoch: epoch, offset: 0, tag: origin.tag)
        }
        let previous = position.tag
        position.offset += 1
        position.tag = tag
        let (size, ttl) = (shared.value.size, shared.value.ttl)
        kept.metaEnds = now + max(MemoryChannel.metaTTL, ttl)
        let positioned = PositionedPublication(position: position, previous: previous, publication: publication)
        // What's kept has no hole: when nothing is kept any more, what was is over too.
        if size <= 0 { kept.removeHistory() }
        if size > 0 {
            kept.history.append(positioned)
            kept.historyBytes += MemoryChannel.cost(of: publication)
            while kept.history.count > size, let oldest = kept.history.popFirst() {
                kept.historyBytes -= MemoryChannel.cost(of: oldest.publication)
            }
            kept.historyEnds = now + ttl
        }
        return positioned
    }

    /// What a kept publication is taken to weigh: its payload, and its fields with their array headers.
    static func cost(of publication: Publication) -> Int { publication.payload.count + 256 }

    // Message ids.

    func remembered(_ key: MessageKey) -> RememberedId? {
        guard let kept, let number = kept.ids[key] else { return nil }
        return kept.idOrder[Int(number - kept.idNumberOfFirst)]
    }

    func remember(_ key: MessageKey, digest: UInt64, at now: Instant) {
        let kept = keeping()
        let ends = now + shared.value.dedup
        if kept.idOrder.isEmpty { kept.idsEnd = ends }
        kept.ids[key] = kept.idNumberOfFirst + UInt64(kept.idOrder.count)
        kept.idOrder.append(RememberedId(key: key, digest: digest, position: position, ends: ends))
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
        let current = kept?.reads[user] ?? 0
        guard offset > current else { return (current, false) }
        let kept = keeping()
        kept.reads[user] = offset
        kept.readsEnd = now + MemoryChannel.metaTTL
        return (offset, true)
    }

    /// `user`'s own first, then some others', `limit` in all. Cost: those that are given.
    func marks(of user: Name, limit: Int) -> [ReadMark] {
        guard limit > 0, let reads = kept?.reads else { return [] }
        var marks: [ReadMark] = []
        if let own = reads[user] { marks.append(ReadMark(user: user, offset: own)) }
        for (other, offset) in reads where other != user {
            if marks.count >= limit { break }
            marks.append(ReadMark(user: other, offset: offset))
        }
        return marks
    }

    func hasRead(_ user: Name) -> Bool { kept?.reads[user] != nil }

    // Ends.

    /// Drops what ran out. Message ids: a few for each call, as each call that adds one makes room for more than one.
    func expire(at now: Instant, idsMax: Int) {
        guard let kept else { return }
        if now >= kept.historyEnds { kept.removeHistory() }
        if now >= kept.metaEnds {
            position = .start
            kept.metaEnds = .distantFuture
            kept.removeHistory()
        }
        if now >= kept.readsEnd {
            kept.reads = [:]
            kept.readsEnd = .distantFuture
        }
        var left = idsMax
        while left > 0, kept.idsEnd <= now, let key = kept.idOrder.popFirst()?.key {
            // The same id may have been used again since, under a later number.
            if kept.ids[key] == kept.idNumberOfFirst { kept.ids[key] = nil }
            kept.idNumberOfFirst += 1
            kept.idsEnd = kept.idOrder.first?.ends ?? .distantFuture
            left -= 1
        }
        if kept.isNothing { self.kept = nil }
    }

    // Faults.

    func loseData() {
        position = .start
        kept = nil
    }

    func rollBack(_ count: Int) {
        for _ in 0..<count {
            guard let kept, let last = kept.history.popLast() else { return }
            kept.historyBytes -= MemoryChannel.cost(of: last.publication)
            position.offset -= 1
            position.tag = last.previous
        }
    }
}

/// What a namespace keeps, once for all its channels.
final class SharedOptions {
    let value: HistoryOptions
    init(_ value: HistoryOptions) { self.value = value }
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
