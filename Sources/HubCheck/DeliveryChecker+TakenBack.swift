import HubBase
import HubWire

/// What was acknowledged and is gone: whoever stood before it must have been told, wherever it was then (decisions 0250, 0318).
extension DeliveryChecker {
    /// An acknowledged message in doubt.
    struct Suspect {
        var position: Position
        /// When the doubt arose: its node has the grace from then on.
        var at: Instant
        /// The channel went on from before it; else another message stands at its place.
        var isBeyond: Bool
    }

    /// Of a place that several messages have, those that were acknowledged there.
    mutating func suspect(at place: Place, _ channel: Int) {
        guard let standing = channels[channel].places[place], standing.count > 1 else { return }
        for one in standing {
            guard let message = one.message else { continue }
            let position = Position(epoch: place.epoch, offset: place.offset, tag: one.tag)
            guard channels[channel].messages[message]?.acknowledged == position else { continue }
            if channels[channel].suspects[message] == nil {
                channels[channel].suspects[message] = Suspect(position: position, at: now, isBeyond: false)
            }
        }
    }

    /// Something new is acknowledged before what was acknowledged further on. Cost: the channel's acks; it's rare.
    mutating func suspectBeyond(_ position: Position, _ channel: Int) {
        for ack in channels[channel].acks
        where ack.position.epoch == position.epoch && ack.position.offset > position.offset
            && channels[channel].suspects[ack.message] == nil
        {
            channels[channel].suspects[ack.message] = Suspect(position: ack.position, at: now, isBeyond: true)
        }
    }

    /// Whoever was brought past a place without what was acknowledged there, or stands behind it where there's nothing any more, hasn't been
    /// told that it's gone. `horizon`: for who goes: what was in doubt by then. Cost: the channel's suspects.
    mutating func settleTakenBack(_ seat: Seat, upTo horizon: Instant? = nil) {
        guard tellsAll, !channels[seat.channel].suspects.isEmpty, let reader = readers[seat] else { return }
        // Until the node that acknowledged it is linked again, nobody knows.
        if let horizon { guard isAllWell, reader.cameAt <= horizon else { return } }
        let cursor = reader.cursor
        for (message, suspect) in channels[seat.channel].suspects {
            let place = suspect.position
            if let horizon { guard suspect.at <= horizon else { continue } }
            guard place.epoch == cursor.epoch, reader.base < place.offset, place.offset <= cursor.offset || suspect.isBeyond,
                !reader.got.contains(message), !excused.contains(message), !reader.takenBack.contains(where: { $0.offset == place.offset }),
                channels[seat.channel].messages[message]?.acknowledgedAt ?? 0 > told[seat] ?? 0
            else { continue }
            let isClaimed = reader.claim?.contains(place.offset) ?? false
            find(
                isClaimed ? .falseRecovery : .lost, seat.channel, seat.client,
                "\(isClaimed ? "was told recovered" : "is at \(cursor)"), without \(message), acknowledged at \(place), and wasn't told")
        }
    }

    /// Nobody's hub says that it's in trouble, nor has any said so for the grace.
    var isAllWell: Bool { unwell.isEmpty && (unwellAt.map { now.since($0) > grace } ?? true) }

    mutating func isWell(_ client: Int) {
        if unwell.remove(client) != nil { unwellAt = now }
    }

    /// An answer says where the channel stands, and that all that's newer will come: so what was acknowledged before it, and lies behind its
    /// place, is owed too, once the grace is over. Not what may have been taken back.
    func isOwedBefore(_ ack: Ack, _ reader: Reader, _ horizon: Instant, _ channel: Channel) -> Bool {
        isAllWell && reader.owedSince <= horizon && channel.suspects[ack.message] == nil
    }

    /// What stands last: the last one in time, but for acks that crossed on their ways to two senders, and for repeats of what stood before.
    mutating func noteLast(_ message: Message, _ sent: Sent, at position: Position, isDuplicate: Bool, _ channel: Int) {
        clock += 1
        let last = channels[channel].lastAcknowledged
        let crossed = last.map { $0.epoch == position.epoch && $0.offset > position.offset } ?? false
        // It stood there before it was sent the last time, as the hub says, or as somebody saw.
        let isOld = isDuplicate || (sent.seen == position && sent.seenAt < sent.retriedAt)
        let isPast =
            last.map { isOld && channels[channel].epochs[$0.epoch] ?? -1 > channels[channel].epochs[position.epoch] ?? .max } ?? false
        let isLast = !isPast && (!crossed || !isOld && max(sent.at, sent.retriedAt) > channels[channel].lastClock)
        if isLast {
            if crossed { suspectBeyond(position, channel) }
            channels[channel].lastAcknowledged = position
            channels[channel].lastClock = clock
        }
        channels[channel].acks.append(Ack(at: now, sentAt: sent.at, message: message, position: position, isLast: isLast))
    }

    // MARK: Places

    /// Of an epoch, a message has one place. Two of them are explained by another message at one of them, by the channel's having gone on from
    /// before one of them (something new at or before it, or an acknowledgement there), or by somebody's having been told so: then that was
    /// taken back. Who repeats a message once its id is forgotten publishes it anew. Cost: the channel's places, and again for each such message.
    mutating func settlePlaces(of channel: Int) {
        var found: [Message: (position: Position, standing: Standing)] = [:]
        let last = channels[channel].acks.last { $0.isLast }
        for (place, standing) in channels[channel].places {
            for one in standing {
                guard let message = one.message, !excused.contains(message) else { continue }
                let position = Position(epoch: place.epoch, offset: place.offset, tag: one.tag)
                guard let other = found[message], other.position.epoch == place.epoch else {
                    found[message] = (position, one)
                    continue
                }
                guard max(other.standing.at, one.at).since(min(other.standing.at, one.at)) < Self.remembered else { continue }
                if other.position.offset == position.offset {
                    guard isMoved(message, to: [(other.position, other.standing), (position, one)], channel) else { continue }
                } else {
                    guard !isTakenBack(message, position, one, last, channel),
                        !isTakenBack(message, other.position, other.standing, last, channel)
                    else { continue }
                }
                let (first, second) = other.standing.order < one.order ? (other.position, position) : (position, other.position)
                find(
                    .contradiction, channel, channels[channel].messages[message]?.client ?? 0,
                    "\(message) stands at \(first) and at \(second)")
            }
        }
    }

