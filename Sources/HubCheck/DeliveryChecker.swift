import HubBase
import HubWire

/// Decides afterwards whether a hub kept its word: from what everybody sent, was told and got, in the order of time.
///
/// The rules, for each channel:
/// - what was acknowledged reaches every subscriber that stays, or comes back and is told `recovered: true`, unless a gap was announced to it
///   (`resync`, `recovered: false`);
/// - nothing comes twice, or in another order than that of the offsets; what one sender sent in one go keeps its order;
/// - a place (epoch, offset, tag) holds one message, for everybody, with one message before it;
/// - who stands at the beginning of a channel gets all that's sent from then on and acknowledged, or is told, whatever became of the channel;
/// - a message id has one place. Asynchronous replication may take back a place that was acknowledged; its sender must be told, as long as it
///   stays, and everybody who was handed it.
///
/// Cost: about 150 bytes for each message, 60 for each delivery, one or two look-ups for each event.
package struct DeliveryChecker {
    /// Whose message: ids are each sender's own.
    package struct Message: Hashable, Sendable {
        package var user: Name
        package var id: Name

        package init(user: Name, id: Name) {
            self.user = user
            self.id = id
        }
    }

    /// One client's subscription to one channel; the client is the caller's number for it.
    private struct Seat: Hashable {
        var client: Int
        var channel: Int
    }

    private struct Reader {
        /// The last place that it was brought to.
        var cursor: Position
        /// What it got since it began, or since a gap was announced to it last.
        var got: Set<Message> = []
        var isSubscribed = true
        /// What of its own was acknowledged to it on this connection ahead of the cursor.
        var promised: [Place: Mark] = [:]
        /// Its own that were taken back: it must be told before the end.
        var takenBack: [String] = []
        /// The offset from which on it has all up to the cursor, as far as it was told.
        var base: UInt64 = 0
        /// When it was put at its cursor, if that's the origin of a channel.
        var since: UInt64 = 0
        /// What was passed over when it left the origin: it must be told before the end.
        var passedOver: [String] = []
        /// Has been told `more`: live ones come when it has asked for the rest.
        var isPaging = false
    }

    private struct Place: Hashable {
        var epoch: Mark
        var offset: UInt64
    }

    /// What stands at one offset of an epoch, once for each tag that it was seen with.
    private struct Standing {
        var tag: Mark
        var message: Message?
        /// The tag before it, as the first reader that stepped from there saw it.
        var previous: Mark?
    }

    private struct Sent {
        var attempts: Int
        var acknowledged: Position?
        var seen: Position?
        /// Its number among what its client sent to the channel.
        var number: Int
        var client: Int
        /// When it was sent first.
        var at: UInt64
    }

    private struct Channel {
        var name: Name
        var places: [Place: [Standing]] = [:]
        var messages: [Message: Sent] = [:]
        /// Epochs in the order in which they were first heard of.
        var epochs: [Mark: Int] = [:]
        var lastAcknowledged: Position?
        /// Of each epoch: the acknowledged message that was sent last, and when.
        var latest: [Mark: (at: UInt64, message: Message, position: Position)] = [:]
        var announcements = 0
        var sentBy: [Int: Int] = [:]
    }

    private var channels: [Channel] = []
    private var channelNumbers: [Name: Int] = [:]
    private var readers: [Seat: Reader] = [:]
    /// Of each client, those that it ever had.
    private var seats: [Int: Set<Seat>] = [:]
    /// How much has happened: the order of time.
    private var clock: UInt64 = 0
    private let mayTakeBack: Bool
    private let tellsAll: Bool
    /// What may be taken back without a word.
    private var excused = Set<Message>()
    package private(set) var report = CheckReport()

    /// `mayTakeBack`: nodes may go on writing to a primary that has been replaced, as long as they haven't heard of it. Then a channel may begin
    /// twice, and who stands at its beginning isn't told of the one that was taken back. `tellsAll`: whoever stood before a place that was
    /// acknowledged and taken back must be told, wherever it was then.
    package init(mayTakeBack: Bool = false, tellsAll: Bool = false) {
        self.mayTakeBack = mayTakeBack
        self.tellsAll = tellsAll
    }

    // MARK: What happened

    /// The node that acknowledged it is no more: were it taken back too, nobody would know.
    package mutating func excuse(_ message: Message, in channel: Name) { excused.insert(message) }

    /// The same message again is a retry.
    package mutating func sent(_ message: Message, to channel: Name, by client: Int) {
        let channel = number(of: channel)
        if channels[channel].messages[message] != nil {
            channels[channel].messages[message]?.attempts += 1
            report.retries += 1
            return
        }
        report.sent += 1
        clock += 1
        channels[channel].sentBy[client, default: 0] += 1
        channels[channel].messages[message] = Sent(
            attempts: 1, acknowledged: nil, seen: nil, number: channels[channel].sentBy[client] ?? 0, client: client, at: clock)
    }

    package mutating func acknowledged(_ message: Message, in name: Name, at position: Position, by client: Int) {
        let channel = number(of: name)
        report.acknowledged += 1
        var sent = channels[channel].messages[message] ?? Sent(attempts: 1, acknowledged: nil, seen: nil, number: 0, client: client, at: 0)
        // The same place in a channel that has another epoch since is no other one.
        if let first = sent.acknowledged, first.offset != position.offset || first.tag != position.tag {
            find(.contradiction, channel, client, "\(message) was acknowledged at \(first) and again at \(position)", unlessAnnounced: true)
        }
        sent.acknowledged = sent.acknowledged ?? position
        channels[channel].messages[message] = sent
        if sent.at > channels[channel].latest[position.epoch]?.at ?? 0 {
            channels[channel].latest[position.epoch] = (sent.at, message, position)
        }
        let seat = Seat(client: client, channel: channel)
        if let reader = readers[seat], reader.isSubscribed, !reader.isPaging, position.offset > reader.cursor.offset {
            readers[seat]?.promised[Place(epoch: position.epoch, offset: position.offset)] = position.tag
        }
        channels[channel].lastAcknowledged = position
        note(message, at: position, previous: nil, channel, client)
    }

    package mutating func refused(_ message: Message, in channel: Name) { report.refused += 1 }

    /// A subscription's answer. `from`, `recovered`: as asked and told; `page`: what came with it, in order.
    package mutating func subscribed(
        _ name: Name, at position: Position, recovered: Bool?, page: [(message: Message, position: Position)], hasMore: Bool,
        from: Position?, by client: Int
    ) {
        let channel = number(of: name)
        let seat = Seat(client: client, channel: channel)
        noteEpoch(position.epoch, of: channel)
        seats[client, default: []].insert(seat)
        guard recovered == true, let from else {
            if recovered == false { announce(channel, \.unrecovered) }
            for entry in page { note(entry.message, at: entry.position, previous: nil, channel, client) }
            let last = hasMore ? page.last?.position ?? position : position
            clock += 1
            readers[seat] = Reader(cursor: last, base: last.offset, since: clock, isPaging: hasMore)
            return
        }
        report.recovered += 1
        let before = readers[seat].flatMap { $0.cursor == from ? $0 : nil }
        clock += 1
        readers[seat] = Reader(
            cursor: from, got: before?.got ?? [], base: before?.base ?? from.offset, since: before?.since ?? clock,
            passedOver: before?.passedOver ?? [], isPaging: hasMore)
        for entry in page { deliver(entry.message, in: channel, at: entry.position, to: client) }
        let reached = readers[seat]?.cursor ?? from
        if !hasMore && reached != position {
            find(.falseRecovery, channel, client, "told recovered from \(from), at \(position), but was brought to \(reached)")
            readers[seat]?.cursor = position
        }
    }

    /// A page of history that the client asked for because it was told `more`. `position`: where it was told that the page ends.
    package mutating func continued(
        _ name: Name, page: [(message: Message, position: Position)], at position: Position? = nil, hasMore: Bool, by client: Int
    ) {
        let channel = number(of: name)
        let seat = Seat(client: client, channel: channel)
        guard readers[seat]?.isPaging == true else { return }
        for entry in page { deliver(entry.message, in: channel, at: entry.position, to: client) }
        readers[seat]?.isPaging = hasMore
        if let position, let reached = readers[seat]?.cursor, !hasMore, reached != position {
            find(.falseRecovery, channel, client, "told recovered, at \(position), but its pages brought it to \(reached)")
            readers[seat]?.cursor = position
        }
    }

    package mutating func received(_ message: Message, in name: Name, at position: Position, by client: Int) {
        let channel = number(of: name)
        let seat = Seat(client: client, channel: channel)
        guard readers[seat]?.isSubscribed == true else {
            return find(.unasked, channel, client, "got \(message) at \(position) without a subscription")
        }
        if readers[seat]?.isPaging == true {
            find(.gap, channel, client, "got \(message) at \(position) live before it had the rest of its pages")
        }
        deliver(message, in: channel, at: position, to: client)
    }

    /// A `resync`: what was published before `position` may be missing.
    package mutating func announced(_ name: Name, at position: Position, by client: Int) {
        let channel = number(of: name)
        announce(channel, \.resyncs)
        noteEpoch(position.epoch, of: channel)
        let seat = Seat(client: client, channel: channel)
        readers[seat]?.cursor = position
        readers[seat]?.got = []
        readers[seat]?.base = position.offset
        readers[seat]?.promised = [:]
        readers[seat]?.takenBack = []
        clock += 1
        readers[seat]?.since = clock
        readers[seat]?.passedOver = []
        readers[seat]?.isPaging = false
    }

    package mutating func unsubscribed(_ name: Name, by client: Int) {
        readers[Seat(client: client, channel: number(of: name))] = nil
    }

    /// The connection is over. Nothing is owed until it comes back, and then as its next subscription says.
    package mutating func ended(_ client: Int) {
        for seat in seats[client] ?? [] {
            readers[seat]?.isSubscribed = false
            readers[seat]?.promised = [:]
            readers[seat]?.takenBack = []
        }
    }

    // MARK: The end

    /// All is quiet: whoever is subscribed must have everything. Call it once.
    package mutating func finish() -> CheckReport {
        for (seat, reader) in readers where reader.isSubscribed { settle(reader, seat) }
        for channel in channels.indices {
            settleOrder(of: channel)
            countTakenBack(of: channel)
            if tellsAll { settleTakenBack(of: channel) }
        }
        report.unanswered =
            report.sent - min(report.sent, UInt64(channels.reduce(0) { $0 + $1.messages.values.count { $0.acknowledged != nil } }))
        return report
    }

    private mutating func settle(_ reader: Reader, _ seat: Seat) {
        report.subscriptions += 1
        for text in reader.takenBack + reader.passedOver { find(.lost, seat.channel, seat.client, text) }
        let channel = channels[seat.channel]
        // The last one in time: what was acknowledged further on before was taken back.
        guard let last = channel.lastAcknowledged, let order = channel.epochs[last.epoch] else { return }
        if reader.isPaging { return find(.lost, seat.channel, seat.client, "was told that there is more, and never got to the end") }
        if reader.cursor.isOrigin {
            guard let newest = channel.latest.values.max(by: { $0.at < $1.at }), newest.at > reader.since else { return }
            find(
                .lost, seat.channel, seat.client,
                "is at \(reader.cursor); \(newest.message), acknowledged at \(newest.position), never came")
        } else if reader.cursor.epoch == last.epoch {
            guard reader.cursor.offset < last.offset else { return }
            let missing = last.offset - reader.cursor.offset
            find(.lost, seat.channel, seat.client, "is at \(reader.cursor); \(missing) up to \(last), which was acknowledged, never came")
        } else if let own = channel.epochs[reader.cursor.epoch], own > order {
            // It was brought to a newer epoch, and told.
            return
        } else {
            find(.lost, seat.channel, seat.client, "is at \(reader.cursor), and was never told of the epoch of \(last)")
        }
    }

    /// What one client sent once each, without waiting, stands in the order of sending.
    private mutating func settleOrder(of channel: Int) {
        var lines: [Int: [(number: Int, position: Position)]] = [:]
        for sent in channels[channel].messages.values where sent.attempts == 1 {
            guard let position = sent.acknowledged ?? sent.seen else { continue }
            // What was taken back has no place any more.
            let standing = channels[channel].places[Place(epoch: position.epoch, offset: position.offset)]
            let isBeyond = channels[channel].lastAcknowledged.map { $0.epoch == position.epoch && $0.offset < position.offset } ?? false
            if standing?.count == 1 && !isBeyond { lines[sent.client, default: []].append((sent.number, position)) }
        }
        for (client, line) in lines {
            let ordered = line.sorted { $0.number < $1.number }
            for (earlier, later) in zip(ordered, ordered.dropFirst())
            where earlier.position.epoch == later.position.epoch && earlier.position.offset >= later.position.offset {
                find(.outOfOrder, channel, client, "sent the message at \(earlier.position) before the one at \(later.position)")
            }
        }
    }

    /// Acknowledged at a place where somebody was handed another message.
    private mutating func countTakenBack(of channel: Int) {
        for sent in channels[channel].messages.values {
            guard let position = sent.acknowledged else { continue }
            let standing = channels[channel].places[Place(epoch: position.epoch, offset: position.offset)]
            if let standing, standing.count > 1 { report.takenBack += 1 }
        }
    }

    /// Whoever was brought past a place without the message that was acknowledged there hasn't been told that it's gone.
    private mutating func settleTakenBack(of channel: Int) {
        for (place, standing) in channels[channel].places where standing.count > 1 {
            for one in standing {
                guard let message = one.message, !excused.contains(message),
                    channels[channel].messages[message]?.acknowledged
                        == Position(epoch: place.epoch, offset: place.offset, tag: one.tag)
                else { continue }
                for (seat, reader) in readers
                where seat.channel == channel && reader.isSubscribed && reader.cursor.epoch == place.epoch
                    && reader.base < place.offset && place.offset <= reader.cursor.offset && !reader.got.contains(message)
                {
                    find(
                        .lost, channel, seat.client,
                        "is at \(reader.cursor); \(message), acknowledged as \(place.offset).\(one.tag), was taken back, and it wasn't told"
                    )
                }
            }
        }
    }

    // MARK: Inside

    private mutating func deliver(_ message: Message, in channel: Int, at position: Position, to client: Int) {
        let seat = Seat(client: client, channel: channel)
        guard let reader = readers[seat] else { return }
        report.delivered += 1
        let cursor = reader.cursor
        let isFirst = cursor.isOrigin && position.offset == 1
        if isFirst { passOver(from: reader, to: position, seat) }
        guard cursor.epoch == position.epoch || isFirst else {
            find(.gap, channel, client, "went from \(cursor) to \(position), another epoch, and wasn't told")
            readers[seat]?.cursor = position
            return note(message, at: position, previous: nil, channel, client)
        }
        if position.offset <= cursor.offset {
            return find(.twice, channel, client, "got \(message) at \(position) when it was at \(cursor) already")
        }
        if position.offset > cursor.offset + 1 {
            let missing = position.offset - cursor.offset - 1
            find(.gap, channel, client, "went from \(cursor) to \(position): \(missing) passed over, and wasn't told")
            note(message, at: position, previous: nil, channel, client)
            readers[seat]?.cursor = position
            return
        }
        if readers[seat]?.got.insert(message).inserted == false {
            find(.twice, channel, client, "got \(message) again, at \(position)")
        }
        if let own = readers[seat]?.promised.removeValue(forKey: Place(epoch: position.epoch, offset: position.offset)), own != position.tag
        {
            readers[seat]?.takenBack.append(
                "its own, acknowledged as \(position.offset).\(own), was taken back for \(position), and it wasn't told")
        }
        note(message, at: position, previous: cursor.tag, channel, client)
        readers[seat]?.cursor = position
    }

    /// It goes from the origin into an epoch: has another one begun and ended meanwhile?
    private mutating func passOver(from reader: Reader, to position: Position, _ seat: Seat) {
        guard !mayTakeBack else { return }
        let channel = channels[seat.channel]
        let order = channel.epochs[position.epoch] ?? .max
        for (epoch, last) in channel.latest
        where last.at > reader.since && channel.epochs[epoch] ?? .max < order && !excused.contains(last.message) {
            readers[seat]?.passedOver.append(
                "went from \(reader.cursor) to \(position), past \(last.message), acknowledged at \(last.position), and wasn't told")
        }
    }

    /// A place holds one message, and has one before it.
    private mutating func note(_ message: Message, at position: Position, previous: Mark?, _ channel: Int, _ client: Int) {
        noteEpoch(position.epoch, of: channel)
        channels[channel].messages[message]?.seen = position
        let place = Place(epoch: position.epoch, offset: position.offset)
        var standing = channels[channel].places[place] ?? []
        guard let known = standing.firstIndex(where: { $0.tag == position.tag }) else {
            standing.append(Standing(tag: position.tag, message: message, previous: previous))
            channels[channel].places[place] = standing
            return
        }
        if let other = standing[known].message, other != message {
            find(.contradiction, channel, client, "\(position) is \(message), but was \(other) to others")
        }
        if let previous {
            if let other = standing[known].previous, other != previous {
                find(.gap, channel, client, "reached \(position) from the tag \(previous), others from \(other): one of them wasn't told")
            }
            standing[known].previous = previous
            channels[channel].places[place] = standing
        }
    }

    private mutating func announce(_ channel: Int, _ count: WritableKeyPath<CheckReport, UInt64>) {
        channels[channel].announcements += 1
        report[keyPath: count] += 1
    }

    private mutating func noteEpoch(_ mark: Mark, of channel: Int) {
        guard mark != .none else { return }
        if channels[channel].epochs[mark] == nil { channels[channel].epochs[mark] = channels[channel].epochs.count }
    }

    private mutating func number(of name: Name) -> Int {
        if let number = channelNumbers[name] { return number }
        channelNumbers[name] = channels.count
        channels.append(Channel(name: name))
        return channels.count - 1
    }

    private mutating func find(_ fault: CheckReport.Fault, _ channel: Int, _ client: Int, _ text: String, unlessAnnounced: Bool = false) {
        if unlessAnnounced && channels[channel].announcements > 0 { return }
        report.add(CheckReport.Finding(fault: fault, channel: channels[channel].name, client: client, text: text))
    }
}

extension DeliveryChecker.Message: CustomStringConvertible {
    package var description: String { "\(user.isEmpty ? "the backend" : "\(user)")'s \(id)" }
}
