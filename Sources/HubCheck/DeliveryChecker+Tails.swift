import HubBase
import HubWire

/// What was owed to those who go before all is over: what was acknowledged the grace before (decision 0300).
extension DeliveryChecker {
    /// The hub told this client that what it hears may be incomplete, or that it isn't any more.
    package mutating func degraded(_ client: Int) {
        unwell.insert(client)
        // One that follows closely on another is the same: what the first one held up may still be on its way.
        if let last = troubles[client], last.until.map({ now.since($0) <= grace }) ?? true {
            troubles[client] = (last.since, nil)
        } else {
            troubles[client] = (now, nil)
        }
    }

    package mutating func restored(_ client: Int) {
        isWell(client)
        if let last = troubles[client], last.until == nil { troubles[client] = (last.since, now) }
    }

    /// Until when nothing is known to have kept from this client what its hub had for it.
    func wellUntil(_ client: Int, heard: Instant?) -> Instant {
        let last = min(now, heard ?? now)
        guard let trouble = troubles[client], trouble.until.map({ now.since($0) <= grace }) ?? true else { return last }
        return min(last, trouble.since)
    }

    /// Up to when what was acknowledged must have reached this client; nil: nothing yet.
    private func horizon(of client: Int, heard: Instant?) -> Instant? {
        let last = wellUntil(client, heard: heard)
        guard last.nanoseconds > grace.nanoseconds else { return nil }
        return Instant(nanoseconds: last.nanoseconds - grace.nanoseconds)
    }

    /// A subscription ends, or another takes its place. Cost: a look at the channel's acks by halving, and at some of the last ones.
    mutating func settleTail(_ seat: Seat, heard: Instant? = nil) {
        guard let reader = readers[seat], reader.isSubscribed, !reader.isPaging, let horizon = horizon(of: seat.client, heard: heard) else {
            return
        }
        // What it passed over on leaving the origin goes with it: it may still be told when it comes back.
        for untold in reader.takenBack where untold.at <= horizon { find(.lost, seat.channel, seat.client, untold.text) }
        settleTakenBack(seat, upTo: horizon)
        let channel = channels[seat.channel]
        let acks = channel.acks[..<channel.acks.firstIndex(after: horizon)]
        if reader.cursor.isOrigin {
            for ack in acks.reversed() {
                guard ack.at >= reader.owedSince else { return }
                guard ack.sentAt > reader.since, !excused.contains(ack.message) else { continue }
                return find(
                    .lost, seat.channel, seat.client,
                    "went from \(reader.cursor); \(ack.message), acknowledged at \(ack.position) \(now.since(ack.at).milliseconds) ms before, never came"
                )
            }
        } else if let ack = acks.last(where: { $0.isLast && !excused.contains($0.message) }),
            ack.at >= reader.owedSince || isOwedBefore(ack, reader, horizon, channel)
        {
            let age = "\(now.since(ack.at).milliseconds) ms"
            if reader.cursor.epoch == ack.position.epoch {
                guard reader.cursor.offset < ack.position.offset else { return }
                let missing = ack.position.offset - reader.cursor.offset
                find(
                    .lost, seat.channel, seat.client,
                    "went from \(reader.cursor); \(missing) up to \(ack.position), acknowledged \(age) before, never came")
            } else if let order = channel.epochs[ack.position.epoch], channel.epochs[reader.cursor.epoch] ?? -1 < order {
                find(
                    .lost, seat.channel, seat.client,
                    "went from \(reader.cursor), and wasn't told of the epoch of \(ack.position), acknowledged \(age) before")
            }
        }
    }

    /// Where a subscription begins against where the client had been brought to.
    mutating func judgeClaim(_ seat: Seat, at position: Position, recovered: Bool?, from: Position?) {
        guard let reader = readers[seat], !reader.isPaging, recovered != false else { return }
        let cursor = reader.cursor
        if let from {
            guard from != cursor, from != read[seat], from.epoch == cursor.epoch || cursor.isOrigin, from.offset > cursor.offset else {
                return
            }
            find(
                .gap, seat.channel, seat.client,
                "came back from \(from) when it had been brought to \(cursor): \(from.offset - cursor.offset) passed over, and it wasn't told"
            )
        } else if reader.isSubscribed {
            // The same connection: all up to the answer's place stood before it on the wire.
            if position.epoch != cursor.epoch && !cursor.isOrigin {
                find(.gap, seat.channel, seat.client, "subscribed again at \(position) when it was at \(cursor), and wasn't told")
            } else if position.offset > cursor.offset {
                find(
                    .gap, seat.channel, seat.client,
                    "subscribed again at \(position) when it was at \(cursor): \(position.offset - cursor.offset) passed over, and wasn't told"
                )
            }
        }
    }

    /// A page of history that no recovery asked for said where the channel stands: a client may go on from there.
    package mutating func read(_ name: Name, upTo position: Position, by client: Int) {
        let channel = number(of: name)
        read[Seat(client: client, channel: channel)] = position
    }

    // MARK: What stood in it

    /// The digest of what was sent, or handed to a client. A message's is the same everywhere. `what`: that of which it's the digest.
    package mutating func carried(
        _ message: Message, in name: Name, digest: UInt64, by client: Int, isSent: Bool, what: @autoclosure () -> String = "payload"
    ) {
        let channel = number(of: name)
        guard let known = channels[channel].payloads[message] else {
            // Once two contents were sent, what's handed out says which one stands.
            if !isSent || channels[channel].messages[message]?.attempts ?? 1 <= 1 { channels[channel].payloads[message] = digest }
            return
        }
        guard known != digest else { return }
        if isSent {
            // Two contents under one id are the sender's fault; which one stands is seen from what's handed out.
            channels[channel].payloads[message] = nil
        } else {
            find(.contradiction, channel, client, "got another \(what()) with \(message) than was sent, or than others got")
        }
    }

    /// An envelope says two things that can't both be true.
    package mutating func contradicted(_ name: Name, _ text: String, by client: Int) {
        let channel = number(of: name)
        find(.contradiction, channel, client, text)
    }

    /// A client got something that it never asked for; in `name`, whatever that is.
    package mutating func unasked(_ name: Name, _ text: String, by client: Int) {
        let channel = number(of: name)
        find(.unasked, channel, client, text)
    }
}

extension [DeliveryChecker.Ack] {
    /// Where those begin that came after `time`.
    fileprivate func firstIndex(after time: Instant) -> Int {
        var (low, high) = (0, count)
        while low < high {
            let middle = (low + high) / 2
            if self[middle].at <= time { low = middle + 1 } else { high = middle }
        }
        return low
    }
}
