import HubBase

/// HTTP in: requests one after another (RFC 9112), pipelined ones too, each answered before the next is looked at.
extension NetLoop {
    /// Answers wait in the queue up to this; then the next request has to wait.
    private static let pipelineBytes = 64 * 1024

    func workOffHTTP(
        _ index: UInt32, _ connection: UnsafeMutablePointer<Connection>, _ bytes: UnsafeMutableRawBufferPointer
    ) -> Progress {
        let generation = connection.pointee.generation
        var offset = 0
        while offset < bytes.count {
            guard connection.pointee.generation == generation, connection.pointee.phase == .http,
                !connection.pointee.flags.contains(.isAnswerPending)
            else { break }
            if holdsBack(index, connection) { break }
            let exchange: UnsafeMutablePointer<HTTPExchange>
            if let present = connection.pointee.exchange {
                exchange = present
            } else {
                exchange = HTTPExchange.make()
                exchange.pointee.stage = .head
                connection.pointee.exchange = exchange
            }
            let rest = UnsafeRawBufferPointer(rebasing: bytes[offset...])
            switch exchange.pointee.stage {
            case .idle:
                exchange.pointee.stage = .head
                state.pointee.deadlines.arm(index, at: state.pointee.now + options.limits.headDeadline)
            case .head:
                switch exchange.pointee.parser.parse(rest, limits: options.limits) {
                case .needMore: return Progress(consumed: offset, wanted: 0)
                case .refused(let refusal):
                    tell(index, connection, .request(status: refusal.status, refusal.message))
                    refuse(index, connection, refusal)
                    return Progress(consumed: bytes.count, wanted: 0)
                case .head(let head): offset += begin(index, connection, exchange, head, rest)
                }
            case .body(let head, let count):
                let total = head.headLength + count
                guard rest.count >= total else { return Progress(consumed: offset, wanted: total) }
                offset += total
                let body = UnsafeRawBufferPointer(rebasing: rest[head.headLength..<total])
                dispatch(index, connection, exchange, head, in: rest, body: body)
            case .chunks(let head, var decoder):
                switch decoder.decode(rest, limits: options.limits) {
                case .needMore(let consumed):
                    exchange.pointee.stage = .chunks(head, decoder)
                    return Progress(consumed: offset + consumed, wanted: 0)
                case .data(let range, let consumed):
                    HeldBytes.append(&exchange.pointee.body, range.bytes(in: rest), limit: options.limits.bodyBytes)
                    exchange.pointee.stage = .chunks(head, decoder)
                    offset += consumed
                case .end(let consumed):
                    offset += consumed
                    dispatchChunked(index, connection, exchange, head)
                case .refused(let refusal):
                    tell(index, connection, .request(status: refusal.status, refusal.message))
                    refuse(index, connection, refusal)
                    return Progress(consumed: bytes.count, wanted: 0)
                }
            }
        }
        return Progress(consumed: offset, wanted: 0)
    }

    /// Too much waits to leave: the peer asks faster than it reads.
    private func holdsBack(_ index: UInt32, _ connection: UnsafeMutablePointer<Connection>) -> Bool {
        if connection.pointee.backlog != nil {
            connection.pointee.flags.insert(.waitsForDrain)
        } else if connection.pointee.pendingEnd != 0
            && Int(connection.pointee.pendingEnd - connection.pointee.pendingStart) > Self.pipelineBytes
        {
            // It leaves at the end of this turn; should that block, the next go-on finds a backlog.
            resumeLater(index, connection)
        } else {
            return false
        }
        state.pointee.deadlines.arm(index, at: state.pointee.now + options.limits.keepAlive)
        pause(index, connection)
        return true
    }

    /// The head is there. Returns what is done with: nothing, as long as the body belongs to it in one piece.
    private func begin(
        _ index: UInt32, _ connection: UnsafeMutablePointer<Connection>, _ exchange: UnsafeMutablePointer<HTTPExchange>, _ head: HTTPHead,
        _ bytes: UnsafeRawBufferPointer
    ) -> Int {
        var consumed = 0
        let isWhole: Bool
        switch head.bodyLength {
        case .none:
            exchange.pointee.stage = .body(head, 0)
            isWhole = true
        case .length(let count):
            exchange.pointee.stage = .body(head, count)
            isWhole = bytes.count >= head.headLength + count
        case .chunked:
            let copy = UnsafeRawBufferPointer(rebasing: bytes[..<head.headLength])
            HeldBytes.append(&exchange.pointee.head, copy, limit: head.headLength)
            exchange.pointee.stage = .chunks(head, ChunkedDecoder())
            consumed = head.headLength
            isWhole = bytes.count > head.headLength
        }
        if !isWhole {
            state.pointee.deadlines.arm(index, at: state.pointee.now + options.limits.headDeadline)
            if head.expectsContinue {
                let start = state.pointee.arena.count
                HTTPResponseWriter.writeContinue(into: &state.pointee.arena)
                queueHTTP(index, connection, from: start)
            }
        }
        return consumed
    }

