import HubBase
import HubCore
import HubNet
import HubWire

/// How fast clients may be: what is asked before their requests are carried out, and what becomes of those who don't heed it.
extension GatewayLoop {
    // MARK: Messages

    /// Whether a request is served: the connection's own rates first, then its user's, then its address's.
    func judge(_ type: RequestType, bytes: Int, on id: ConnectionID) -> Refusal? {
        let index = Int(id.index)
        if let refusal = sessions[index].judge(type, bytes: bytes, paces: paces, at: net.now) { return refusal }
        if paces.countsUsers, let refusal = takeOfUser(1, .messages, index) ?? takeOfUser(bytes, .bytes, index) { return refusal }
        if paces.countsAddresses { return addressPace(of: id)?.message(bytes: bytes, paces, at: net.now) }
        return nil
    }

    /// A `subscribe` of so many channels.
    func judgeSubscribes(_ count: Int, on id: ConnectionID) -> Refusal? {
        let index = Int(id.index)
        if let refusal = sessions[index].pace.subscribe(count, paces, at: net.now) { return refusal }
        if paces.countsUsers, let refusal = takeOfUser(count, .subscribes, index) { return refusal }
        guard paces.countsAddresses, let wait = addressPace(of: id)?.subscribes.take(count, of: paces[.addressSubscribes], at: net.now)
        else {
            return nil
        }
        return RateLimit.addressSubscribes.refusal(paces[.addressSubscribes], after: wait)
    }

    /// Answers with a refusal. Who gets too many of them for their rate isn't listening: the connection is closed, with the time to come back after.
    func refuse(_ refusal: Refusal, _ range: ByteRange, in bytes: UnsafeRawBufferPointer, on id: ConnectionID) {
        refuse(noted(refusal, on: id), range, in: bytes, on: id)
        guard refusal.limit != nil, sessions[Int(id.index)].pace.refused(paces, at: net.now), net.isOpen(id) else { return }
        numbers.floods += 1
        numbers.rateLimited[RateLimit.refusals.rawValue] += 1
        note(.flood, on: id, refusal.limit?.label ?? "")
        net.shutOut(
            id, code: CloseCode.rateAbuse.rawValue,
            reason: "\(Paces.floodPause.milliseconds) too many messages beyond \(refusal.limit?.path ?? "")")
    }

    /// Counts a refusal by a rate, and tells it.
    func noted(_ refusal: Refusal, on id: ConnectionID) -> WireError {
        if let limit = refusal.limit {
            numbers.rateLimited[limit.rawValue] += 1
            note(.rateLimited, on: id, limit.label)
        }
        return refusal.error
    }

    func closeForRate(_ id: ConnectionID, _ error: WireError) {
        net.close(id, code: CloseCode.rateAbuse.rawValue, reason: "\(max(error.retryAfter ?? 0, 1000)) \(error.message)")
    }

    // MARK: Users

    private func takeOfUser(_ amount: Int, _ kind: UserPaces.Kind, _ index: Int) -> Refusal? {
        // Keys have limits of their own; who isn't authenticated has none as a user.
        guard userPaces.isLimited(kind), !sessions[index].isService, !sessions[index].user.isEmpty else { return nil }
        let place: UserPaces.Place
        if let held = sessions[index].account {
            place = held
        } else {
            place = userPaces.hold(sessions[index].user, at: net.now)
            sessions[index].account = place
        }
        defer { sendReports() }
        return userPaces.take(amount, kind, of: place, at: net.now)
    }

    private func sendReports() {
        guard userPaces.hasReports else { return }
        for (report, number) in userPaces.takeReports() {
            numbers.rateReports += 1
            outbox.append(.settle(Boxed(report), tag: tag(number)))
        }
    }

    func settled(_ result: Result<[Span], WireError>, tag: UInt64) {
        userPaces.settled(result, number: tag, at: net.now)
        sendReports()
    }

    /// Whether a connection that has just been authenticated may go on: its user's connects, and how many there are of that user on this node.
    func judgeOpening(_ id: ConnectionID) -> Refusal? {
        let index = Int(id.index)
        guard !sessions[index].isService else { return nil }
        let user = sessions[index].user
        let refusal = userPaces.take(1, .connects, of: user, at: net.now)
        sendReports()
        if let refusal { return refusal }
        let limit = configuration.limits.connectionsPerUser
        guard limit > 0 else { return nil }
        guard state.userConnections.take(user, limit: limit) else { return tooManyConnections(limit) }
        sessions[index].isCounted = true
        // Those on other nodes are counted once the record of all of them has settled.
        if configuration.redis.isUsed { scheduleCount(of: id) }
        return nil
    }

    /// Who came in but may not stay: the answer to its `connect`, then a close that says when to come back.
    func turnAway(_ id: ConnectionID, _ refusal: Refusal) {
        let error = noted(refusal, on: id)
        if refusal.limit == nil {
            numbers.refusedByUser += 1
            note(.tooManyConnections, on: id)
        }
        if let request = connectRequests.removeValue(forKey: id.index) { refuse(error, request, on: id) }
        // Presence never heard of it.
        sessions[Int(id.index)].phase = .leaving
        closeForRate(id, error)
    }

