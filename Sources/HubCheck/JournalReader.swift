import HubBase
import HubWire

/// Reads journals, lines of JSON, into a `DeliveryChecker`. A line is one thing that happened to one client:
///
///     {"t":1234567,"client":"a1","out":{…}}     what it sent: an envelope as it stood on the wire
///     {"t":1234567,"client":"a1","in":{…}}      what it got
///     {"t":1234567,"client":"a1","end":true}    its connection is over; with "heard":1234000, anything came over it then last
///
/// `t` orders the lines of all clients: microseconds of one monotonic clock. One client's lines are in order among each other.
package struct JournalReader {
    package struct Problem: Error, CustomStringConvertible {
        package let description: String
    }

    /// A request that waits for its answer, by the raw `id`.
    private enum Asked {
        case publish(DeliveryChecker.Message, channel: Name)
        case subscribe([Name], from: [Name: Position])
        case unsubscribe(Name)
        case history(Name, isContinuation: Bool)
    }

    private struct Client {
        var user = Name.empty
        var asked: [[UInt8]: Asked] = [:]
        /// Where each channel's pages have got to, while it's paging.
        var paging: Set<Name> = []
    }

    private struct Line {
        var time: UInt64
        var order: Int
        var file: Int
        var range: Range<Int>
    }

    static let depth = 64
    private var checker: DeliveryChecker
    private let replacesPayloads: Bool
    private var clients: [Client] = []
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
        let client = number(of: name)
        if let out = line["out"] {
            try sent(try Object(bytes, out.range), bytes, client)
        } else if let received = line["in"] {
            try got(try Object(bytes, received.range), bytes, client)
        } else {
            checker.ended(client, heard: line["heard"]?.unsigned(in: bytes).map { Self.instant($0) })
            clients[client].asked = [:]
            clients[client].paging = []
        }
    }

    private mutating func number(of name: Name) -> Int {
        if let number = numbers[name] { return number }
        numbers[name] = clients.count
        clients.append(Client())
        clientNames.append("\(name)")
        return clients.count - 1
    }

    // MARK: Out

    private mutating func sent(_ envelope: Object, _ bytes: UnsafeRawBufferPointer, _ client: Int) throws(WireError) {
        let id = envelope["id"].map { [UInt8]($0.range.bytes(in: bytes)) }
        let asked: Asked
        switch envelope.text("type", in: bytes) {
        case "chat", "event":
            guard let channel = envelope.name("channel", in: bytes), let messageId = envelope.name("messageId", in: bytes) else { return }
            let message = DeliveryChecker.Message(user: clients[client].user, id: messageId)
            checker.sent(message, to: channel, by: client)
            if !replacesPayloads { carried(envelope, message, channel, bytes, client, isSent: true) }
            asked = .publish(message, channel: channel)
        case "subscribe":
            var from: [Name: Position] = [:]
            var wanted: [Name] = []
            if let channel = envelope.name("channel", in: bytes) {
                wanted = [channel]
                if let position = envelope.position("position", in: bytes) { from[channel] = position }
            } else if let list = envelope["channels"] {
                for element in try Self.elements(list, bytes) {
                    guard element.kind == .object else {
                        if let channel = element.name(in: bytes) { wanted.append(channel) }
                        continue
                    }
                    let entry = try Object(bytes, element.range)
                    guard let channel = entry.name("channel", in: bytes) else { continue }
                    wanted.append(channel)
                    if let position = entry.position("position", in: bytes) {
                        from[channel] = position
                    }
                }
            }
            asked = .subscribe(wanted, from: from)
        case "unsubscribe":
            guard let channel = envelope.name("channel", in: bytes) else { return }
            asked = .unsubscribe(channel)
        case "history":
            guard let channel = envelope.name("channel", in: bytes) else { return }
            asked = .history(channel, isContinuation: clients[client].paging.contains(channel))
        default: return
        }
        if let id { clients[client].asked[id] = asked }
    }

    // MARK: In

    private mutating func got(_ envelope: Object, _ bytes: UnsafeRawBufferPointer, _ client: Int) throws(WireError) {
        let channel = envelope.name("channel", in: bytes)
        switch envelope.text("type", in: bytes) {
        case "chat", "event":
            guard let channel, let entry = Self.publication(envelope, bytes) else {
                throw WireError(.malformed, "a publication without channel, messageId or position")
            }
            checker.received(entry.message, in: channel, at: entry.position, by: client)
            carried(envelope, entry.message, channel, bytes, client)
        case "ack":
            guard let id = envelope["id"].map({ [UInt8]($0.range.bytes(in: bytes)) }),
                let asked = clients[client].asked.removeValue(forKey: id)
            else { return }
            try answered(asked, envelope, bytes, client)
        case "error":
            guard let id = envelope["id"].map({ [UInt8]($0.range.bytes(in: bytes)) }),
                let asked = clients[client].asked.removeValue(forKey: id)
            else { return }
            switch asked {
            case .publish(let message, let channel):
                checker.refused(message, in: channel, isFinal: Self.isFinal(envelope, bytes))
            // It says of itself that the client isn't subscribed then, also if it was before.
            case .subscribe(let wanted, _): for channel in wanted { checker.refusedSubscription(channel, by: client) }
            case .unsubscribe, .history: return
            }
        case "system":
            switch envelope.text("event", in: bytes) {
            case "welcome":
                clients[client].user = envelope.name("user", in: bytes) ?? .empty
                guard let list = envelope["channels"], list.kind == .object else { return }
                var fields = WireFields(bytes, range: list.range, format: .json, depthMax: Self.depth)
                while let (_, value) = try fields.next() { try subscribed(try Object(bytes, value.range), [:], bytes, client) }
            case "resync":
                guard let channel, let position = envelope.position("position", in: bytes) else {
                    throw WireError(.malformed, "a resync without channel or position")
                }
                clients[client].paging.remove(channel)
                checker.announced(channel, at: position, by: client)
            case "degraded": checker.degraded(client)
            case "restored": checker.restored(client)
            case "unsubscribed":
                if let channel { checker.unsubscribed(channel, by: client) }
            default: return
            }
        default: return
        }
    }

    private mutating func answered(
        _ asked: Asked, _ envelope: Object, _ bytes: UnsafeRawBufferPointer, _ client: Int
    ) throws(WireError) {
        switch asked {
        case .publish(let message, let channel):
            compareOffset(envelope, channel, bytes, client)
            compareAsked(envelope, message, channel, bytes, client)
            guard let position = envelope.position("position", in: bytes) else { throw WireError(.malformed, "an ack without a position") }
            checker.acknowledged(message, in: channel, at: position, by: client)
        case .subscribe(_, let from):
            if let list = envelope["channels"] {
                for element in try Self.elements(list, bytes) { try subscribed(try Object(bytes, element.range), from, bytes, client) }
            } else {
                try subscribed(envelope, from, bytes, client)
            }
        case .unsubscribe(let channel): checker.unsubscribed(channel, by: client)
        case .history(let channel, let isContinuation):
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
        guard let position = result.position("position", in: bytes) else { return checker.refusedSubscription(channel, by: client) }
        compareOffset(result, channel, bytes, client)
        let hasMore = result["more"]?.isTrue(in: bytes) ?? false
        if hasMore { clients[client].paging.insert(channel) } else { clients[client].paging.remove(channel) }
        checker.subscribed(
            channel, at: position, recovered: result["recovered"]?.isTrue(in: bytes), page: try page(result, channel, bytes, client),
            hasMore: hasMore,
            from: from[channel], by: client)
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
        _ envelope: Object, _ message: DeliveryChecker.Message, _ channel: Name, _ bytes: UnsafeRawBufferPointer, _ client: Int,
        isSent: Bool = false
    ) {
        if !isSent { compareOffset(envelope, channel, bytes, client) }
        guard let payload = envelope["payload"], let digest = PayloadDigest.of(payload, in: bytes) else { return }
        checker.carried(message, in: channel, digest: digest, by: client, isSent: isSent)
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