    private func dispatchChunked(
        _ index: UInt32, _ connection: UnsafeMutablePointer<Connection>, _ exchange: UnsafeMutablePointer<HTTPExchange>, _ head: HTTPHead
    ) {
        // Taken from the exchange first: the handler may end the connection while it reads.
        var headBytes = exchange.pointee.head
        var bodyBytes = exchange.pointee.body
        exchange.pointee.head = nil
        exchange.pointee.body = nil
        let nothing = UnsafeRawBufferPointer(start: nil, count: 0)
        dispatch(
            index, connection, exchange, head, in: headBytes.map { UnsafeRawBufferPointer(HeldBytes.buffer($0)) } ?? nothing,
            body: bodyBytes.map { UnsafeRawBufferPointer(HeldBytes.buffer($0)) } ?? nothing)
        HeldBytes.free(&headBytes)
        HeldBytes.free(&bodyBytes)
    }

    private func dispatch(
        _ index: UInt32, _ connection: UnsafeMutablePointer<Connection>, _ exchange: UnsafeMutablePointer<HTTPExchange>, _ head: HTTPHead,
        in bytes: UnsafeRawBufferPointer, body: UnsafeRawBufferPointer
    ) {
        let id = ConnectionID(index: index, generation: connection.pointee.generation)
        exchange.pointee.isHead = head.method == .head
        exchange.pointee.keepAlive = head.keepAlive && !connection.pointee.flags.contains(.isReserve)
        exchange.pointee.lines = []
        exchange.pointee.stage = .idle
        exchange.pointee.parser = HTTPHeadParser()
        let request = HTTPRequest(head, in: bytes, body: body)
        if options.proxies != nil { noteClient(of: request, connection) }
        guard let server else { return answer(index, connection, HTTPResponse(status: 503)) }
        let outcome = server.request(request, on: id)
        guard connection.pointee.generation == id.generation, connection.pointee.phase == .http else { return }
        switch outcome {
        case .respond(let response): answer(index, connection, response)
        case .pending:
            connection.pointee.flags.insert(.isAnswerPending)
            connection.pointee.flags.remove(.isHeld)
            state.pointee.deadlines.arm(index, at: state.pointee.now + options.limits.answerDeadline)
            pause(index, connection)
        case .upgrade where connection.pointee.flags.contains(.isReserve), .stream where connection.pointee.flags.contains(.isReserve):
            answer(index, connection, HTTPResponse(status: 503, headers: [("Retry-After", "5")]))
        case .upgrade where !countsForClient(id, connection), .stream where !countsForClient(id, connection):
            answer(index, connection, HTTPResponse(status: 429, headers: [("Retry-After", "5")]))
        case .upgrade(let subprotocol):
            switch OpeningHandshake.judge(request) {
            case .refuse(let response):
                tell(index, connection, .handshake(status: response.status))
                answer(index, connection, response)
            case .accept(let key): upgrade(id, connection, key, subprotocol, agreeToDeflate(request, index, connection))
            }
        case .stream(let retry): beginStream(id, connection, retry: retry)
        }
    }

    /// Tells the handler what is refused for its form.
    func tell(_ index: UInt32, _ connection: UnsafeMutablePointer<Connection>, _ refusal: NetRefusal) {
        guard let server, !connection.pointee.flags.contains(.isClient) else { return }
        server.refused(ConnectionID(index: index, generation: connection.pointee.generation), refusal)
    }

    /// A WebSocket is one client's, also where a proxy's connection carried several clients' requests before.
    private func countsForClient(_ id: ConnectionID, _ connection: UnsafeMutablePointer<Connection>) -> Bool {
        guard let client = connection.pointee.edge?.pointee.forwarded else { return true }
        return recount(id, as: client)
    }