    private func tooManyConnections(_ limit: Int) -> Refusal {
        Refusal(
            WireError(
                .tooMany, "more than \(limit) connections of one user (limits.connectionsPerUser)",
                retryAfter: Paces.floodPause.milliseconds, mayRetry: true))
    }

    /// The limit was switched on: those who are here count too. Without one nobody is counted, which costs no memory.
    func countConnections() {
        guard configuration.limits.connectionsPerUser > 0 else { return }
        for index in sessions.indices where kinds[index] == .session && sessions[index].isWelcomed {
            guard !sessions[index].isCounted, !sessions[index].isService, sessions[index].phase != .leaving else { continue }
            sessions[index].isCounted = state.userConnections.take(sessions[index].user, limit: .max)
        }
    }

    // MARK: Connections of one user on all nodes

    /// By then the connection stands in its user's record, and so do those that came at the same time elsewhere.
    private static let countAfter = Span.seconds(2)

    private func scheduleCount(of id: ConnectionID) {
        _ = net.schedule(after: Self.countAfter, kind: TimerKind.userConnections.rawValue, value: id.packed)
    }

    func askForConnections(_ id: ConnectionID) {
        guard isCurrent(id), sessions[Int(id.index)].phase != .leaving, configuration.limits.connectionsPerUser > 0 else { return }
        let key = pending.insert(Pending(kind: .userConnections, connection: id, id: .none))
        outbox.append(.inspect(sessions[Int(id.index)].user, tag: tag(key)))
    }

    /// Every node that looks sees the same order, so exactly those that are too many go, whoever looks first: the youngest.
    func connectionsCounted(_ result: Result<PresenceRecord, WireError>, isStale: Bool, of id: ConnectionID) {
        guard isCurrent(id), sessions[Int(id.index)].phase != .leaving else { return }
        let limit = configuration.limits.connectionsPerUser
        guard case .success(let record) = result, !isStale else { return scheduleCount(of: id) }
        let own = node.connection(sessions[Int(id.index)].serial)
        let living = record.connections.filter { $0.leaseLeft > 0 }.sorted {
            $0.since != $1.since ? $0.since < $1.since : $0.connection.bytes.lexicographicallyPrecedes($1.connection.bytes)
        }
        guard limit > 0, let place = living.firstIndex(where: { $0.connection == own }), place >= limit else { return }
        numbers.refusedByUser += 1
        note(.tooManyConnections, on: id)
        closeForRate(id, tooManyConnections(limit).error)
    }

    // MARK: Addresses

    /// nil: the connection counts for no address.
    private func addressPace(of id: ConnectionID) -> AddressPace? {
        let index = Int(id.index)
        if index < addressPaces.count, let known = addressPaces[index] { return known }
        guard let pace = makeAddressPace(of: id) else { return nil }
        while addressPaces.count <= index { addressPaces.append(nil) }
        addressPaces[index] = pace
        return pace
    }

    private func makeAddressPace(of id: ConnectionID) -> AddressPace? {
        let key = net.clientKey(id)
        return key == 0 ? nil : state.addressPaces.pace(of: key, paces, at: net.now)
    }

    /// An HTTP request counts as a message of its address.
    func judgeRequest(bytes: Int, on id: ConnectionID) -> Refusal? {
        guard paces.countsAddresses else { return nil }
        return makeAddressPace(of: id)?.message(bytes: bytes, paces, at: net.now)
    }

    /// Whether the address has had too many tokens and keys refused lately to have another one looked at.
    func judgeFailures(_ id: ConnectionID) -> Refusal? {
        let rate = paces[.addressFailures]
        guard rate.isLimited, let wait = makeAddressPace(of: id)?.failures.wait(of: rate, at: net.now) else { return nil }
        return RateLimit.addressFailures.refusal(rate, after: wait)
    }

    func chargeFailure(_ id: ConnectionID) {
        guard paces[.addressFailures].isLimited else { return }
        _ = makeAddressPace(of: id)?.failures.take(of: paces[.addressFailures], at: net.now)
    }

    /// The connection has gone. Its user's and its address's buckets stay as full as they are.
    func forgetPaces(of index: Int) {
        if let place = sessions[index].account { userPaces.release(place) }
        if sessions[index].isCounted { state.userConnections.giveBack(sessions[index].user) }
        if index < addressPaces.count { addressPaces[index] = nil }
    }

    // MARK: API keys

    func judgeKeyRequest() -> Refusal? {
        callingKey?.requests.take(of: paces[.keyRequests], at: net.now).map {
            RateLimit.keyRequests.refusal(paces[.keyRequests], after: $0)
        }
    }

    /// What to answer when the key publishes too much.
    func judgeKeyMessages(_ count: Int, on id: ConnectionID) -> WireError? {
        callingKey?.messages.take(count, of: paces[.keyMessages], at: net.now).map {
            noted(RateLimit.keyMessages.refusal(paces[.keyMessages], after: $0), on: id)
        }
    }
}
