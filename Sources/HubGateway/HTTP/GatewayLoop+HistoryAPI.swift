import HubBase
import HubCore
import HubNet
import HubWire

/// `GET /v1/channels/{channel}/history`: a page of what was said, which a client may keep and ask about again (`ETag`).
extension GatewayLoop {
    func history(_ request: borrowing HTTPRequest, of segment: [UInt8], on id: ConnectionID) -> RequestOutcome {
        do throws(WireError) {
            guard let channel = Name(validating: segment) else {
                throw WireError(.badName, "a channel must be 1 to 255 bytes of UTF-8 without control characters")
            }
            let query = try historyQuery(request)
            try checkHistoryMemory()
            let tag = HistoryTag(query: HistoryTag.hash(request.query.bytes(in: request.head)), known: HistoryTag.known(request))
            let key = pending.insert(Pending(kind: .httpHistory(channel: channel, query, tag), connection: id, id: .none))
            historyUnderWay += query.bytesMax
            outbox.append(.readHistory(channel, Boxed(query), tag: self.tag(key)))
            return .pending
        } catch {
            return .respond(.error(error))
        }
    }

    private func historyQuery(_ request: borrowing HTTPRequest) throws(WireError) -> HistoryQuery {
        let isReverse: Bool
        switch request.queryValue("reverse").map({ String(decoding: $0, as: UTF8.self) }) {
        case nil, "false": isReverse = false
        case "true": isReverse = true
        default: throw WireError(.malformed, "reverse must be true or false")
        }
        let limit = try number(request.queryValue("limit"), "limit")
        return HistoryQuery(
            after: try bound(
                request.queryValue("since"), try number(request.queryValue("sinceTime"), "sinceTime"), "since"),
            before: try bound(
                request.queryValue("before"), try number(request.queryValue("beforeTime"), "beforeTime"), "before"),
            isReverse: isReverse, limit: try historyLimit(limit), bytesMax: max(historyBytes, 1))
    }

    private func bound(_ place: [UInt8]?, _ time: UInt64?, _ name: String) throws(WireError) -> HistoryQuery.Bound? {
        if place != nil && time != nil { throw WireError(.malformed, "give \(name) or \(name)Time, not both") }
        if let time { return .time(time) }
        guard let place else { return nil }
        if let offset = place.withUnsafeBytes({ JSONText.unsigned($0) }) { return .offset(offset) }
        guard let position = place.withUnsafeBytes({ Position(text: $0) }) else {
            throw WireError(.badPosition, "\(name) must be a position that this hub gave out, or an offset")
        }
        return .position(position)
    }

    private func number(_ value: [UInt8]?, _ name: String) throws(WireError) -> UInt64? {
        guard let value else { return nil }
        guard let number = value.withUnsafeBytes({ JSONText.unsigned($0) }) else {
            throw WireError(.malformed, "\(name) must be an integer from 0 to 2^53 - 1")
        }
        return number
    }

    func answerHistory(_ result: Result<HistoryResult, WireError>, _ tag: HistoryTag, to id: ConnectionID) {
        switch result {
        case .failure(let error): net.respond(.error(error), to: id)
        case .success(let page):
            let mark = tag.mark(page)
            // The client may keep it, and asks each time whether it still holds. Who asks decides what it may see.
            let headers = [("ETag", mark), ("Cache-Control", "private, no-cache"), ("Vary", "Authorization")]
            if tag.isKnown(mark) { return net.respond(HTTPResponse(status: 304, headers: headers), to: id) }
            var body = ByteBuffer(capacity: 1024)
            EnvelopeEncoder.history(page, into: &body)
            net.respond(
                HTTPResponse(status: 200, headers: [("Content-Type", "application/json")] + headers, body: body.copyBytes()), to: id)
        }
    }
}

/// What an answer is marked with (RFC 9110 §8.8.3), and the marks that the client has already (§13.1.2).
struct HistoryTag {
    /// Of the request's own words.
    let query: UInt64
    let known: [[UInt8]]

    static func hash(_ query: UnsafeRawBufferPointer) -> UInt64 { FNV1a.hash(query) }

    /// Strong or weak makes no difference in If-None-Match. Beyond a few nobody has that many.
    static func known(_ request: borrowing HTTPRequest) -> [[UInt8]] {
        guard let value = request.header("if-none-match") else { return [] }
        return value.split(separator: UInt8(ascii: ","), maxSplits: 16).map { element in
            var bytes = element.drop { $0 == 0x20 || $0 == 0x09 }
            while let last = bytes.last, last == 0x20 || last == 0x09 { bytes.removeLast() }
            if bytes.starts(with: Array("W/".utf8)) { bytes = bytes.dropFirst(2) }
            return Array(bytes)
        }
    }

    func isKnown(_ mark: String) -> Bool { known.contains { $0 == Array("*".utf8) || $0 == Array(mark.utf8) } }

    /// By where the channel stands and what the page holds: publications end by age too, without anything new.
    func mark(_ page: HistoryResult) -> String {
        var facts = ByteBuffer(capacity: 160)
        for position in [page.position, page.publications.first?.position ?? .start, page.publications.last?.position ?? .start] {
            position.append(to: &facts)
        }
        facts.append(decimal: UInt64(page.publications.count))
        facts.append(UInt8(ascii: page.hasMore ? "+" : "."))
        facts.append(Array((page.reason ?? "").utf8))
        return "\"" + String(FNV1a.hash(facts.bytes, seed: query), radix: 16) + "\""
    }
}