    /// For how long a hub remembers message ids unless it's configured otherwise (`namespaces.NAME.dedup`).
    private static let remembered: Span = .seconds(600)

    private func isTakenBack(_ message: Message, _ position: Position, _ standing: Standing, _ last: Ack?, _ channel: Int) -> Bool {
        let place = Place(epoch: position.epoch, offset: position.offset)
        if channels[channel].places[place]?.contains(where: { $0.message != message }) ?? false { return true }
        if isGone(position, since: standing.at, channel) { return true }
        return last.map { $0.position.epoch == position.epoch && $0.position.offset < position.offset && $0.at > standing.at } ?? false
    }

    /// Somebody who stood there, or behind it, was told since that it isn't there any more.
    func isTold(_ position: Position, since: Instant, _ channel: Int) -> Bool {
        channels[channel].changes.contains { $0.epoch == position.epoch && $0.upTo >= position.offset && $0.at > since }
    }

    /// What stood there may be gone since: somebody was told so, or the channel went on from before it, where something else had stood already.
    func isGone(_ position: Position, since: Instant, _ channel: Int) -> Bool {
        isTold(position, since: since, channel)
            || channels[channel].forks.contains { $0.place.epoch == position.epoch && $0.place.offset <= position.offset && $0.at > since }
    }

    /// The hub says that what stood before a client's place isn't there any more (`epochChanged`, `rolledBack`, `ahead`). To be called before
    /// the client is sent on by it. `from`: the position that it asked for; nil: where it stands.
    package mutating func saidChanged(_ name: Name, from: Position? = nil, to position: Position, by client: Int) {
        let channel = number(of: name)
        guard let from = from ?? readers[Seat(client: client, channel: channel)]?.cursor else { return }
        noteChange(channel, from: from, to: position)
    }

    /// Into another epoch too: what was taken back ends the one it was in (decision 0250).
    mutating func noteChange(_ channel: Int, from: Position, to position: Position) {
        guard !from.isOrigin, from != position else { return }
        channels[channel].changes.append((from.epoch, from.offset, now))
    }

    /// One offset, two tags: a node that doesn't know what became of a message tries it again, and it may come to the same offset. Not once it's
    /// acknowledged, unless its sender repeats it; or what an old master had sent arrives later than the ack of the new one, and whoever got
    /// it is told.
    private func isMoved(_ message: Message, to places: [(position: Position, standing: Standing)], _ channel: Int) -> Bool {
        guard let sent = channels[channel].messages[message], sent.attempts == 1, let acknowledged = sent.acknowledged else { return false }
        return places.contains { $0.position == acknowledged }
            && places.contains { other, standing in
                other != acknowledged && standing.order >= sent.acknowledgedAt && !isTold(other, since: standing.at, channel)
            }
    }

    // MARK: Coming back, and being sent back

    /// Where a recovery began whose position isn't known, as with server-sent events: where the client had been brought to.
    func resumed(_ seat: Seat, _ page: [(message: Message, position: Position)]) -> Position? {
        guard let reader = readers[seat], !reader.isPaging else { return nil }
        if let first = page.first, first.position.epoch == reader.cursor.epoch, first.position.offset <= reader.cursor.offset { return nil }
        return reader.cursor
    }

    /// A page that's said to be all that was missed, from nobody knows where: without a hole in it. `end`: where it must end.
    mutating func judgePage(_ page: [(message: Message, position: Position)], upTo end: Position?, _ seat: Seat) {
        var last = page.first?.position
        for entry in page.dropFirst() {
            guard let from = last, from.epoch != entry.position.epoch || from.offset &+ 1 != entry.position.offset else {
                last = entry.position
                continue
            }
            find(.falseRecovery, seat.channel, seat.client, "told recovered, but its page goes from \(from) to \(entry.position)")
            last = entry.position
        }
        if let last, let end, last != end {
            find(.falseRecovery, seat.channel, seat.client, "told recovered, at \(end), but its page ends at \(last)")
        }
    }

    /// It's told to go on from further back in its epoch: what it had stays known.
    mutating func rewind(_ seat: Seat, to position: Position) {
        guard let reader = readers[seat] else { return }
        readers[seat]?.claim = nil
        guard position.epoch == reader.cursor.epoch, position.offset < reader.cursor.offset || reader.rewound != nil else {
            readers[seat]?.rewound = nil
            return
        }
        readers[seat]?.rewound = (
            max(reader.cursor.offset, reader.rewound?.offset ?? 0), reader.got.union(reader.rewound?.got ?? [])
        )
    }

    /// What it was sent back for is handed out anew, under other tags; what stands at the one place that it ever had was had before.
    func hasAgain(_ message: Message, at position: Position, _ reader: Reader, _ seat: Seat) -> Bool {
        guard let rewound = reader.rewound, position.offset > reader.cursor.offset, position.offset <= rewound.offset,
            rewound.got.contains(message)
        else { return false }
        return channels[seat.channel].places[Place(epoch: position.epoch, offset: position.offset)]?.map(\.tag) == [position.tag]
    }
}
