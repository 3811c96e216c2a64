import HubBase
import HubCore
import HubNet
import HubWire

/// `POST /v1/publish`: one publication, or several in one turn.
extension GatewayLoop {
    func publish(_ request: borrowing HTTPRequest, on id: ConnectionID) -> RequestOutcome {
        do throws(WireError) {
            switch try PublishBody.read(request.body, key: try idempotencyKey(request), limits: configuration.limits) {
            case .one(let body):
                if let refusal = judgeKeyMessages(1, on: id) { throw refusal }
                let messageId = body.messageId ?? makeMessageId()
                let kind = Pending.Kind.httpPublish(channel: body.channel, messageId: messageId, body.messageClass)
                post(body, messageId, pending.insert(Pending(kind: kind, connection: id, id: .none)))
            case .many(let bodies):
                if let refusal = judgeKeyMessages(bodies.count, on: id) { throw refusal }
                return publish(bodies, on: id)
            }
            return .pending
        } catch {
            return .respond(.error(error))
        }
    }

    private func publish(_ bodies: [Result<PublishBody, WireError>], on id: ConnectionID) -> RequestOutcome {
        let entries = bodies.map { body in
            PublishBatch.Entry(
                channel: (try? body.get())?.channel ?? .empty, messageId: (try? body.get())?.messageId ?? .empty,
                result: body.map { _ in PublishResult(position: .start, isDuplicate: false) })
        }
        var batch = PublishBatch(connection: id, entries: entries, remaining: 0)
        batch.remaining = bodies.count { if case .success = $0 { true } else { false } }
        guard batch.remaining > 0 else { return .respond(batch.response) }
        let key = publishBatches.insert(batch)
        for (place, body) in bodies.enumerated() {
            guard case .success(let body) = body else { continue }
            let messageId = body.messageId ?? makeMessageId()
            _ = publishBatches.update(key) { $0.entries[place].messageId = messageId }
            let kind = Pending.Kind.httpPublishPart(batch: key, place: place, body.messageClass)
            post(body, messageId, pending.insert(Pending(kind: kind, connection: id, id: .none)))
        }
        return .pending
    }

    private func post(_ body: PublishBody, _ messageId: Name, _ key: UInt64) {
        let publication = Publication(
            messageClass: body.messageClass, user: body.user, device: .empty, messageId: messageId, time: wallMilliseconds(),
            payload: body.payload)
        outbox.append(.publish(publication, channel: body.channel, attempt: body.attempt.map { Boxed($0) }, tag: tag(key)))
    }

    func makeMessageId() -> Name { Name(trusted: Array("\(chance.mark())\(chance.mark())".utf8)) }

    /// The header's value, bare or as a structured field's string in quotes (draft-ietf-httpapi-idempotency-key-header).
    private func idempotencyKey(_ request: borrowing HTTPRequest) throws(WireError) -> Name? {
        guard request.count(of: "idempotency-key") <= 1 else { throw WireError(.malformed, "more than one Idempotency-Key") }
        guard let value = request.header("idempotency-key") else { return nil }
        let quote = UInt8(ascii: "\"")
        let isQuoted = value.count >= 2 && value.first == quote && value.last == quote
        // Half a string isn't an id that anybody meant.
        guard isQuoted || (value.first != quote && value.last != quote) else {
            throw WireError(.malformed, "Idempotency-Key has one of its two quotes: send it bare or in double quotes")
        }
        let bytes = isQuoted ? Array(value.dropFirst().dropLast()) : Array(value)
        guard let key = Name(validating: bytes, limit: configuration.limits.messageIdBytes) else {
            throw WireError(
                .badName, "Idempotency-Key must be 1 to \(configuration.limits.messageIdBytes) bytes of UTF-8 without control characters")
        }
        return key
    }

    // MARK: Answers

    func answerPublish(_ result: Result<PublishResult, WireError>, channel: Name, messageId: Name, to id: ConnectionID) {
        switch result {
        case .failure(let error): net.respond(.error(error) { $0.known(messageId) }, to: id)
        case .success(let published):
            net.respond(.json(200) { $0.published(published, channel: channel, messageId: messageId) }, to: id)
        }
    }

    func answerPublish(_ result: Result<PublishResult, WireError>, batch key: UInt64, place: Int) {
        let remaining = publishBatches.update(key) { batch in
            batch.entries[place].result = result
            batch.remaining -= 1
            return batch.remaining
        }
        guard remaining == 0, let batch = publishBatches.remove(key) else { return }
        net.respond(batch.response, to: batch.connection)
    }
}

/// Several publications of one request until all have been answered.
struct PublishBatch {
    struct Entry {
        var channel: Name
        var messageId: Name
        var result: Result<PublishResult, WireError>
    }

    var connection: ConnectionID
    var entries: [Entry]
    var remaining: Int

    /// In the order of the request. When none was published it's the first one's error, with all results beside it.
    var response: HTTPResponse {
        var errors = entries.compactMap { entry -> WireError? in
            if case .failure(let error) = entry.result { error } else { nil }
        }
        if errors.count < entries.count { errors = [] }
        var response = HTTPResponse.json(errors.first?.code.httpStatus ?? 200) { body in
            if let error = errors.first { body.error(error) }
            body.key("results")
            body.array { list in
                for entry in entries { list.object { $0.result(entry) } }
            }
        }
        if let retryAfter = errors.first?.retryAfter { response.headers.append(("Retry-After", String((retryAfter + 999) / 1000))) }
        return response
    }
}

extension JSONBody {
    fileprivate mutating func result(_ entry: PublishBatch.Entry) {
        switch entry.result {
        case .success(let result): published(result, channel: entry.channel, messageId: entry.messageId)
        case .failure(let failure):
            error(failure)
            known(entry.messageId)
        }
    }

    /// Beside an error, also where the hub made it: what may have been published all the same is repeated with it.
    fileprivate mutating func known(_ messageId: Name) {
        guard !messageId.isEmpty else { return }
        key("messageId")
        string(messageId)
    }

    fileprivate mutating func published(_ result: PublishResult, channel: Name, messageId: Name) {
        key("channel")
        string(channel)
        key("messageId")
        string(messageId)
        key("offset")
        number(result.position.offset)
        key("position")
        position(result.position)
        guard result.isDuplicate else { return }
        key("duplicate")
        bool(true)
    }
}
