import HubBase
import HubWire

/// Who sent what, where the journal says it only later.
extension JournalReader {
    /// A message is on its way: told to the checker as soon as it's known whose it is and what it's called.
    mutating func send(_ sending: JournalRequest.Sending, _ client: Int) {
        guard sending.id != nil, sending.channel != nil else { return }
        if clients[client].isWelcome || clients[client].isBackend {
            tell(sending, client)
        } else {
            clients[client].held.append(sending)
        }
    }

    mutating func tellHeld(_ client: Int) {
        let held = clients[client].held
        clients[client].held = []
        for sending in held { tell(sending, client) }
    }

    private mutating func tell(_ sending: JournalRequest.Sending, _ client: Int) {
        guard let id = sending.id, let channel = sending.channel else { return }
        let message = DeliveryChecker.Message(user: clients[client].user, id: id)
        // A first attempt that couldn't be told.
        if clients[client].earlier.remove(id) != nil { checker.sent(message, to: channel, by: client) }
        checker.sent(message, to: channel, by: client)
        checker.backdate(message, in: channel, to: sending.stamp)
        checker.classed(message, in: channel, isEvent: sending.isEvent, by: client, isSent: true)
        if let digest = sending.digest { checker.carried(message, in: channel, digest: digest, by: client, isSent: true) }
    }

    /// An ack of it: what it's called and where it is, if it didn't say so itself.
    mutating func confirm(_ sending: JournalRequest.Sending, id: Name?, in channel: Name, _ client: Int) -> DeliveryChecker.Message? {
        guard let named = sending.id ?? id else { return nil }
        if sending.id == nil || sending.channel == nil {
            var whole = sending
            whole.id = named
            whole.channel = channel
            tell(whole, client)
        }
        return DeliveryChecker.Message(user: clients[client].user, id: named)
    }

    /// A refusal. Where one id is several requests', nobody can say which one.
    mutating func refused(_ id: [UInt8], isFinal: Bool, _ client: Int) {
        guard var waiting = clients[client].asked[id], let request = waiting.first else {
            return
        }
        guard waiting.count == 1 || waiting.dropFirst().allSatisfy({ $0.isLike(request) }) else {
            for case .subscribe(let wanted, _) in waiting {
                clients[client].asksSilently(wanted, at: checker.now)
                for channel in wanted { checker.loosened(channel, by: client) }
            }
            return
        }
        waiting.removeFirst()
        clients[client].asked[id] = waiting.isEmpty ? nil : waiting
        switch request {
        case .publish(let sending):
            tellHeld(client)
            guard let messageId = sending.id, let channel = sending.channel else { return }
            checker.refused(DeliveryChecker.Message(user: clients[client].user, id: messageId), in: channel, isFinal: isFinal)
        // It says of itself that the client isn't subscribed then, also if it was before.
        case .subscribe(let wanted, _):
            for channel in wanted {
                clients[client].left(channel)
                checker.refusedSubscription(channel, by: client)
            }
        case .unsubscribe, .history, .ping, .other: return
        }
    }

    /// A message of a subscription that nothing answered. False: there's none, or it's known.
    mutating func hear(_ message: DeliveryChecker.Message, in channel: Name, at position: Position, _ client: Int) -> Bool {
        guard !checker.isSubscribed(channel, client), clients[client].mayHear(channel, at: checker.now) else { return false }
        checker.overheard(message, in: channel, at: position, by: client)
        if clients[client].left.contains(channel) { checker.leaving(channel, by: client) }
        return true
    }

    mutating func ended(_ client: Int, heard: Instant?) {
        tellHeld(client)
        for case .publish(let sending) in clients[client].asked.values.joined() where sending.channel == nil {
            if let id = sending.id { clients[client].earlier.insert(id) }
        }
        checker.ended(client, heard: heard)
        let before = clients[client]
        clients[client] = JournalClient(user: before.user, earlier: before.earlier)
    }

    /// What it acknowledged is known to nobody else.
    mutating func isKilled(_ node: Name) {
        for (message, channel) in acknowledgedBy.removeValue(forKey: node) ?? [] { checker.excuse(message, in: channel) }
    }
}