    private func upgrade(
        _ id: ConnectionID, _ connection: UnsafeMutablePointer<Connection>, _ key: AcceptKey, _ subprotocol: StaticString?,
        _ deflate: DeflateAgreement?
    ) {
        let start = state.pointee.arena.count
        OpeningHandshake.write101(key, subprotocol: subprotocol, deflate: deflate, into: &state.pointee.arena)
        queueHTTP(id.index, connection, from: start)
        connection.pointee.exchange?.pointee.answerEnd = connection.pointee.pendingEnd
        connection.pointee.phase = .open
        connection.pointee.decoder = FrameDecoder(role: .server, allowsCompression: deflate != nil)
        connection.pointee.flags.insert(.owesReport)
        if !connection.pointee.flags.contains(.isHeld) { armPing(id.index, connection) }
        if let server { server.opened(id) }
        // The handler may have ended it, or withheld the answer.
        guard state.pointee.table.find(id) != nil, !connection.pointee.flags.contains(.isWithheld) else { return }
        HTTPExchange.free(&connection.pointee.exchange)
    }

    // MARK: Answers

    /// Adds a header to the answer of the request that the handler is looking at or owes an answer to, whatever that answer will be.
    package func addHeader(_ name: StaticString, _ value: String, to id: ConnectionID) {
        guard let exchange = state.pointee.table.find(id)?.pointee.exchange else { return }
        exchange.pointee.lines += "\(name): ".utf8
        exchange.pointee.lines += value.utf8.map { $0 < 0x20 || $0 == 0x7F ? 0x20 : $0 }
        exchange.pointee.lines += "\r\n".utf8
    }

    /// The same for one that's always the same, with its line's end. Cost: one append.
    package func addHeaderLine(_ line: StaticString, to id: ConnectionID) {
        guard let exchange = state.pointee.table.find(id)?.pointee.exchange else { return }
        line.withUTF8Buffer { exchange.pointee.lines.append(contentsOf: $0) }
    }

    /// Answers a request that was left `pending`. Ignored when the connection has gone.
    package func respond(_ response: HTTPResponse, to id: ConnectionID) {
        guard let connection = state.pointee.table.find(id), connection.pointee.phase == .http,
            connection.pointee.flags.contains(.isAnswerPending)
        else { return }
        connection.pointee.flags.remove(.isAnswerPending)
        answer(id.index, connection, response)
        if connection.pointee.phase == .http { resumeLater(id.index, connection) }
    }

    private func answer(_ index: UInt32, _ connection: UnsafeMutablePointer<Connection>, _ response: HTTPResponse) {
        precondition(!state.pointee.isEncoding, "a request is answered while a frame is being made")
        let isHead = connection.pointee.exchange?.pointee.isHead ?? false
        let keepAlive = (connection.pointee.exchange?.pointee.keepAlive ?? false) && !response.closes && !acceptor.hasStopped
        let start = state.pointee.arena.count
        HTTPResponseWriter.write(
            response, lines: connection.pointee.exchange?.pointee.lines ?? [], keepAlive: keepAlive, isHead: isHead,
            date: System.wallSeconds(), into: &state.pointee.arena)
        connection.pointee.exchange?.pointee.lines = []
        queueHTTP(index, connection, from: start)
        connection.pointee.flags.remove(.isHeld)
        if keepAlive {
            state.pointee.deadlines.arm(index, at: state.pointee.now + options.limits.keepAlive)
        } else {
            finish(index, connection)
        }
    }

    func refuse(_ index: UInt32, _ connection: UnsafeMutablePointer<Connection>, _ refusal: HTTPRefusal) {
        connection.pointee.exchange?.pointee.isHead = false
        var response = refusal.response
        response.closes = true
        answer(index, connection, response)
    }

    func queueHTTP(_ index: UInt32, _ connection: UnsafeMutablePointer<Connection>, from start: Int) {
        connection.pointee.flags.insert(.carriesHTTP)
        queue(index, connection, from: start)
    }

    /// Nothing came, or not all of it, or the handler owes an answer.
    func httpDeadlinePassed(_ index: UInt32, _ connection: UnsafeMutablePointer<Connection>) {
        if connection.pointee.flags.contains(.isAnswerPending) {
            connection.pointee.flags.remove(.isAnswerPending)
            refuse(
                index, connection,
                HTTPRefusal(
                    status: 503,
                    message: "no answer in time: what was asked may be done or not, ask again (a publication with the same messageId)"))
            return
        }
        if connection.pointee.backlog != nil { return lose(index, connection, "answers aren't read") }
        guard let exchange = connection.pointee.exchange else {
            state.pointee.counters.requestTimeouts += 1
            return finish(index, connection)
        }
        if case .idle = exchange.pointee.stage { return finish(index, connection) }
        state.pointee.counters.requestTimeouts += 1
        refuse(index, connection, HTTPRefusal(status: 408, message: "the request didn't come in time"))
    }
}
