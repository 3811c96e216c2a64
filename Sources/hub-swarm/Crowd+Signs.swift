import HubBase
import HubCheck
import HubClientNet
import HubSwarm
import HubWire

/// What is heard of others' doing: presence, typing, read marks.
extension Crowd {
    /// The changes of a message, or the answer to `watch`: `[{"user","status","version"}]`.
    func told(_ list: ByteRange, _ message: UnsafeRawBufferPointer, _ client: Int, isAnswer: Bool) {
        guard list.isPresent else { return }
        guard presence != nil else {
            tally.unasked += 1
            check?.unasked("presence", by: client)
            return
        }
        let now = Clock.now()
        var elements = JSONElements(message, range: list, depthMax: 64)
        while let element = try? elements.next() {
            guard let change = Self.change(message, element.range) else { continue }
            guard let user = names.userNumber(change.user.bytes(in: message)), share.users.contains(user) else {
                // Whom nobody here watches.
                tally.unasked += 1
                check?.unasked("the presence of somebody else", by: client)
                continue
            }
            let local = user - share.users.lowerBound
            let isNews = presence?.told(client, of: local, change.status, version: change.version, at: now) == true
            if isNews, !isAnswer { timePresence(of: local, change.status, now) }
        }
    }

    /// How long it took, where it's known what it was about: a user of one device that shows this status.
    private func timePresence(of user: Int, _ status: PresenceStatus, _ now: Instant) {
        let first = firstBots[user]
        guard firstBots[user + 1] == first + 1, bots[first].isIn, bots[first].shown == status else { return }
        recorder.delivered(lane: Lane.presence.rawValue, due: bots[first].shownSince.nanoseconds, at: now.nanoseconds)
    }

    private static func change(
        _ message: UnsafeRawBufferPointer, _ range: ByteRange
    ) -> (user: ByteRange, status: PresenceStatus, version: UInt64)? {
        var fields = JSONFields(message, range: range, depthMax: 64)
        var user: ByteRange?
        var status: PresenceStatus?
        var version: UInt64?
        while let (key, value) = try? fields.next() {
            let text = value.range.bytes(in: message)
            switch key.range.bytes(in: message) {
            case let name where name.elementsEqual("user".utf8): user = value.range
            case let name where name.elementsEqual("status".utf8):
                status = PresenceStatus.allCases.first {
                    text.elementsEqual(UnsafeRawBufferPointer(start: $0.name.utf8Start, count: $0.name.utf8CodeUnitCount))
                }
            case let name where name.elementsEqual("version".utf8): version = JSONText.unsigned(text)
            default: break
            }
        }
        guard let user, let status, let version else { return nil }
        return (user, status, version)
    }

    func heardTyping(_ envelope: ServerEnvelope, _ message: UnsafeRawBufferPointer, _ client: Int, _ room: Int) {
        let now = Clock.now()
        let payload = envelope.payload.bytes(in: message)
        guard let isTyping = Payload.isTyping(payload) else { return }
        let said = SwarmPayload(payload)
        if let said {
            guard said.run == share.run &+ UInt64(share.index) else { return }
            guard bot(of: envelope, message) == Int(said.bot) else {
                return contradicted("was told that somebody else types than who does: bot \(said.bot)", client, room)
            }
            recorder.delivered(lane: Lane.typing.rawValue, due: said.scheduled, at: now.nanoseconds)
            ephemeral.typing(
                isTyping, sequence: said.sequence, from: Int(said.bot), in: room, to: client, at: now, since: bots[client].signsSince)
        } else if let sender = bot(of: envelope, message) {
            // The hub's own word.
            ephemeral.typing(isTyping, sequence: nil, from: sender, in: room, to: client, at: now, since: bots[client].signsSince)
        }
    }

    /// As what the user is surely shown, by what its devices asked for and had answered.
    func noteStatus(_ user: Int) {
        guard presence != nil else { return }
        var isUnsure = false
        var status: PresenceStatus? = .offline
        for bot in firstBots[user]..<firstBots[user + 1] where bots[bot].isIn || bots[bot].isStatusUnsure {
            // Online over away: whatever the others are.
            if bots[bot].isStatusUnsure {
                isUnsure = true
            } else if status != .online {
                status = bots[bot].shown == .away ? .away : .online
            }
        }
        presence?.shown(user, as: isUnsure && status != .online ? nil : status, at: Clock.now())
    }

    func heardRead(_ envelope: ServerEnvelope, _ message: UnsafeRawBufferPointer, _ client: Int, _ room: Int) {
        guard let user = names.userNumber(envelope.user.bytes(in: message)), share.users.contains(user),
            let offset = Payload.readOffset(envelope.payload.bytes(in: message))
        else { return }
        let local = user - share.users.lowerBound
        guard isTold(offset, of: local, room) else {
            return contradicted("was told that user \(user) has read up to \(offset), which none of its devices said", client, room)
        }
        timeRead(offset, of: local, room)
        ephemeral.read(offset, of: local, in: room, to: client)
    }

    private func contradicted(_ text: String, _ client: Int, _ room: Int) {
        tally.contradictions += 1
        check?.contradicted(rooms[room].name, text, by: client)
    }

    /// Whether one of the user's devices has told as much.
    private func isTold(_ offset: UInt64, of user: Int, _ room: Int) -> Bool {
        let joined = scenario.rooms.joined
        guard let place = (0..<joined).first(where: { roomNumber(firstBots[user], $0) == room }) else { return false }
        return (firstBots[user]..<firstBots[user + 1]).contains { marks[$0 * joined + place] >= offset }
    }

    /// How long it took, where one of the user's devices told just this; the hub may tell a higher one of another device instead.
    private func timeRead(_ offset: UInt64, of user: Int, _ room: Int) {
        let joined = scenario.rooms.joined
        guard let place = (0..<joined).first(where: { roomNumber(firstBots[user], $0) == room }) else { return }
        for bot in firstBots[user]..<firstBots[user + 1] {
            let seat = bot * joined + place
            guard marks[seat] == offset, !marksDue.isEmpty else { continue }
            return recorder.delivered(lane: Lane.read.rawValue, due: marksDue[seat], at: Clock.now().nanoseconds)
        }
    }

    private func bot(of envelope: ServerEnvelope, _ message: UnsafeRawBufferPointer) -> Int? {
        guard let user = names.userNumber(envelope.user.bytes(in: message)), share.users.contains(user), envelope.device.isPresent
        else { return nil }
        let device = envelope.device.bytes(in: message)
        guard device.count == 2, device[0] == UInt8(ascii: "d"), device[1] >= 48 else { return nil }
        let bot = firstBots[user - share.users.lowerBound] + Int(device[1] - 48)
        return bot < firstBots[user - share.users.lowerBound + 1] ? bot : nil
    }
}
