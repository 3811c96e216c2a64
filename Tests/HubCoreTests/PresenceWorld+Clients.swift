import HubBase
import HubCore
import HubWire

// What clients do.
extension PresenceWorld {
    func connect() {
        let node = chance.next() % 2 == 0 ? 0 : 1
        var user = users[Int(chance.next() % 12)]
        let isHidden = hiding.next() % 6 == 0
        if isHidden && hiding.next() % 2 == 0 { user = users[12 + Int(hiding.next() % 3)] }
        connect(user, node, isHidden ? .invisible : .online)
    }

    /// One of a few devices, some of them without a name.
    private func connect(_ user: Name, _ node: Int, _ status: Payload.Status) {
        let devices: [Name] = ["phone", "laptop", "tablet", .empty]
        let device = devices[Int(mood.next() % 4)]
        lastName += 1
        let connection = Name(trusted: nodes[node].incarnation.bytes + [UInt8]("-\(lastName)".utf8))
        knownGone.remove(user)
        clients[connection] = Client(
            user: user, node: node, asked: status, isBusy: chance.next() % 2 == 0, steadySince: now, lastActive: now)
        nodes[node].hear(at: now) {
            $0.connected(connection: connection, user: user, device: device, status: status, at: $1)
        }
    }

    /// In an order that the seed decides, not the dictionary.
    var sortedClients: [Name] { clients.keys.sorted { $0.bytes.lexicographicallyPrecedes($1.bytes) } }

    func someClient() -> Name? {
        let names = sortedClients
        return names.isEmpty ? nil : names[Int(chance.next() % UInt64(names.count))]
    }

    func close(clean: Bool) {
        guard let connection = someClient(), let user = clients[connection]?.user else { return }
        close(connection, clean: clean)
        if !clean && isCrowded { crowd(user) }
    }

    private func close(_ connection: Name, clean: Bool) {
        guard let client = clients.removeValue(forKey: connection) else { return }
        nodes[client.node].hear(at: now) { $0.closed(connection: connection, clean: clean, at: $1) }
    }

    /// One was lost: within the grace all others do something, most of them that which makes a user look gone, and perhaps some come.
    private func crowd(_ user: Name) {
        func soon() -> Instant { now + .milliseconds(mood.next() % 1_600) }
        for connection in sortedClients where clients[connection]?.user == user {
            let choice = Int(mood.next() % 6)
            errands.append(
                (
                    at: soon(),
                    run: { [unowned self] in
                        guard clients[connection] != nil else { return }
                        switch choice {
                        case 0: close(connection, clean: false)
                        case 1, 2: close(connection, clean: true)
                        case 3: ask(connection, hidden.contains(user) ? .invisible : .away)
                        case 4: ask(connection, .invisible)
                        default: break
                        }
                    }
                ))
        }
        for _ in 0..<(mood.next() % 3) {
            let node = Int(mood.next() % 2), status = [Payload.Status.online, .away, .away, .invisible][Int(mood.next() % 4)]
            errands.append((at: soon(), run: { [unowned self] in connect(user, node, hidden.contains(user) ? .invisible : status) }))
        }
    }

    func setStatus() {
        guard let connection = someClient(), !nodes[clients[connection]!.node].isPaused else { return }
        var status = [Payload.Status.online, .away, .invisible][Int(chance.next() % 3)]
        if hidden.contains(clients[connection]!.user) { status = .invisible }
        ask(connection, status)
    }

    private func ask(_ connection: Name, _ status: Payload.Status) {
        guard let client = clients[connection], !nodes[client.node].isPaused else { return }
        lastTag += 1
        let node = nodes[clients[connection]!.node]
        waiting[lastTag] = Wish(node: node, connection: connection, status: status)
        clients[connection]!.wishes += 1
        // While its node is cut off a request is refused, and nothing changes.
        if !node.machine.isStale { clients[connection]!.lastActive = now }
        node.machine.requested(connection: connection, status: status, tag: RequestTag(high: 99, low: lastTag), at: now)
    }

    /// One user's clients all turn invisible, and then its record is lost.
    func hideAndForget() {
        guard isCrowded, let one = someClient(), let user = clients[one]?.user else { return }
        for connection in sortedClients where clients[connection]?.user == user { ask(connection, .invisible) }
        for _ in 0..<100 { turn(.milliseconds(50)) }
        forgetRecord(of: user)
    }
}
