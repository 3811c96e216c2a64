import HubBase
import HubCore
import HubNet
import HubWire

/// Who is in channels: connections that are, told to the backplane; and clients who follow it.
extension GatewayLoop {
    // MARK: Being there

    /// A connection hears the channel from now on, so its user is there. An API key's isn't anybody.
    func memberJoined(_ id: ConnectionID, _ channel: Name) {
        let session = sessions[Int(id.index)]
        guard !session.isService, session.phase != .leaving, Inbox.owner(of: channel) == nil else { return }
        outbox.append(
            .memberJoined(
                channel: channel, user: session.user, device: session.device, connection: session.serial, isVisible: !session.isInvisible))
    }

    func memberLeft(_ id: ConnectionID, _ channel: Name) {
        let session = sessions[Int(id.index)]
        guard !session.isService, Inbox.owner(of: channel) == nil else { return }
        outbox.append(.memberLeft(channel: channel, connection: session.serial))
    }

    /// The connection's status holds: it hides from the members, or doesn't any more.
    func memberShows(_ status: Payload.Status, of id: ConnectionID) {
        guard isCurrent(id), sessions[Int(id.index)].isInvisible != (status == .invisible) else { return }
        sessions[Int(id.index)].isInvisible = status == .invisible
        outbox.append(.memberShows(status != .invisible, connection: sessions[Int(id.index)].serial))
    }

    // MARK: Following

    /// Once all channels of a `subscribe` have been joined: asks for their members where it wants them. False: there's nothing to ask.
    ///
    /// The list of all of them comes in one answer, behind which the mailbox brings every change. Until then requests on these channels wait,
    /// so that acks keep their order.
    func follow(_ batch: UInt64) -> Bool {
        guard
            let (id, names) = batches.update(
                batch,
                { (waiting) -> (ConnectionID, [(place: Int, channel: Name)]) in
                    guard waiting.wantsMembers else { return (waiting.connection, []) }
                    waiting.wantsMembers = false
                    let joined = waiting.results.enumerated().filter { $0.element.failure == nil }
                    return (waiting.connection, joined.map { ($0.offset, $0.element.channel) })
                }), !names.isEmpty, isCurrent(id)
        else { return false }
        var following = Following(batch: batch)
        let rights = sessions[Int(id.index)].rights
        // Who may hear a channel and not know who is there gets an ack without members.
        for (place, channel) in names where rights.maySeeMembers(of: channel) {
            guard let slot = channels.slot(of: channel) else { continue }
            sessions[Int(id.index)].waiting += 1
            channelStates[slot].interest += 1
            let key = joinings.insert(Joining(connection: id, slot: slot, purpose: .following(batch: batch)))
            joiningOf[id.index, default: ConnectionJoinings()].insert(key, slot: slot, isMade: true)
            let followedSlot = followed.insert(channel).slot
            followInterest[followedSlot, default: 0] += 1
            following.parts.append(Following.Part(place: place, joining: key, slot: followedSlot))
        }
        guard !following.parts.isEmpty else { return false }
        _ = batches.update(batch) { $0.remaining = 1 }
        let key = pending.insert(Pending(kind: .follow(following), connection: id, id: .none))
        outbox.append(.follow(following.parts.map { followed.name(at: $0.slot) }, loop: number, tag: tag(key)))
        return true
    }

    func followed(_ pages: [MembersPage?], tag: UInt64) {
        guard let waiting = pending.remove(tag), case .follow(let following) = waiting.kind else { return }
        let id = waiting.connection
        let isHere = isCurrent(id)
        for (part, page) in zip(following.parts, pages) {
            // Rights may have gone while it waited.
            let channel = followed.name(at: part.slot)
            let rights = isHere ? sessions[Int(id.index)].rights : nil
            let maySee = rights.map { $0.maySubscribe(to: channel) && $0.maySeeMembers(of: channel) } ?? false
            followInterest[part.slot] = followInterest[part.slot].flatMap { $0 > 1 ? $0 - 1 : nil }
            if let joining = joinings.remove(part.joining) {
                joiningOf[id.index]?.remove(part.joining)
                if joiningOf[id.index]?.isEmpty == true { joiningOf[id.index] = nil }
                sessions[Int(id.index)].waiting -= 1
                channelStates[joining.slot].interest -= 1
                if maySee { followed.add(id.index, to: part.slot, sessions[Int(id.index)].format) }
                dropIfEmpty(joining.slot)
            }
            unfollowIfEmpty(part.slot)
            _ = batches.update(following.batch) { $0.results[part.place].members = maySee ? page : nil }
        }
        settle(following.batch)
        if isHere { release(id) }
    }

