import HubBase
import HubCore
import HubNet
import HubWire

/// Asking about publications: up to `ask.ahead` of one connection at once, so that its pace isn't one in a round trip to the backend. What is done with
/// the answers, and what the client is told, keeps the order in which it sent them (docs/ask.md, decision 0290).
extension GatewayLoop {
    func askPublication(
        _ publication: Publication, _ channel: Name, _ attempt: PublishAttempt?, _ requestId: RequestID, on id: ConnectionID
    ) {
        var asking = Asking(
            connection: id, purpose: .publication(publication, channel: channel, attempt, requestId), kind: .publish, since: net.now,
            asked: wallMilliseconds())
        asking.number = askLines[id.index]?.next ?? 0
        let weight = publication.payload.count + AskLine.overhead
        guard asks(.publish, channel, on: id) else { return wait(.answered(asking, nil), weight, on: id) }
        let key = asks.insert(asking)
        guard let reply = asker?.ask(.publish(publication, channel: channel), loop: number, tag: key) else {
            return wait(.waiting, weight, on: id)
        }
        _ = asks.remove(key)
        // Known: as if nobody had been asked, but for those before it. A refusal would pass their acks.
        let isFirst = askLines[id.index] == nil && (sessions[Int(id.index)].unanswered == 0 || isAllowed(reply))
        if isFirst { carryOut(asking, reply) } else { wait(.answered(asking, reply), weight, on: id) }
    }

    private func isAllowed(_ reply: AskShell.Reply) -> Bool {
        switch reply {
        case .answer(let answer): if case .allow = answer.verdict { true } else { false }
        case .failed: configuration.ask.publish.onFailure == .allow
        case .wrong: false
        }
    }

    /// A refusal of one that came behind others about which a backend is asked: in its turn. False: there are none.
    func refuseInTurn(_ error: WireError, _ requestId: UnsafeRawBufferPointer, on id: ConnectionID) -> Bool {
        guard askLines[id.index] != nil else { return false }
        wait(.refused(error, RequestID(requestId)), AskLine.overhead, on: id)
        return true
    }

    private func wait(_ place: AskLine.Place, _ weight: Int, on id: ConnectionID) {
        askLines[id.index, default: AskLine()].append(place, weight: weight)
        beginAsking(id)
    }

    // MARK: Going ahead

    /// Whether a publication may be looked at although others before it wait for their answers: nothing but those may hold its connection.
    private func mayGoAhead(_ id: ConnectionID, bytes: Int) -> Bool {
        guard sessions[Int(id.index)].phase == .held else { return false }
        let waiting = Int(sessions[Int(id.index)].waiting)
        guard let line = askLines[id.index] else { return waiting == 0 }
        return waiting == line.count && line.count < configuration.ask.ahead && line.bytes + bytes <= Self.heldBytes
    }

    /// A message of a held connection that needn't wait: a ping (what holds it may be a store that's away, and a client wants to know whether it lives), or a publication that may go ahead of the answers.
    func passesHeld(_ bytes: UnsafeRawBufferPointer, _ format: WireFormat, on id: ConnectionID) -> Bool {
        guard case .request(let request) = EnvelopeScanner.scan(bytes, format: format, depthMax: configuration.limits.depth) else {
            return false
        }
        if request.type == .ping { return true }
        // Behind what is kept it has to wait for that.
        return early[id.index] == nil && request.type.isPublication && mayGoAhead(id, bytes: bytes.count)
    }

    /// Publications that were kept, as far as they may go ahead now.
    private func goAhead(_ id: ConnectionID) {
        let format = sessions[Int(id.index)].format
        while isCurrent(id), net.isOpen(id), let message = early[id.index]?.first, mayGoAhead(id, bytes: message.bytes.count) {
            let isPublication = message.bytes.withUnsafeBytes { bytes in
                if case .request(let request) = EnvelopeScanner.scan(bytes, format: format, depthMax: configuration.limits.depth) {
                    return request.type.isPublication
                }
                return false
            }
            guard isPublication else { return }
            if early[id.index]?.removeFirst() == true {
                early[id.index] = nil
                net.goOnReading(id)
            }
            replay(message) { handle($0, on: id) }
        }
    }

    // MARK: Answers, in order

    /// Carries out what has been answered, up to the first that hasn't. A refusal waits for the acks of what was sent before it.
    func advance(_ id: ConnectionID) {
        while isCurrent(id), net.isOpen(id), let place = askLines[id.index]?.popReady() {
            guard sessions[Int(id.index)].phase != .leaving else { return }
            let error: WireError?
            let requestId: RequestID
            switch place {
            case .waiting: return
            case .refused(let refusal, let request): (error, requestId) = (refusal, request)
            case .answered(let asking, let reply):
                guard case .publication(_, _, _, let request) = asking.purpose else { return }
                // What ended meanwhile is over, whatever the backend says.
                if let expires = sessions[Int(id.index)].tokenExpires, expires <= wallMilliseconds() { return endExpired(id) }
                requestId = request
                error = publish(asking, reply.map { ruling($0, asking.kind, on: id) } ?? .success(AskAllowance()))
            }
            if let error {
                guard sessions[Int(id.index)].unanswered == 0 else {
                    askLines[id.index]?.putBack(.refused(error, requestId))
                    return
                }
                refuse(error, requestId, on: id)
            }
            endAsking(id)
        }
        guard isCurrent(id), net.isOpen(id) else { return }
        if askLines[id.index]?.isEmpty == true { askLines[id.index] = nil }
        goAhead(id)
        release(id)
    }

    /// Publishes what a backend has allowed. Returns why not.
    func publish(_ asking: Asking, _ ruling: Result<AskAllowance, WireError>) -> WireError? {
        guard case .publication(var publication, let channel, let attempt, let requestId) = asking.purpose else { return nil }
        let id = asking.connection
        do throws(WireError) {
            let allowance = try ruling.get()
            let rights = sessions[Int(id.index)].rights
            guard rights.mayPublish(to: channel) else { throw rights.refusal(.publish, in: channel) }
            publication.time = wallMilliseconds()
            if let payload = allowance.payload {
                publication.payload = payload
                publication.payloadFormat = .json
            }
            // By the sender's clock it's older by now.
            let older = attempt.map { Boxed(PublishAttempt(age: $0.age + net.now.since(asking.since), since: $0.since)) }
            pass(publication, channel, older, requestId, on: id)
            return nil
        } catch { return error }
    }
}

extension RequestType {
    fileprivate var isPublication: Bool { self == .chat || self == .event }
}
