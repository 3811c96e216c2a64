import HubBase
import HubCore
import HubNet
import HubWire

/// `history`: a page of what was said. From a position, for one who is catching up, it's the next page of the recovery.
extension GatewayLoop {
    func history(_ request: Request, _ bytes: UnsafeRawBufferPointer, on id: ConnectionID) {
        do throws(WireError) {
            let channel = try channel(of: request, bytes, on: id, allowsDefault: true)
            let query = try historyQuery(request, bytes, on: id)
            let requestId = RequestID(request.id.bytes(in: bytes))
            // Part of a subscription that was allowed.
            if case .position(let position)? = query.after, query.before == nil, !query.isReverse, isCatchingUp(id, channel) {
                catchUp(id, channel, from: position, limit: query.limit, requestId)
                return
            }
            let rights = sessions[Int(id.index)].rights
            guard rights.mayReadHistory(of: channel) else { throw rights.refusal(.history, in: channel) }
            try checkHistoryMemory()
            promised[id.index, default: 0] += query.bytesMax
            historyUnderWay += query.bytesMax
            let key = note(.history(channel: channel, query), request, bytes, on: id)
            outbox.append(.readHistory(channel, Boxed(query), tag: tag(key)))
        } catch {
            refuse(error, request.id, in: bytes, on: id)
        }
    }

    private func historyQuery(_ request: Request, _ bytes: UnsafeRawBufferPointer, on id: ConnectionID) throws(WireError) -> HistoryQuery {
        func bound(_ place: ByteRange, _ time: ByteRange, _ name: String) throws(WireError) -> HistoryQuery.Bound? {
            if place.isPresent && time.isPresent { throw WireError(.malformed, "give \(name) or \(name)Time, not both") }
            if let value = request.value(time, in: bytes) { return .time(value.unsigned(in: bytes) ?? 0) }
            guard let value = request.value(place, in: bytes) else { return nil }
            if let offset = value.unsigned(in: bytes) { return .offset(offset) }
            guard let position = Position(text: value.range.bytes(in: bytes)) else {
                throw WireError(.badPosition, "\(name) must be a position that this hub gave out, or an offset")
            }
            return .position(position)
        }
        let limit = request.value(request.limit, in: bytes)?.unsigned(in: bytes)
        return HistoryQuery(
            after: try bound(request.since, request.sinceTime, "since"), before: try bound(request.before, request.beforeTime, "before"),
            isReverse: request.reverse, limit: try historyLimit(limit), bytesMax: max(min(pageBytes(for: id), historyBytes), 1))
    }

    /// Once there's no room for a page the next request, and all behind it, waits: for those under way, or until the client has read. For a page
    /// brings one publication at least, and one connection could ask for a thousand at once.
    func waitsForRoom(_ request: Request, on id: ConnectionID) -> Bool {
        guard request.type == .history, sessions[Int(id.index)].phase == .open, pageBytes(for: id) == 0 else { return false }
        if promised[id.index] == nil, roomDelays[id.index] == nil { lookForRoom(id, after: .milliseconds(20)) }
        return true
    }

    private func lookForRoom(_ id: ConnectionID, after delay: Span) {
        roomDelays[id.index] = delay
        _ = net.schedule(after: delay, kind: TimerKind.room.rawValue, value: id.packed)
    }

    /// A client that doesn't read is looked at more and more seldom; its heartbeat ends it.
    func lookForRoom(_ id: ConnectionID) {
        guard isCurrent(id), let delay = roomDelays.removeValue(forKey: id.index), sessions[Int(id.index)].phase == .held else { return }
        if pageBytes(for: id) > 0 { goOn(id) } else { lookForRoom(id, after: min(delay.scaled(by: 2), .seconds(1))) }
    }

    /// Pages of the turn before this are in the queues now, or with the client.
    func forgetPagesWritten() {
        guard !pagesWritten.isEmpty else { return }
        let written = pagesWritten
        pagesWritten.removeAll(keepingCapacity: true)
        for (id, bytes) in written {
            keepPromise(bytes, to: id)
            if isCurrent(id) { goOn(id) }
        }
    }

    /// A page takes its room until the turn's end, when it's written.
    func pageWritten(_ bytes: Int, to id: ConnectionID) {
        pagesWritten.append((id, bytes))
        net.wake()
    }

