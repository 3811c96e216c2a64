import HubBase
import HubCore
import HubNet
import HubWire

/// What clients post for their streams. Any node takes it and passes it to the loop that holds the stream.
extension GatewayLoop {
    /// Envelopes in one body.
    private static let envelopesMax = 1024

    func post(_ request: borrowing HTTPRequest, key: [UInt8], on id: ConnectionID) -> RequestOutcome {
        do throws(WireError) {
            let isSingle = request.header("content-type").map(Self.isJSON) ?? false
            try judge(request.body, isSingle: isSingle)
            guard let (connection, proof) = StreamKeys.split(key) else { return .respond(answer(.unknown)) }
            let post = StreamPost(connection: connection, proof: proof, body: [UInt8](request.body), isSingle: isSingle)
            if let serial = node.serial(of: connection), serial.loop == number { return .respond(answer(take(post))) }
            let key = pending.insert(Pending(kind: .streamPost, connection: id, id: .none))
            outbox.append(.post(post, tag: tag(key)))
            return .pending
        } catch {
            return .respond(.error(error))
        }
    }

    private static func isJSON(_ contentType: UnsafeRawBufferPointer) -> Bool {
        let name = contentType.prefix { $0 != UInt8(ascii: ";") && $0 != UInt8(ascii: " ") }
        return name.lazy.map { $0 >= 0x41 && $0 <= 0x5A ? $0 | 0x20 : $0 }.elementsEqual("application/json".utf8)
    }

    /// White space of JSON within a line; a line of nothing else is no envelope, and no mistake.
    private static func isBlank(_ byte: UInt8) -> Bool { byte == 0x20 || byte == 0x09 || byte == 0x0D }

    private func judge(_ body: UnsafeRawBufferPointer, isSingle: Bool) throws(WireError) {
        let limit = configuration.limits.messageBytes
        guard body.count <= limit else {
            throw WireError(.tooLarge, "the body has \(body.count) bytes, the limit is \(limit) (limits.messageBytes)")
        }
        guard UTF8Check.isValid(body) else { throw WireError(.malformed, "the body isn't UTF-8") }
        guard let last = body.lastIndex(where: { $0 > 0x20 }) else {
            throw WireError(.malformed, "the body is empty: send one envelope, or several, one a line")
        }
        guard !isSingle else { return }
        let lines = body[...last].count { $0 == UInt8(ascii: "\n") } + 1
        guard lines <= Self.envelopesMax else { throw WireError(.tooMany, "more than \(Self.envelopesMax) lines in one body") }
    }

    func postAnswered(_ outcome: StreamPostOutcome, tag: UInt64) {
        guard let waiting = pending.remove(tag), case .streamPost = waiting.kind else { return }
        net.respond(answer(outcome), to: waiting.connection)
    }

    private func answer(_ outcome: StreamPostOutcome) -> HTTPResponse {
        numbers.streamPosts[Int(outcome.rawValue)] += 1
        switch outcome {
        case .taken: return HTTPResponse(status: 202)
        case .unknown:
            return .error(WireError(.unknownStream, "there's no such stream, or no longer: open a new one with GET /v1/sse, and resume"))
        case .late:
            return .error(WireError(.unavailable, "the stream's node didn't answer in time, it may have taken this", retryAfter: 1000))
        case .refused:
            return .error(WireError(.unavailable, "the stream's node can't be reached now: nothing was taken", retryAfter: 1000))
        }
    }

    /// Handles a post for a stream of this loop as if its envelopes had come over a WebSocket. Who sent it isn't known: nothing in it is trusted.
    func take(_ post: StreamPost) -> StreamPostOutcome {
        guard let serial = node.serial(of: post.connection), serial.loop == number, streamKeys.proves(post.proof, post.connection) else {
            return .unknown
        }
        let id = serial.id
        guard isCurrent(id), sessions[Int(id.index)].isStream, net.isOpen(id) else { return .unknown }
        return post.body.withUnsafeBytes { body in
            // Also what another node judged before: its limits may be others.
            guard (try? judge(body, isSingle: post.isSingle)) != nil else { return .unknown }
            if post.isSingle {
                message(body, .text, on: id)
                return .taken
            }
            for line in body.split(separator: UInt8(ascii: "\n"), omittingEmptySubsequences: true) {
                // One of them may have closed it.
                guard isCurrent(id), net.isOpen(id) else { break }
                guard line.contains(where: { !Self.isBlank($0) }) else { continue }
                message(UnsafeRawBufferPointer(rebasing: line), .text, on: id)
            }
            return .taken
        }
    }
}
