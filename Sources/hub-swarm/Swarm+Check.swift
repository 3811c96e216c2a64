import HubBase
import HubCheck
import HubClient
import HubSwarm
import HubWire

/// The swarm's traffic before the checker that judges journals and the simulation too: what was promised to whom, over all its connections.
///
/// It remembers each delivery, so runs that expect more than `deliveriesMax` are judged by the bounded tallies alone, and say so.
struct SwarmCheck {
    static let deliveriesMax = 5_000_000.0

    private var checker = DeliveryChecker()
    private var seats: [Seat]
    private var now = Instant(nanoseconds: 0)
    /// When each bot heard of a room last.
    private var heard: [Instant]

    /// Where a bot stands, as it will say when it comes back.
    private struct Seat {
        var position: Position?
        /// Out of the ack that follows.
        var page: [(message: DeliveryChecker.Message, position: Position)] = []
        var isPaging = false
    }

    /// `seats`: a bot's places in its rooms; of bots with one room each, their number.
    init(seats: Int) {
        self.seats = [Seat](repeating: Seat(), count: seats)
        heard = [Instant](repeating: Instant(nanoseconds: 0), count: seats)
    }

    /// What's told from now on happens at `now`.
    mutating func pass(to now: Instant) {
        self.now = now
        checker.pass(to: now)
    }

    mutating func sent(_ id: Name, to room: Name, by bot: Int) { checker.sent(Self.message(id), to: room, by: bot) }

    mutating func acknowledged(_ id: Name, in room: Name, at position: Position, by bot: Int) {
        checker.acknowledged(Self.message(id), in: room, at: position, by: bot)
    }

    mutating func missed(_ envelope: ServerEnvelope, _ bytes: UnsafeRawBufferPointer, seat: Int) {
        if let entry = Self.entry(envelope, bytes) { seats[seat].page.append(entry) }
    }

    mutating func joined(_ room: Name, _ envelope: ServerEnvelope, _ bytes: UnsafeRawBufferPointer, isPage: Bool, by bot: Int) {
        guard envelope.position.isPresent, let position = Position(text: envelope.position.bytes(in: bytes)) else { return }
        joined(room, at: position, recovered: envelope.recovered, hasMore: envelope.more, isPage: isPage, by: bot, seat: bot)
    }

    /// A subscription's answer, or the next page of one; `seat`: the bot's place in that room.
    mutating func joined(_ room: Name, at position: Position, recovered: Bool?, hasMore: Bool, isPage: Bool, by bot: Int, seat: Int) {
        let page = seats[seat].page
        seats[seat].page = []
        heard[bot] = now
        if isPage && recovered != false {
            guard seats[seat].isPaging else { return }
            checker.continued(room, page: page, at: position, hasMore: hasMore, by: bot)
        } else if isPage {
            // It broke off midway: told like one that breaks off at once.
            checker.subscribed(room, at: position, recovered: false, page: page, hasMore: hasMore, from: nil, by: bot)
        } else {
            checker.subscribed(
                room, at: position, recovered: recovered, page: page, hasMore: hasMore, from: seats[seat].position, by: bot)
        }
        seats[seat].isPaging = hasMore
        seats[seat].position = position
    }

    mutating func received(_ room: Name, _ envelope: ServerEnvelope, _ bytes: UnsafeRawBufferPointer, by bot: Int, seat: Int) {
        guard let entry = Self.entry(envelope, bytes) else { return }
        heard[bot] = now
        if let offset = envelope.offset, offset != entry.position.offset {
            checker.contradicted(room, "was told the offset \(offset) together with the position \(entry.position)", by: bot)
        }
        checker.received(entry.message, in: room, at: entry.position, by: bot)
        seats[seat].position = entry.position
    }

    mutating func announced(_ room: Name, _ envelope: ServerEnvelope, _ bytes: UnsafeRawBufferPointer, by bot: Int, seat: Int) {
        guard envelope.position.isPresent, let position = Position(text: envelope.position.bytes(in: bytes)) else { return }
        checker.announced(room, at: position, by: bot)
        seats[seat].position = position
    }

    /// `isOwnDoing`: the connection was well until then. Else what was owed is what came up to the last sign of life; who was closed for reading
    /// too slowly, 4008, wasn't owed what it hadn't read.
    mutating func ended(_ bot: Int, _ end: TransportEnd, isOwnDoing: Bool, seats places: Range<Int>) {
        switch end {
        case .closed(code: 4008, _): checker.ended(bot, heard: Instant(nanoseconds: 0))
        case .closed: checker.ended(bot)
        default: checker.ended(bot, heard: isOwnDoing ? nil : heard[bot])
        }
        for seat in places {
            seats[seat].page = []
            seats[seat].isPaging = false
        }
    }

    mutating func refusedSubscription(_ room: Name, by bot: Int) { checker.refusedSubscription(room, by: bot) }

    mutating func degraded(_ bot: Int) { checker.degraded(bot) }

    mutating func restored(_ bot: Int) { checker.restored(bot) }

    mutating func unsubscribed(_ room: Name, by bot: Int) { checker.unsubscribed(room, by: bot) }

    mutating func finish() -> CheckReport { checker.finish() }

    /// Ids of a run are unique among all bots.
    private static func message(_ id: Name) -> DeliveryChecker.Message { DeliveryChecker.Message(user: .empty, id: id) }

    private static func entry(
        _ envelope: ServerEnvelope, _ bytes: UnsafeRawBufferPointer
    ) -> (message: DeliveryChecker.Message, position: Position)? {
        guard envelope.position.isPresent, let position = Position(text: envelope.position.bytes(in: bytes)),
            let id = JSONText.name(envelope.messageId.bytes(in: bytes), hasEscapes: envelope.escapes, limit: Name.lengthMax)
        else { return nil }
        return (message(id), position)
    }
}