    /// What history that's asked for by `history` and over HTTP may weigh on this loop until it stands in the queues, which have a bound of
    /// their own: an eighth of `limits.sendMemory`. Pages become smaller as it fills.
    private var historyMemory: Int { configuration.limits.sendMemory / 8 }

    var historyBytes: Int { min(configuration.limits.outboundBytes / 4, max(historyMemory - historyUnderWay, 0) / 16) }

    func checkHistoryMemory() throws(WireError) {
        guard historyUnderWay < historyMemory else {
            throw WireError(.overloaded, "too much history is being read for others", retryAfter: 1000)
        }
    }

    func historyLimit(_ asked: UInt64?) throws(WireError) -> Int {
        guard let asked else { return configuration.limits.historyPage }
        guard asked > 0 else { throw WireError(.malformed, "limit must be at least 1") }
        guard asked <= UInt64(Configuration.Limits.historyPageMax) else {
            throw WireError(.tooMany, "limit may be \(Configuration.Limits.historyPageMax) at most: ask for more in pages")
        }
        return Int(asked)
    }

    // MARK: Answers

    func historyRead(_ channel: Name, _ result: Result<HistoryPage, WireError>, tag: UInt64) {
        guard let waiting = pending.remove(tag) else { return }
        switch waiting.kind {
        case .history(let channel, let query):
            historyUnderWay -= query.bytesMax
            defer { answered(waiting.connection) }
            pageWritten(query.bytesMax, to: waiting.connection)
            guard isCurrent(waiting.connection) else { return }
            // Its right may have gone while it waited.
            let rights = sessions[Int(waiting.connection.index)].rights
            guard rights.mayReadHistory(of: channel) else {
                return refuse(rights.refusal(.history, in: channel), waiting.id, on: waiting.connection)
            }
            let format = sessions[Int(waiting.connection.index)].format
            answer(history(result, query, channel, format), waiting.id, on: waiting.connection)
        case .httpHistory(let channel, let query, let tag):
            historyUnderWay -= query.bytesMax
            answerHistory(history(result, query, channel, .json), tag, to: waiting.connection)
        default: break
        }
    }

    /// A page of the recovery.
    func answerPage(_ result: Result<JoinAnswer, WireError>, _ channel: Name, _ requestId: RequestID, on id: ConnectionID) {
        answer(
            result.map { answer in
                HistoryResult(
                    channel: channel, position: answer.position, publications: answer.publications, hasMore: answer.hasMore,
                    recovered: answer.recovered, reason: answer.reason?.rawValue)
            }, requestId, on: id)
    }

    private func answer(_ result: Result<HistoryResult, WireError>, _ requestId: RequestID, on id: ConnectionID) {
        switch result {
        case .failure(let error): if isCurrent(id) { refuse(error, requestId, on: id) }
        case .success(let page):
            guard requestId.isPresent, isCurrent(id) else { return }
            requestId.withBytes { raw in
                send(to: id, as: .reply) { EnvelopeEncoder.ackHistory(id: raw, page, format: $0, into: &$1) }
            }
        }
    }

    private func history(
        _ result: Result<HistoryPage, WireError>, _ query: HistoryQuery, _ channel: Name, _ format: WireFormat
    ) -> Result<HistoryResult, WireError> {
        let page: HistoryPage
        switch result {
        case .failure(let error): return .failure(error)
        case .success(let read): page = read.trimmed(to: query.bytesMax, channel: channel, format: format)
        }
        if case .offset(let offset)? = query.after, offset > page.tip.offset {
            return .failure(
                WireError(.badPosition, "since (\(offset)) is ahead of the channel, which is at \(page.tip.offset)"))
        }
        var answer = HistoryResult(channel: channel, position: page.tip, publications: page.publications, hasMore: page.hasMore)
        switch page.continuity {
        case .notAsked: break
        case .whole: answer.recovered = true
        case .broken(let failure):
            // What's kept comes all the same, the oldest first: it isn't the continuation, and says so.
            answer.recovered = false
            answer.reason = failure.rawValue
        }
        // Forwards a page ends with its last publication, unless it has come to where the channel stands. One that's empty between its bounds
        // ends where it was asked from.
        if !query.isReverse, answer.hasMore || query.before != nil {
            if let last = answer.publications.last {
                answer.position = last.position
            } else if case .position(let since)? = query.after, page.continuity == .whole {
                answer.position = since
            }
        }
        return .success(answer)
    }
}
