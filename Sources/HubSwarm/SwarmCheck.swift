import HubBase
import HubCheck
import HubClient
import HubWire

/// The swarm's traffic before the checker that judges journals and the simulation too: what was promised to whom, over all its connections.
///
/// It remembers each delivery, so runs that expect more than `deliveriesMax` are judged by the bounded tallies alone, and say so.
package struct SwarmCheck {
    package static let deliveriesMax = 5_000_000.0

    private var checker = DeliveryChecker()
    private var seats: [Seat]
    private var now = Instant(nanoseconds: 0)
    /// When each bot heard of a room last.
    private var heard: [Instant]
    /// Where what's under way was sent.
    private var asked: [Name: Name] = [:]

    /// Where a bot stands, as it will say when it comes back.
    private struct Seat {
        var position: Position?
        /// Out of the ack that follows.
        var page: [(message: DeliveryChecker.Message, position: Position)] = []
        var isPaging = false
    }

    /// `seats`: a bot's places in its rooms; of bots with one room each, their number.
    package init(seats: Int) {
        self.seats = [Seat](repeating: Seat(), count: seats)
        heard = [Instant](repeating: Instant(nanoseconds: 0), count: seats)
    }

    /// What's told from now on happens at `now`.
    package mutating func pass(to now: Instant) {
        self.now = now
        checker.pass(to: now)
    }

    /// `user`, `device`: as whom others are to see it.
    package mutating func sent(
        _ id: Name, to room: Name, _ kind: ServerEnvelope.Kind, user: Name, device: String, payload: [UInt8], by bot: Int
    ) {
        checker.sent(Self.message(id), to: room, by: bot)
        asked[id] = room
        let digest = user.bytes.withUnsafeBytes { user in
            Array(device.utf8).withUnsafeBytes { device in
                payload.withUnsafeBytes { ContentDigest.of(kind.rawValue, user: user, device: device, payload: $0) }
            }
        }
        checker.carried(Self.message(id), in: room, digest: digest, by: bot, isSent: true)
    }

    /// The answer to what was sent with that id: it names what was sent where, and one place.
    package mutating func acknowledged(
        _ id: Name, _ envelope: ServerEnvelope, _ bytes: UnsafeRawBufferPointer, at position: Position, by bot: Int
    ) {
        guard let room = asked.removeValue(forKey: id) else { return }
        compare(room, envelope.offset, position, by: bot)
        if !Self.isName(id, envelope.messageId, envelope, bytes) {
            checker.contradicted(room, "was acknowledged \(id) under another messageId", by: bot)
        }
        guard Self.isName(room, envelope.channel, envelope, bytes) else {
            return checker.contradicted(room, "was acknowledged \(id) in another channel", by: bot)
        }
        checker.acknowledged(Self.message(id), in: room, at: position, by: bot)
    }

    /// An offset is that of the position beside it.
    package mutating func compare(_ room: Name, _ offset: UInt64?, _ position: Position, by bot: Int) {
        guard let offset, offset != position.offset else { return }
        checker.contradicted(room, "was told the offset \(offset) together with the position \(position)", by: bot)
    }

    package mutating func contradicted(_ room: Name, _ text: String, by bot: Int) { checker.contradicted(room, text, by: bot) }

    package mutating func missed(_ room: Name, _ envelope: ServerEnvelope, _ bytes: UnsafeRawBufferPointer, by bot: Int, seat: Int) {
        guard let entry = Self.entry(envelope, bytes) else { return }
        look(room, entry, envelope, bytes, by: bot)
        seats[seat].page.append(entry)
    }

    package mutating func joined(_ room: Name, _ envelope: ServerEnvelope, _ bytes: UnsafeRawBufferPointer, isPage: Bool, by bot: Int) {
        guard envelope.position.isPresent, let position = Position(text: envelope.position.bytes(in: bytes)) else { return }
        compare(room, envelope.offset, position, by: bot)
        joined(room, at: position, recovered: envelope.recovered, hasMore: envelope.more, isPage: isPage, by: bot, seat: bot)
    }

    /// A subscription's answer, or the next page of one; `seat`: the bot's place in that room.
    package mutating func joined(_ room: Name, at position: Position, recovered: Bool?, hasMore: Bool, isPage: Bool, by bot: Int, seat: Int)
    {
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

    /// `isEarly`: the client doesn't count it, since it isn't subscribed, or not done with its pages.
    package mutating func received(
        _ room: Name, _ envelope: ServerEnvelope, _ bytes: UnsafeRawBufferPointer, isEarly: Bool = false, by bot: Int, seat: Int
    ) {
        guard let entry = Self.entry(envelope, bytes) else { return }
        heard[bot] = now
        look(room, entry, envelope, bytes, by: bot)
        checker.received(entry.message, in: room, at: entry.position, by: bot)
        if isEarly { return }
        // As the client does, which comes back with it: what comes late, or again, moves nothing.
        if let last = seats[seat].position, last.epoch == entry.position.epoch, entry.position.offset <= last.offset { return }
        seats[seat].position = entry.position
    }

    /// What a single one carries.
    private mutating func look(
        _ room: Name, _ entry: (message: DeliveryChecker.Message, position: Position), _ envelope: ServerEnvelope,
        _ bytes: UnsafeRawBufferPointer, by bot: Int
    ) {
        compare(room, envelope.offset, entry.position, by: bot)
        let digest = ContentDigest.of(
            envelope.kind.rawValue, user: envelope.user.bytes(in: bytes), device: envelope.device.bytes(in: bytes),
            payload: envelope.payload.bytes(in: bytes))
        checker.carried(
            entry.message, in: room, digest: digest, by: bot, isSent: false, what: "content (type, sender, device or payload)")
    }

    /// It came without having been asked for, in a channel of whatever name.
    package mutating func unasked(_ envelope: ServerEnvelope, _ bytes: UnsafeRawBufferPointer, by bot: Int) {
        let name = JSONText.name(envelope.channel.bytes(in: bytes), hasEscapes: envelope.escapes, limit: Name.lengthMax) ?? .empty
        checker.unasked(name, "got \(envelope.kind) without a subscription", by: bot)
    }

    /// The same of somebody's presence, which has no channel.
    package mutating func unasked(_ what: String, by bot: Int) { checker.unasked(.empty, "got \(what) without a subscription", by: bot) }

    package mutating func announced(_ room: Name, _ envelope: ServerEnvelope, _ bytes: UnsafeRawBufferPointer, by bot: Int, seat: Int) {
        guard envelope.position.isPresent, let position = Position(text: envelope.position.bytes(in: bytes)) else { return }
        compare(room, envelope.offset, position, by: bot)
        if envelope.reason.bytes(in: bytes).elementsEqual("epochChanged".utf8) {
            checker.saidChanged(room, to: position, by: bot)
        }
        checker.announced(room, at: position, by: bot)
        seats[seat].position = position
    }

    /// `isOwnDoing`: the connection was well until then. Else what was owed is what came up to the last sign of life; who was closed for reading
    /// too slowly, 4008, wasn't owed what it hadn't read.
    package mutating func ended(_ bot: Int, _ end: TransportEnd, isOwnDoing: Bool, seats places: Range<Int>) {
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

    package mutating func refusedSubscription(_ room: Name, by bot: Int) { checker.refusedSubscription(room, by: bot) }

    package mutating func degraded(_ bot: Int) { checker.degraded(bot) }

    package mutating func restored(_ bot: Int) { checker.restored(bot) }

    package mutating func unsubscribed(_ room: Name, by bot: Int) { checker.unsubscribed(room, by: bot) }

    package mutating func finish() -> CheckReport { checker.finish() }

    private static func isName(_ name: Name, _ field: ByteRange, _ envelope: ServerEnvelope, _ bytes: UnsafeRawBufferPointer) -> Bool {
        guard field.isPresent else { return false }
        return JSONText.name(field.bytes(in: bytes), hasEscapes: envelope.escapes, limit: Name.lengthMax) == name
    }

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
