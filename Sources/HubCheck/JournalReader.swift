import HubBase
import HubWire

/// Reads journals, lines of JSON, into a `DeliveryChecker`. A line is one thing that happened to one client:
///
///     {"t":1234567,"client":"a1","out":{…}}     what it sent: an envelope as it stood on the wire
///     {"t":1234567,"client":"a1","in":{…}}      what it got
///     {"t":1234567,"client":"a1","end":true}    its connection is over; with "heard":1234000, anything came over it then last
///     {"t":1234567,"client":"n1","killed":true} the node of that name is no more: what it alone knew may be gone without a word (decision 0250)
///
/// `t` orders the lines of all clients: microseconds of one monotonic clock. One client's lines are in order among each other.
package struct JournalReader {
    package struct Problem: Error, CustomStringConvertible {
        package let description: String
    }

    private struct Line {
        var time: UInt64
        var order: Int
        var file: Int
        var range: Range<Int>
    }

    static let depth = 64
    var checker: DeliveryChecker
    let replacesPayloads: Bool
    var clients: [JournalClient] = []
    /// What each node acknowledged since it was killed last, by its name.
    var acknowledgedBy: [Name: [(message: DeliveryChecker.Message, channel: Name)]] = [:]
    package private(set) var clientNames: [String] = []
    private var numbers: [Name: Int] = [:]

    /// `grace`: as the checker's. `replacesPayloads`: the backend may give messages another payload, so what was sent says nothing of what must come.
    package init(grace: Span = DeliveryChecker.grace, replacesPayloads: Bool = false) {
        checker = DeliveryChecker(grace: grace)
        self.replacesPayloads = replacesPayloads
    }

    /// Reads whole files and judges. Throws for a line that isn't a journal's, with its number.
    package mutating func judge(_ files: [(name: String, bytes: [UInt8])]) throws(Problem) -> CheckReport {
        var lines: [Line] = []
        for (file, entry) in files.enumerated() {
            var start = 0
            var order = 0
            while start < entry.bytes.count {
                let end = entry.bytes[start...].firstIndex(of: UInt8(ascii: "\n")) ?? entry.bytes.count
                order += 1
                if end > start {
                    guard let time = Self.time(of: entry.bytes[start..<end]) else {
                        throw Problem(description: "\(entry.name):\(order): no journal line with \"t\" and \"client\"")
                    }
                    lines.append(Line(time: time, order: order, file: file, range: start..<end))
                }
                start = end + 1
            }
        }
        lines.sort { ($0.time, $0.file, $0.order) < ($1.time, $1.file, $1.order) }
        for line in lines {
            let entry = files[line.file]
            checker.pass(to: Self.instant(line.time))
            let problem = entry.bytes.withUnsafeBytes { bytes -> WireError? in
                do throws(WireError) {
                    try read(UnsafeRawBufferPointer(rebasing: bytes[line.range]))
                    return nil
                } catch {
                    return error
                }
            }
            if let problem { throw Problem(description: "\(entry.name):\(line.order): \(problem.message)") }
        }
        for client in clients.indices { tellHeld(client) }
        return checker.finish()
    }

    private static func instant(_ microseconds: UInt64) -> Instant {
        Instant(nanoseconds: microseconds.multipliedReportingOverflow(by: 1000).overflow ? .max : microseconds * 1000)
    }

    private static func time(of line: ArraySlice<UInt8>) -> UInt64? {
        line.withUnsafeBytes { bytes in
            let fields = try? Object(bytes, ByteRange(offset: 0, count: bytes.count))
            guard fields?["client"] != nil else { return nil }
            return fields?["t"]?.unsigned(in: bytes)
        }
    }

    private mutating func read(_ bytes: UnsafeRawBufferPointer) throws(WireError) {
        let line = try Object(bytes, ByteRange(offset: 0, count: bytes.count))
        guard let name = line["client"]?.name(in: bytes) else { throw WireError(.malformed, "\"client\" must be a name") }
        let kinds = (line["out"], line["in"], line["end"], line["killed"])
        switch kinds {
        case (let out?, nil, nil, nil): try sent(try Object(bytes, out.range), bytes, number(of: name))
        case (nil, let received?, nil, nil): try got(try Object(bytes, received.range), bytes, number(of: name))
        case (nil, nil, let end?, nil) where end.isTrue(in: bytes):
            if let heard = line["heard"], heard.unsigned(in: bytes) == nil {
                throw WireError(.malformed, "\"heard\" must be microseconds, as \"t\"")
            }
            ended(number(of: name), heard: line["heard"]?.unsigned(in: bytes).map { Self.instant($0) })
        case (nil, nil, nil, let killed?) where killed.isTrue(in: bytes): isKilled(name)
        default: throw WireError(.malformed, "a line has one of \"out\", \"in\", \"end\":true and \"killed\":true")
        }
    }

    private mutating func number(of name: Name) -> Int {
        if let number = numbers[name] { return number }
        numbers[name] = clients.count
        clients.append(JournalClient())
        clientNames.append("\(name)")
        return clients.count - 1
    }

    // MARK: Out

    private mutating func sent(_ envelope: Object, _ bytes: UnsafeRawBufferPointer, _ client: Int) throws(WireError) {
        let id = envelope["id"].map { [UInt8]($0.range.bytes(in: bytes)) }
        let channel = envelope.name("channel", in: bytes)
        let type = envelope.text("type", in: bytes)
        let request: JournalRequest
        switch type {
        case "chat", "event":
            let digest = replacesPayloads ? nil : envelope["payload"].flatMap { PayloadDigest.of($0, in: bytes) }
            let sending = JournalRequest.Sending(
                id: envelope.name("messageId", in: bytes), channel: channel, isEvent: type == "event", digest: digest,
                stamp: checker.stamp())
            send(sending, client)
            request = .publish(sending)
        case "subscribe":
            let (wanted, from) = try Self.wanted(envelope, bytes)
            if id == nil {
                clients[client].asksSilently(wanted, at: checker.now)
                // The answer that would bring what was missed isn't given either.
                for channel in wanted where from[channel] != nil { checker.loosened(channel, by: client) }
            }
            request = .subscribe(wanted, from: from)
        case "unsubscribe":
            guard let channel else { return }
            if id == nil {
                checker.leaving(channel, by: client)
                clients[client].leavesSilently(channel, until: checker.now + checker.grace)
            }
            request = .unsubscribe(channel)
        case "history": request = .history(channel, isContinuation: channel.map { clients[client].paging.contains($0) })
        case "ping": request = .ping
        default:
            if type == "connect", clients[client].isWelcome {
                clients[client].isRefreshed = true
                clients[client].left = []
            }
            request = .other
        }
        if let id { clients[client].asked[id, default: []].append(request) }
    }

    private static func wanted(
        _ envelope: Object, _ bytes: UnsafeRawBufferPointer
    ) throws(WireError) -> (wanted: [Name], from: [Name: Position]) {
        var from: [Name: Position] = [:]
        var wanted: [Name] = []
        if let channel = envelope.name("channel", in: bytes) {
            if let position = envelope.position("position", in: bytes) { from[channel] = position }
            return ([channel], from)
        }
        guard let list = envelope["channels"] else { return ([], [:]) }
        for element in try elements(list, bytes) {
            guard element.kind == .object else {
                if let channel = element.name(in: bytes) { wanted.append(channel) }
                continue
            }
            let entry = try Object(bytes, element.range)
            guard let channel = entry.name("channel", in: bytes) else { continue }
            wanted.append(channel)
            if let position = entry.position("position", in: bytes) { from[channel] = position }
        }
        return (wanted, from)
    }

    // MARK: In

    private mutating func got(_ envelope: Object, _ bytes: UnsafeRawBufferPointer, _ client: Int) throws(WireError) {
        let channel = envelope.name("channel", in: bytes)
        switch envelope.text("type", in: bytes) {
        case "chat", "event":
            guard let channel, let entry = Self.publication(envelope, bytes) else {
                throw WireError(.malformed, "a publication without channel, messageId or position")
            }
            if !hear(entry.message, in: channel, at: entry.position, client) {
                checker.received(entry.message, in: channel, at: entry.position, by: client)
            }
            carried(envelope, entry.message, channel, bytes, client)
        case "ack":
            tellHeld(client)
            clients[client].isBackend = !clients[client].isWelcome
            let id = envelope["id"].map { [UInt8]($0.range.bytes(in: bytes)) }
            guard let request = clients[client].take(id, try Self.answer(envelope, bytes)) else {
                return checker.contradicted(channel ?? .empty, "got an ack for what it hadn't asked, or had had an answer to", by: client)
            }
            try answered(request, envelope, bytes, client)
        case "pong": if let id = envelope["id"] { clients[client].takePong([UInt8](id.range.bytes(in: bytes))) }
        case "error":
            guard let id = envelope["id"].map({ [UInt8]($0.range.bytes(in: bytes)) }) else {
                // Of something that it asked for without an id: nobody can say what.
                for channel in clients[client].unsure.keys { checker.loosened(channel, by: client) }
                return
            }
            refused(id, isFinal: Self.isFinal(envelope, bytes), client)
        case "system":
            switch envelope.text("event", in: bytes) {
            case "welcome":
                clients[client].user = envelope.name("user", in: bytes) ?? .empty
                clients[client].node = envelope.name("node", in: bytes) ?? .empty
                tellHeld(client)
                clients[client].isWelcome = true
                clients[client].isBackend = false
                guard let list = envelope["channels"], list.kind == .object else { return }
                var fields = WireFields(bytes, range: list.range, format: .json, depthMax: Self.depth)
                while let (_, value) = try fields.next() { try subscribed(try Object(bytes, value.range), [:], bytes, client) }
            case "resync":
                guard let channel, let position = envelope.position("position", in: bytes) else {
                    throw WireError(.malformed, "a resync without channel or position")
                }
                clients[client].paging.remove(channel)
                if !checker.isSubscribed(channel, client), clients[client].mayHear(channel, at: checker.now) {
                    checker.subscribed(channel, at: position, recovered: nil, page: [], hasMore: false, from: nil, by: client)
                }
                if Self.saysChanged(envelope, bytes) { checker.saidChanged(channel, to: position, by: client) }
                checker.announced(channel, at: position, by: client)
            case "degraded": checker.degraded(client)
            case "restored": checker.restored(client)
            case "unsubscribed":
                if let channel {
                    checker.unsubscribed(channel, by: client)
                    clients[client].left(channel)
                }
            default: return
            }
        default: return
        }
    }

    private mutating func answered(
        _ asked: JournalRequest, _ envelope: Object, _ bytes: UnsafeRawBufferPointer, _ client: Int
    ) throws(WireError) {
        switch asked {
        case .publish(let sending):
            guard let channel = sending.channel ?? envelope.name("channel", in: bytes),
                let message = confirm(sending, id: envelope.name("messageId", in: bytes), in: channel, client)
            else { throw WireError(.malformed, "an ack of a message without messageId or channel") }
            compareOffset(envelope, channel, bytes, client)
            compareAsked(envelope, message, channel, bytes, client)
            guard let position = envelope.position("position", in: bytes) else { throw WireError(.malformed, "an ack without a position") }
            checker.acknowledged(
                message, in: channel, at: position, isDuplicate: envelope["duplicate"]?.isTrue(in: bytes) ?? false, by: client)
            if let digest = sending.digest { checker.confirmed(message, in: channel, digest: digest, by: client) }
            // Of HTTP the answer doesn't say it; who writes the journal may.
            let node = clients[client].isWelcome ? clients[client].node : envelope.name("node", in: bytes) ?? .empty
            if !node.isEmpty { acknowledgedBy[node, default: []].append((message, channel)) }
        case .subscribe(_, let from):
            if let list = envelope["channels"] {
                for element in try Self.elements(list, bytes) { try subscribed(try Object(bytes, element.range), from, bytes, client) }
            } else {
                try subscribed(envelope, from, bytes, client)
            }
        case .unsubscribe(let channel):
            checker.unsubscribed(channel, by: client)
            clients[client].left(channel)
        case .ping, .other: return
        case .history(let named, let isContinuation):
            guard let channel = named ?? envelope.name("channel", in: bytes) else {
                throw WireError(.malformed, "a page without a channel")
            }
            let isContinuation = isContinuation ?? clients[client].paging.contains(channel)
            compareOffset(envelope, channel, bytes, client)
            guard let position = envelope.position("position", in: bytes) else { throw WireError(.malformed, "a page without a position") }
            let page = try page(envelope, channel, bytes, client)
            guard isContinuation else { return checker.read(channel, upTo: position, by: client) }
            if let recovered = envelope["recovered"], !recovered.isTrue(in: bytes) {
                // It broke off midway: told like one that breaks off at once.
                return try subscribed(envelope, [:], bytes, client)
            }
            let hasMore = envelope["more"]?.isTrue(in: bytes) ?? false
            if !hasMore { clients[client].paging.remove(channel) }
            checker.continued(channel, page: page, at: position, hasMore: hasMore, by: client)
        }
    }

    private mutating func subscribed(
        _ result: Object, _ from: [Name: Position], _ bytes: UnsafeRawBufferPointer, _ client: Int
    ) throws(WireError) {
        guard let channel = result.name("channel", in: bytes) else { return }
        // A refused channel has a code instead.
        guard let position = result.position("position", in: bytes) else {
            clients[client].left(channel)
            return checker.refusedSubscription(channel, by: client)
        }
        clients[client].unsure[channel] = nil
        compareOffset(result, channel, bytes, client)
        let hasMore = result["more"]?.isTrue(in: bytes) ?? false
        if hasMore { clients[client].paging.insert(channel) } else { clients[client].paging.remove(channel) }
        if Self.saysChanged(result, bytes) { checker.saidChanged(channel, from: from[channel], to: position, by: client) }
        checker.subscribed(
            channel, at: position, recovered: result["recovered"]?.isTrue(in: bytes), page: try page(result, channel, bytes, client),
            hasMore: hasMore,
            from: from[channel], by: client)
    }

    private static func saysChanged(_ envelope: Object, _ bytes: UnsafeRawBufferPointer) -> Bool {
        switch envelope.text("reason", in: bytes) {
        case "epochChanged", "rolledBack", "ahead": true
        default: false
        }
    }

    private mutating func page(
        _ envelope: Object, _ channel: Name, _ bytes: UnsafeRawBufferPointer, _ client: Int
    ) throws(WireError) -> [(message: DeliveryChecker.Message, position: Position)] {
        guard let list = envelope["publications"] else { return [] }
        var page: [(message: DeliveryChecker.Message, position: Position)] = []
        for element in try Self.elements(list, bytes) {
            let one = try Object(bytes, element.range)
            guard let entry = Self.publication(one, bytes) else {
                throw WireError(.malformed, "an entry of publications without messageId or position")
            }
            carried(one, entry.message, channel, bytes, client)
            page.append(entry)
        }
        return page
    }

    // MARK: What can be wrong with a single one

    /// What a publication carries, and that its offset is its position's.
    private mutating func carried(
        _ envelope: Object, _ message: DeliveryChecker.Message, _ channel: Name, _ bytes: UnsafeRawBufferPointer, _ client: Int
    ) {
        compareOffset(envelope, channel, bytes, client)
        let type = envelope.text("type", in: bytes)
        if !type.isEmpty { checker.classed(message, in: channel, isEvent: type == "event", by: client, isSent: false) }
        guard let payload = envelope["payload"], let digest = PayloadDigest.of(payload, in: bytes) else { return }
        checker.carried(message, in: channel, digest: digest, by: client, isSent: false)
    }

    private mutating func compareOffset(_ envelope: Object, _ channel: Name, _ bytes: UnsafeRawBufferPointer, _ client: Int) {
        guard let offset = envelope["offset"]?.unsigned(in: bytes), let position = envelope.position("position", in: bytes),
            offset != position.offset
        else { return }
        checker.contradicted(channel, "was told the offset \(offset) together with the position \(position)", by: client)
    }

    /// An ack names what was asked, if it names anything.
    private mutating func compareAsked(
        _ envelope: Object, _ message: DeliveryChecker.Message, _ channel: Name, _ bytes: UnsafeRawBufferPointer, _ client: Int
    ) {
        if let id = envelope["messageId"], id.name(in: bytes) != message.id {
            checker.contradicted(channel, "was acknowledged \(message) under another messageId", by: client)
        }
        if let told = envelope["channel"], told.name(in: bytes) != channel {
            checker.contradicted(channel, "was acknowledged \(message) in another channel", by: client)
        }
    }

    /// Decided before anything happened. What may have happened all the same, or was of another message with that id, isn't.
    private static func isFinal(_ error: Object, _ bytes: UnsafeRawBufferPointer) -> Bool {
        guard let retry = error["retry"], !retry.isTrue(in: bytes), let code = ErrorCode(rawValue: error.text("code", in: bytes)) else {
            return false
        }
        switch code {
        case .uncertain, .duplicateConflict, .internal: return false
        default: return !code.mayRetry
        }
    }

    /// What of an ack tells requests apart.
    private static func answer(_ envelope: Object, _ bytes: UnsafeRawBufferPointer) throws(WireError) -> JournalRequest.Answer {
        var answer = JournalRequest.Answer(
            channel: envelope.name("channel", in: bytes), messageId: envelope.name("messageId", in: bytes),
            hasPosition: envelope["position"] != nil, hasRecovered: envelope["recovered"] != nil)
        if let list = envelope["channels"], list.kind == .array {
            var channels: [Name] = []
            for element in try elements(list, bytes) {
                if let channel = try Object(bytes, element.range).name("channel", in: bytes) { channels.append(channel) }
            }
            answer.list = channels
        }
        return answer
    }

    private static func publication(
        _ envelope: Object, _ bytes: UnsafeRawBufferPointer
    ) -> (message: DeliveryChecker.Message, position: Position)? {
        guard let id = envelope.name("messageId", in: bytes), let position = envelope.position("position", in: bytes) else { return nil }
        return (DeliveryChecker.Message(user: envelope.name("user", in: bytes) ?? .empty, id: id), position)
    }

    private static func elements(_ list: WireValue, _ bytes: UnsafeRawBufferPointer) throws(WireError) -> [WireValue] {
        guard list.kind == .array else { throw WireError(.malformed, "a list was expected") }
        var elements = WireElements(bytes, range: list.range, format: .json, depthMax: depth)
        var found: [WireValue] = []
        while let element = try elements.next() { found.append(element) }
        return found
    }

    /// The fields of one object; of a repeated one the first counts.
    private struct Object {
        private var fields: [(key: WireValue, value: WireValue)] = []
        private let bytes: UnsafeRawBufferPointer

        init(_ bytes: UnsafeRawBufferPointer, _ range: ByteRange) throws(WireError) {
            self.bytes = bytes
            var walk = WireFields(bytes, range: range, format: .json, depthMax: JournalReader.depth)
            while let field = try walk.next() { fields.append(field) }
        }

        subscript(key: StaticString) -> WireValue? { fields.first { $0.key.isText(key, in: bytes) }?.value }

        func name(_ key: StaticString, in bytes: UnsafeRawBufferPointer) -> Name? { self[key]?.name(in: bytes) }

        func text(_ key: StaticString, in bytes: UnsafeRawBufferPointer) -> String {
            guard let value = self[key], value.kind == .string else { return "" }
            return String(decoding: value.range.bytes(in: bytes), as: UTF8.self)
        }

        func position(_ key: StaticString, in bytes: UnsafeRawBufferPointer) -> Position? {
            guard let value = self[key], value.kind == .string else { return nil }
            return Position(text: value.range.bytes(in: bytes))
        }
    }
}
