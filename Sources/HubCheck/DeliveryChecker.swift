import HubBase
import HubWire

/// Decides afterwards whether a hub kept its word: from what everybody sent, was told and got, in the order of time.
///
/// The rules, for each channel:
/// - what was acknowledged reaches every subscriber that stays, or comes back and is told `recovered: true`, unless a gap was announced to it
///   (`resync`, `recovered: false`); who goes, unsubscribes or subscribes anew has by then what's older than the grace;
/// - a subscription, whether new, renewed or recovered, begins where the client had been brought to, unless that's announced;
/// - a message comes as it was sent, and one that was refused for good comes to nobody;
/// - nothing comes twice, or in another order than that of the offsets; what one sender sent in one go over one connection keeps its order,
///   and stands behind what was acknowledged to it before (decision 0317);
/// - a place (epoch, offset, tag) holds one message, for everybody, with one message before it;
/// - who stands at the beginning of a channel gets all that's sent from then on and acknowledged, or is told, whatever became of the channel;
/// - a message id has one place. Asynchronous replication may take back a place that was acknowledged; its sender must be told, as long as it
///   stays, everybody who was handed it, and everybody who stood before it (decisions 0250, 0318).
///
/// Cost: about 250 bytes for each message, 60 for each delivery, one or two look-ups for each event.
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
    struct Seat: Hashable {
        var client: Int
        var channel: Int
    }

    struct Reader {
        /// The last place that it was brought to.
        var cursor: Position
        /// What it got since it began, or since a gap was announced to it last.
        var got: Set<Message> = []
        var isSubscribed = true
        /// What of its own was acknowledged to it on this connection ahead of the cursor.
        var promised: [Place: Mark] = [:]
        /// Its own that were taken back: it must be told before the end.
        var takenBack: [Untold] = []
        /// The offset from which on it has all up to the cursor, as far as it was told.
        var base: UInt64 = 0
        /// When it was answered last where it stands.
        var cameAt = Instant(nanoseconds: 0)
        /// The places that it was told to have recovered.
        var claim: ClosedRange<UInt64>?
        /// What it had got when it was told to go on from further back, and up to where.
        var rewound: (offset: UInt64, got: Set<Message>)?
        /// When it unsubscribed without asking for an answer: what was under way may still come.
        var leftAt: Instant?
        /// When it was put at its cursor, if that's the origin of a channel.
        var since: UInt64 = 0
        /// From which time on it's owed what's acknowledged: since it was put somewhere, not brought there.
        var owedSince = Instant(nanoseconds: 0)
        /// Its last connection ended while its hub was in trouble: the next one owes what's acknowledged from its own answer on.
        var endedInTrouble = false
        /// What was passed over when it left the origin: it must be told before the end.
        var passedOver: [Untold] = []
        /// Has been told `more`: live ones come when it has asked for the rest.
        var isPaging = false
        /// What it was led past, and may still get late, in the order of their places.
        var holes: [Hole] = []
    }

    /// What a reader must be told of, and since when.
    struct Untold {
        var text: String
        var at: Instant
        var offset: UInt64
    }

    struct Place: Hashable {
        var epoch: Mark
        var offset: UInt64
    }

    /// What stands at one offset of an epoch, once for each tag that it was seen with.
    struct Standing {
        var tag: Mark
        var message: Message?
        /// The tag before it, as the first reader that stepped from there saw it.
        var previous: Mark?
        /// When it was heard of first, by the clock, and in the order of events.
        var at: Instant
        var order: UInt64
    }

    struct Sent {
        var attempts: Int
        var acknowledged: Position?
        var seen: Position?
        /// When it was seen there first, in the order of events.
        var seenAt: UInt64 = 0
        /// Of what was sent: whether it's an event; nil: unknown, or sent as both.
        var isEvent: Bool?
        /// The digest of the content that was acknowledged.
        var confirmed: UInt64?
        /// Its number among what its client sent to the channel.
        var number: Int
        var client: Int
        /// Which of its client's connections it was sent on first.
        var connection = 0
        /// When it was sent first, and last.
        var at: UInt64
        /// When it was acknowledged first, in the order of events.
        var acknowledgedAt: UInt64 = 0
        var retriedAt: UInt64 = 0
        /// How many of its attempts were refused for good.
        var refusals = 0
    }

    /// What somebody was acknowledged in a channel.
    struct Ack {
        var at: Instant
        /// When the message was sent.
        var sentAt: UInt64
        var message: Message
        var position: Position
        /// Nothing that was acknowledged before lies further on.
        var isLast: Bool
    }

    struct Channel {
        var name: Name
        var places: [Place: [Standing]] = [:]
        /// Where something came to stand that something else had stood at already, and when.
        var forks: [(place: Place, at: Instant)] = []
        var messages: [Message: Sent] = [:]
        /// Epochs in the order in which they were first heard of.
        var epochs: [Mark: Int] = [:]
        var lastAcknowledged: Position?
        /// When, in the order of events.
        var lastClock: UInt64 = 0
        /// In the order of time.
        var acks: [Ack] = []
        /// Digests of what was sent, or else of what was handed out first.
        var payloads: [Message: UInt64] = [:]
        /// Of each epoch: the acknowledged message that was sent last, and when.
        var latest: [Mark: (at: UInt64, message: Message, position: Position)] = [:]
        var announcements = 0
        /// Of an epoch: up to where somebody stood who was told that what it has isn't there any more, and when.
        var changes: [(epoch: Mark, upTo: UInt64, at: Instant)] = []
        /// What was acknowledged, and where another message stands for somebody, or what lies beyond the end of its channel.
        var suspects: [Message: Suspect] = [:]
        var sentBy: [Int: Int] = [:]
    }

    var channels: [Channel] = []
    var channelNumbers: [Name: Int] = [:]
    var readers: [Seat: Reader] = [:]
    /// Of each client, those that it ever had.
    var seats: [Int: Set<Seat>] = [:]
    /// How many connections of each client have ended.
    var connections: [Int: Int] = [:]
    /// How much has happened: the order of time.
    var clock: UInt64 = 0
    /// The caller's time, for what was owed to who went.
    var now = Instant(nanoseconds: 0)
    /// Of each client: while its hub said that it may be behind.
    var troubles: [Int: (since: Instant, until: Instant?)] = [:]
    /// Those whose hub says so now, and when anybody's did last.
    var unwell = Set<Int>()
    var unwellAt: Instant?
    /// When each was told last that something may be missing, or began anew by its own choice, in the order of events.
    var told: [Seat: UInt64] = [:]
    /// Where each was told in a page of history that the channel stands: it may have read up to there by itself.
    var read: [Seat: Position] = [:]
    let grace: Span
    let mayTakeBack: Bool
    let tellsAll: Bool
    /// What may be taken back without a word.
    var excused = Set<Message>()
    package internal(set) var report = CheckReport()

    /// `mayTakeBack`: nodes may go on writing to a primary that has been replaced, as long as they haven't heard of it. Then a channel may begin
    /// twice, and who stands at its beginning isn't told of the one that was taken back. `tellsAll`: whoever stood before a place that was
    /// acknowledged and taken back must be told, wherever it was then (decision 0318); without, only who had heard it. `grace`: how long the hub may take to hand on what it acknowledged; who
    /// goes away, or unsubscribes, must have all that's older (decision 0300).
    package init(mayTakeBack: Bool = false, tellsAll: Bool = true, grace: Span = DeliveryChecker.grace) {
        self.grace = grace
        self.mayTakeBack = mayTakeBack
        self.tellsAll = tellsAll
    }

    package static let grace: Span = .seconds(10)

    // MARK: What happened

    /// What's told from now on happens at `now`, of any clock. Without it nobody who goes is owed anything.
    package mutating func pass(to now: Instant) { self.now = max(self.now, now) }

    /// The node that acknowledged it is no more: were it taken back too, nobody would know.
    package mutating func excuse(_ message: Message, in channel: Name) { excused.insert(message) }

    /// The same message again is a retry.
    package mutating func sent(_ message: Message, to channel: Name, by client: Int) {
        let channel = number(of: channel)
        if channels[channel].messages[message] != nil {
            clock += 1
            channels[channel].messages[message]?.attempts += 1
            channels[channel].messages[message]?.retriedAt = clock
            report.retries += 1
            return
        }
        report.sent += 1
        clock += 1
        channels[channel].sentBy[client, default: 0] += 1
        channels[channel].messages[message] = Sent(
            attempts: 1, acknowledged: nil, seen: nil, number: channels[channel].sentBy[client] ?? 0, client: client,
            connection: connections[client] ?? 0, at: clock)
    }

    /// `isDuplicate`: the hub says that an earlier attempt got that place.
    package mutating func acknowledged(
        _ message: Message, in name: Name, at position: Position, isDuplicate: Bool = false, by client: Int
    ) {
        let channel = number(of: name)
        report.acknowledged += 1
        clock += 1
        if channels[channel].messages[message] == nil {
            find(.contradiction, channel, client, "\(message) was acknowledged at \(position), and nobody had sent it there")
        }
        var sent = channels[channel].messages[message] ?? Sent(attempts: 1, acknowledged: nil, seen: nil, number: 0, client: client, at: 0)
        if sent.acknowledged == nil { sent.acknowledgedAt = clock }
        // The same place in a channel that has another epoch since is no other one.
        if let first = sent.acknowledged, first.epoch != position.epoch, first.offset != position.offset || first.tag != position.tag {
            // Two of one epoch are judged in the end.
            find(.contradiction, channel, client, "\(message) was acknowledged at \(first) and again at \(position)", unlessAnnounced: true)
        }
        let isRepeated = sent.acknowledged == position
        sent.acknowledged = sent.acknowledged ?? position
        channels[channel].messages[message] = sent
        if sent.at > channels[channel].latest[position.epoch]?.at ?? 0 {
            channels[channel].latest[position.epoch] = (sent.at, message, position)
        }
        let seat = Seat(client: client, channel: channel)
        if let reader = readers[seat], reader.isSubscribed, !reader.isPaging, position.offset > reader.cursor.offset {
            readers[seat]?.promised[Place(epoch: position.epoch, offset: position.offset)] = position.tag
        }
        if !isRepeated { noteLast(message, sent, at: position, isDuplicate: isDuplicate, channel) }
        note(message, at: position, previous: nil, channel, client)
        suspect(at: Place(epoch: position.epoch, offset: position.offset), channel)
    }

    /// `isFinal`: it was decided before anything happened, so that this attempt reaches nobody.
    package mutating func refused(_ message: Message, in name: Name, isFinal: Bool = false) {
        report.refused += 1
        let channel = number(of: name)
        if isFinal { channels[channel].messages[message]?.refusals += 1 }
    }

    /// A subscription's answer. `from`, `recovered`: as asked and told; `page`: what came with it, in order.
    package mutating func subscribed(
        _ name: Name, at position: Position, recovered: Bool?, page: [(message: Message, position: Position)], hasMore: Bool,
        from: Position?, by client: Int
    ) {
        let channel = number(of: name)
        let seat = Seat(client: client, channel: channel)
        noteEpoch(position.epoch, of: channel)
        seats[client, default: []].insert(seat)
        settleHoles(seat)
        settleTail(seat)
        let from = from ?? (recovered == true ? resumed(seat, page) : nil)
        judgeClaim(seat, at: position, recovered: recovered, from: from)
        read[seat] = nil
        guard recovered == true, let from else {
            if recovered == false {
                announce(channel, \.unrecovered)
                if let from, from.epoch == position.epoch, position.offset <= from.offset { noteChange(channel, from: from, to: position) }
            }
            for entry in page { note(entry.message, at: entry.position, previous: nil, channel, client) }
            if recovered == true { judgePage(page, upTo: hasMore ? nil : position, seat) }
            let last = hasMore ? page.last?.position ?? position : position
            clock += 1
            readers[seat] = Reader(cursor: last, base: last.offset, cameAt: now, since: clock, owedSince: now, isPaging: hasMore)
            told[seat] = clock
            return
        }
        report.recovered += 1
        let before = readers[seat].flatMap { $0.cursor == from ? $0 : nil }
        clock += 1
        readers[seat] = Reader(
            cursor: from, got: before?.got ?? [], base: before?.base ?? from.offset, cameAt: now,
            claim: from.offset < position.offset ? from.offset + 1...position.offset : nil, since: before?.since ?? clock,
            owedSince: before.flatMap { $0.endedInTrouble ? nil : $0.owedSince } ?? now, passedOver: before?.passedOver ?? [],
            isPaging: hasMore)
        for entry in page { deliver(entry.message, in: channel, at: entry.position, to: client) }
        let reached = readers[seat]?.cursor ?? from
        if !hasMore && reached != position {
            find(.falseRecovery, channel, client, "told recovered from \(from), at \(position), but was brought to \(reached)")
            readers[seat]?.cursor = position
        }
    }

    /// A page of history that the client asked for because it was told `more`. `position`: where it was told that the page ends.
    package mutating func continued(
        _ name: Name, page: [(message: Message, position: Position)], at position: Position, hasMore: Bool, by client: Int
    ) {
        let channel = number(of: name)
        let seat = Seat(client: client, channel: channel)
        guard readers[seat]?.isPaging == true else { return }
        if let claim = readers[seat]?.claim, position.offset > claim.upperBound {
            readers[seat]?.claim = claim.lowerBound...position.offset
        }
        for entry in page { deliver(entry.message, in: channel, at: entry.position, to: client) }
        readers[seat]?.isPaging = hasMore
        if let reached = readers[seat]?.cursor, !hasMore, reached != position {
            find(.falseRecovery, channel, client, "told recovered, at \(position), but its pages brought it to \(reached)")
            readers[seat]?.cursor = position
        }
    }

    package mutating func received(_ message: Message, in name: Name, at position: Position, by client: Int) {
        let channel = number(of: name)
        let seat = Seat(client: client, channel: channel)
        guard readers[seat]?.isSubscribed == true || isLeaving(seat) else {
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
        let seat = Seat(client: client, channel: channel)
        if let cursor = readers[seat]?.cursor, cursor.epoch == position.epoch, position.offset <= cursor.offset {
            noteChange(channel, from: cursor, to: position)
        }
        rewind(seat, to: position)
        announce(channel, \.resyncs)
        noteEpoch(position.epoch, of: channel)
        settleHoles(seat)
        readers[seat]?.cursor = position
        readers[seat]?.got = []
        readers[seat]?.base = position.offset
        readers[seat]?.promised = [:]
        readers[seat]?.takenBack = []
        clock += 1
        readers[seat]?.since = clock
        told[seat] = clock
        readers[seat]?.cameAt = now
        readers[seat]?.owedSince = now
        readers[seat]?.passedOver = []
        readers[seat]?.isPaging = false
    }

    package mutating func unsubscribed(_ name: Name, by client: Int) {
        let seat = Seat(client: client, channel: number(of: name))
        settleHoles(seat)
        settleTail(seat)
        readers[seat] = nil
    }

    /// The connection is over. What was older than the grace was owed by then; nothing more is until it comes back, and then as its next
    /// subscription says. `heard`: when anything came over it last, if that's known: what's owed is what the network let through.
    package mutating func ended(_ client: Int, heard: Instant? = nil) {
        for seat in seats[client] ?? [] { leave(seat, heard: heard) }
        isWell(client)
        troubles[client] = nil
        connections[client, default: 0] += 1
    }

    /// A subscription was refused: the client isn't subscribed, also if it was before.
    package mutating func refusedSubscription(_ name: Name, by client: Int) {
        let channel = number(of: name)
        leave(Seat(client: client, channel: channel), heard: nil)
    }

    private mutating func leave(_ seat: Seat, heard: Instant?) {
        settleHoles(seat)
        settleTail(seat, heard: heard)
        // What it wasn't owed while its hub was in trouble isn't owed at once by the next one either, which may know as little.
        let isInTrouble = wellUntil(seat.client, heard: heard) < now
        readers[seat]?.endedInTrouble = isInTrouble
        readers[seat]?.isSubscribed = false
        readers[seat]?.promised = [:]
        readers[seat]?.takenBack = []
    }

    // MARK: Inside

    private mutating func deliver(_ message: Message, in channel: Int, at position: Position, to client: Int) {
        let seat = Seat(client: client, channel: channel)
        guard let reader = readers[seat] else { return }
        if hasAgain(message, at: position, reader, seat) { find(.twice, channel, client, "got \(message) again, at \(position)") }
        report.delivered += 1
        let cursor = reader.cursor
        // From the beginning of a channel into its epoch, whichever that is.
        let isFirst = cursor.isOrigin && position.offset >= 1
        if isFirst { passOver(from: reader, to: position, seat) }
        guard cursor.epoch == position.epoch || isFirst else {
            find(.gap, channel, client, "went from \(cursor) to \(position), another epoch, and wasn't told")
            settleHoles(seat)
            readers[seat]?.cursor = position
            return note(message, at: position, previous: nil, channel, client)
        }
        let isLate = position.offset <= cursor.offset
        if isLate {
            guard fillHole(at: position, of: seat) else {
                return find(.twice, channel, client, "got \(message) at \(position) when it was at \(cursor) already")
            }
            find(.outOfOrder, channel, client, "got \(message) at \(position) when it had been led past it, to \(cursor)")
        }
        let isJump = !isLate && position.offset > cursor.offset + 1
        if isJump { readers[seat]?.holes.append(Hole(after: cursor, before: position)) }
        if readers[seat]?.got.insert(message).inserted == false {
            find(.twice, channel, client, "got \(message) again, at \(position)")
        }
        if let own = readers[seat]?.promised.removeValue(forKey: Place(epoch: position.epoch, offset: position.offset)), own != position.tag
        {
            readers[seat]?.takenBack.append(
                Untold(
                    text: "its own, acknowledged as \(position.offset).\(own), was taken back for \(position), and it wasn't told", at: now,
                    offset: position.offset)
            )
        }
        note(message, at: position, previous: isLate || isJump ? nil : cursor.tag, channel, client)
        if !isLate { readers[seat]?.cursor = position }
    }

    /// It goes from the origin into an epoch: has another one begun and ended meanwhile?
    private mutating func passOver(from reader: Reader, to position: Position, _ seat: Seat) {
        guard !mayTakeBack else { return }
        let channel = channels[seat.channel]
        let order = channel.epochs[position.epoch] ?? .max
        for (epoch, last) in channel.latest
        where last.at > reader.since && channel.epochs[epoch] ?? .max < order && !excused.contains(last.message) {
            let text = "went from \(reader.cursor) to \(position), past \(last.message), acknowledged at \(last.position), and wasn't told"
            readers[seat]?.passedOver.append(Untold(text: text, at: now, offset: position.offset))
        }
    }

    /// A place holds one message, and has one before it.
    mutating func note(_ message: Message, at position: Position, previous: Mark?, _ channel: Int, _ client: Int) {
        noteEpoch(position.epoch, of: channel)
        if channels[channel].messages[message].map({ $0.seen != position }) ?? false {
            channels[channel].messages[message]?.seen = position
            channels[channel].messages[message]?.seenAt = clock
        }
        let place = Place(epoch: position.epoch, offset: position.offset)
        var standing = channels[channel].places[place] ?? []
        guard let known = standing.firstIndex(where: { $0.tag == position.tag }) else {
            if standing.contains(where: { $0.message != message }) { channels[channel].forks.append((place, now)) }
            standing.append(Standing(tag: position.tag, message: message, previous: previous, at: now, order: clock))
            channels[channel].places[place] = standing
            if standing.count > 1 { suspect(at: place, channel) }
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

    mutating func number(of name: Name) -> Int {
        if let number = channelNumbers[name] { return number }
        channelNumbers[name] = channels.count
        channels.append(Channel(name: name))
        return channels.count - 1
    }

    mutating func find(_ fault: CheckReport.Fault, _ channel: Int, _ client: Int, _ text: String, unlessAnnounced: Bool = false) {
        if unlessAnnounced && channels[channel].announcements > 0 { return }
        report.add(CheckReport.Finding(fault: fault, channel: channels[channel].name, client: client, text: text))
    }
}

extension DeliveryChecker.Message: CustomStringConvertible {
    package var description: String { "\(user.isEmpty ? "the backend" : "\(user)")'s \(id)" }
}
