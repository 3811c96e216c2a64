import HubBase
import HubWire

/// What's judged when all is over.
extension DeliveryChecker {
    /// All is quiet: whoever is subscribed must have everything. Call it once.
    package mutating func finish() -> CheckReport {
        for seat in readers.keys { settleHoles(seat) }
        for (seat, reader) in readers where reader.isSubscribed { settle(reader, seat) }
        for channel in channels.indices {
            settleOrder(of: channel)
            settleRefused(of: channel)
            countTakenBack(of: channel)
            settlePlaces(of: channel)
            settleContents(of: channel)
        }
        for (seat, reader) in readers where reader.isSubscribed { settleTakenBack(seat) }
        report.unanswered =
            report.sent - min(report.sent, UInt64(channels.reduce(0) { $0 + $1.messages.values.count { $0.acknowledged != nil } }))
        return report
    }

    private mutating func settle(_ reader: Reader, _ seat: Seat) {
        report.subscriptions += 1
        for untold in reader.takenBack + reader.passedOver { find(.lost, seat.channel, seat.client, untold.text) }
        let channel = channels[seat.channel]
        // The last one in time: what was acknowledged further on before was taken back.
        guard let last = channel.lastAcknowledged, let order = channel.epochs[last.epoch] else { return }
        if let passed = passedBy(reader, seat, channel) {
            return find(
                .lost, seat.channel, seat.client,
                "is at \(reader.cursor), and was never told of \(passed.message), acknowledged at \(passed.position)")
        }
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

    /// The first that was acknowledged in another epoch than the one in which a client stands, although it was sent after the client had been told
    /// where to stand: it must have been led there and back since, and told.
    private func passedBy(_ reader: Reader, _ seat: Seat, _ channel: Channel) -> Ack? {
        guard tellsAll, !mayTakeBack, !reader.cursor.isOrigin, !reader.isPaging, reader.passedOver.isEmpty else { return nil }
        let since = max(told[seat] ?? 0, reader.since)
        return channel.acks.first {
            $0.position.epoch != reader.cursor.epoch && $0.sentAt > since && $0.at >= reader.owedSince && !excused.contains($0.message)
        }
    }

    /// What one client sent once each, without waiting, over one connection, stands in the order of sending; and behind whatever was
    /// acknowledged to it before it was sent. What was still under way on a connection that ended may be overtaken by what's sent over the
    /// next one, which another node may have (decision 0317).
    private mutating func settleOrder(of channel: Int) {
        var lines: [Int: [Standpoint]] = [:]
        for sent in channels[channel].messages.values where sent.attempts == 1 {
            guard let position = sent.acknowledged ?? sent.seen else { continue }
            // What was taken back has no place any more.
            let place = Place(epoch: position.epoch, offset: position.offset)
            let standing = channels[channel].places[place]
            if let since = standing?.first?.at, isGone(position, since: since, channel) { continue }
            let isBeyond = channels[channel].lastAcknowledged.map { $0.epoch == position.epoch && $0.offset < position.offset } ?? false
            if standing?.count == 1 && !isBeyond { lines[sent.client, default: []].append(Standpoint(sent: sent, position: position)) }
        }
        for (client, line) in lines {
            let ordered = line.sorted { $0.sent.number < $1.sent.number }
            for (earlier, later) in zip(ordered, ordered.dropFirst())
            where earlier.sent.connection == later.sent.connection && earlier.isBeyond(later) {
                find(.outOfOrder, channel, client, "sent the message at \(earlier.position) before the one at \(later.position)")
            }
            settleOrderOverConnections(ordered, channel, client)
        }
    }

    /// Against the furthest of what had been acknowledged when each was sent.
    private mutating func settleOrderOverConnections(_ ordered: [Standpoint], _ channel: Int, _ client: Int) {
        guard let first = ordered.first, let last = ordered.last, first.sent.connection != last.sent.connection else { return }
        let acknowledged = ordered.filter { $0.sent.acknowledged != nil }.sorted { $0.sent.acknowledgedAt < $1.sent.acknowledgedAt }
        var next = 0
        var furthest: [Mark: Standpoint] = [:]
        for later in ordered {
            while next < acknowledged.count, acknowledged[next].sent.acknowledgedAt < later.sent.at {
                let one = acknowledged[next]
                if furthest[one.position.epoch].map({ one.isBeyond($0) }) ?? true { furthest[one.position.epoch] = one }
                next += 1
            }
            // Of one connection it was looked at before.
            guard let earlier = furthest[later.position.epoch], earlier.sent.connection != later.sent.connection, earlier.isBeyond(later)
            else { continue }
            find(
                .outOfOrder, channel, client,
                "was acknowledged the message at \(earlier.position) before it sent the one at \(later.position), on a later connection")
        }
    }

    private struct Standpoint {
        var sent: Sent
        var position: Position

        func isBeyond(_ other: Standpoint) -> Bool {
            position.epoch == other.position.epoch && position.offset >= other.position.offset
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

    /// Each of its attempts was refused for good, and somebody was handed it.
    private mutating func settleRefused(of channel: Int) {
        for (message, sent) in channels[channel].messages where sent.refusals > 0 && sent.refusals == sent.attempts {
            guard let position = sent.acknowledged ?? sent.seen else { continue }
            find(.contradiction, channel, sent.client, "was refused \(message) for good, which stands at \(position) all the same")
        }
    }
}