    func unfollow(_ id: ConnectionID, _ channel: Name) {
        guard let slot = followed.slot(of: channel), followed.remove(id.index, from: slot) else { return }
        unfollowIfEmpty(slot)
    }

    func unfollowAll(_ index: UInt32) {
        for slot in followed.removeAll(index) { unfollowIfEmpty(slot) }
    }

    private func unfollowIfEmpty(_ slot: Int) {
        guard followed.isUsed(slot), followInterest[slot] == nil else { return }
        let channel = followed.name(at: slot)
        if followed.removeIfEmpty(slot) { outbox.append(.unfollow(channel, loop: number)) }
    }

    /// Changes for those who follow: one frame for all of a format. A newer one may take the place of one that still waits for a slow reader;
    /// that one sees by `previous` that it has missed something, and asks again.
    func membersChanged(_ change: MembersChange) {
        guard let slot = followed.slot(of: change.channel) else { return }
        for format in WireFormat.allCases where followed.memberCount(of: slot, format) > 0 {
            let frame = net.makeFrame(format.messageKind) { EnvelopeEncoder.members(change, format: format, into: &$0) }
            followed.withMembers(of: slot, format) { net.broadcast(frame, to: $0, as: .presence, key: 1 << 63 | UInt64(slot)) }
        }
    }

    // MARK: Asking

    func members(_ request: Request, _ bytes: UnsafeRawBufferPointer, on id: ConnectionID) {
        do throws(WireError) {
            let channel = try channel(of: request, bytes, on: id, allowsDefault: false)
            let rights = sessions[Int(id.index)].rights
            guard rights.maySeeMembers(of: channel) else { throw rights.refusal(.presence, in: channel) }
            let cursor = request.cursor.isPresent ? try cursor(request.cursor.bytes(in: bytes)) : nil
            let key = pending.insert(Pending(kind: .members, connection: id, id: RequestID(request.id.bytes(in: bytes))))
            outbox.append(.membersPage(channel, cursor: cursor, tag: tag(key)))
        } catch {
            refuse(error, request.id, in: bytes, on: id)
        }
    }

    func members(_ request: borrowing HTTPRequest, of segment: [UInt8], on id: ConnectionID) -> RequestOutcome {
        do throws(WireError) {
            guard let channel = Name(validating: segment) else {
                throw WireError(.badName, "a channel must be 1 to 255 bytes of UTF-8 without control characters")
            }
            var cursor: String?
            if let value = request.queryValue("cursor") { cursor = try self.cursor(value) }
            let key = pending.insert(Pending(kind: .httpMembers, connection: id, id: .none))
            outbox.append(.membersPage(channel, cursor: cursor, tag: tag(key)))
            return .pending
        } catch {
            return .respond(.error(error))
        }
    }

    private func cursor(_ bytes: some Collection<UInt8>) throws(WireError) -> String {
        guard MemberLimits.isCursor(bytes) else { throw WireError(.badPosition, "cursor must be one that this hub gave out") }
        return String(decoding: bytes, as: UTF8.self)
    }

    func membersPage(_ result: Result<MembersPage, WireError>, _ channel: Name, tag: UInt64) {
        guard let waiting = pending.remove(tag) else { return }
        switch (waiting.kind, result) {
        case (.members, .failure(let error)): if isCurrent(waiting.connection) { refuse(error, waiting.id, on: waiting.connection) }
        case (.members, .success(let page)):
            guard waiting.id.isPresent, isCurrent(waiting.connection) else { return }
            let rights = sessions[Int(waiting.connection.index)].rights
            guard rights.maySeeMembers(of: channel) else {
                return refuse(rights.refusal(.presence, in: channel), waiting.id, on: waiting.connection)
            }
            waiting.id.withBytes { raw in
                send(to: waiting.connection, as: .reply) {
                    EnvelopeEncoder.ackMembers(id: raw, channel: channel, page, format: $0, into: &$1)
                }
            }
        case (.httpMembers, .failure(let error)): net.respond(.error(error), to: waiting.connection)
        case (.httpMembers, .success(let page)):
            var body = ByteBuffer(capacity: 1024)
            EnvelopeEncoder.members(of: channel, page, into: &body)
            let headers = [("Content-Type", "application/json"), ("Cache-Control", "no-store")]
            net.respond(HTTPResponse(status: 200, headers: headers, body: body.copyBytes()), to: waiting.connection)
        default: return
        }
    }
}
