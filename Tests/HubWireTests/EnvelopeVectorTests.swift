import HubBase
import HubWire
import Testing

/// Every envelope in each format, byte for byte: docs/vectors/envelopes.json.
@Suite struct EnvelopeVectorTests {
    private typealias Write = (WireFormat, inout ByteBuffer) -> Void

    static let position = Position(epoch: Mark("x7c2mq4a")!, offset: 18, tag: Mark("m0s6f3ya")!)
    static let time: UInt64 = 1_796_011_158_488
    static let foreign = WireError(.forbidden, "the channel is another user's inbox")

    /// The id as a request had it: a token of that format.
    private static func id(_ number: UInt8, _ format: WireFormat, _ body: (UnsafeRawBufferPointer) -> Void) {
        (format == .json ? bytes("\(number)") : [number]).withUnsafeBytes(body)
    }

    private static var none: UnsafeRawBufferPointer { UnsafeRawBufferPointer(start: nil, count: 0) }

    private static func answer(
        _ number: UInt8, _ write: @escaping (UnsafeRawBufferPointer, WireFormat, inout ByteBuffer) -> Void
    ) -> Write {
        { format, buffer in
            var taken = ByteBuffer(capacity: 64)
            id(number, format) { write($0, format, &taken) }
            buffer.append(taken.bytes)
        }
    }

    private static func publication(_ value: Publication, _ position: Position?) -> Write {
        { EnvelopeEncoder.publication(value, channel: "room:42", position: position, format: $0, into: &$1) }
    }

    private static func system(_ event: SystemEvent) -> Write { { EnvelopeEncoder.system(event, format: $0, into: &$1) } }

    private static let lunch = Publication(
        messageClass: .event, user: .empty, device: .empty, messageId: "b71d0f52", time: time,
        payload: bytes(#"["topic",{"to":"lunch","at":1.5,"on":null}]"#))

    /// One publication in each format, so that a page in either has one to rewrite.
    private static var page: [PositionedPublication] {
        let packed = rewritten(lunch.payload, from: .json, to: .messagePack) ?? []
        let chat = Publication(
            messageClass: .chat, user: "alice", device: "phone", messageId: "0e4f3c9a", time: time, payload: bytes(#"{"text":"hi"}"#))
        var event = lunch
        event.payload = packed
        event.payloadFormat = .messagePack
        return [
            PositionedPublication(
                position: Position(epoch: position.epoch, offset: 17, tag: Mark("q3hd5k2b")!), previous: .none, publication: chat),
            PositionedPublication(position: position, previous: Mark("q3hd5k2b")!, publication: event),
        ]
    }

    /// By the vector's name.
    private static var written: [String: Write] {
        [
            "welcome": {
                EnvelopeEncoder.welcome(
                    Welcome(
                        connection: "k3v7q2ma.17", node: "n1", user: "alice", device: "phone", pingMilliseconds: 20_000,
                        messageBytesMax: 65_536, channelsMax: 256,
                        channels: [
                            SubscribeResult(channel: "user:alice", result: .success(.start)),
                            SubscribeResult(channel: "staff:1", result: .failure(WireError(.forbidden, "no"))),
                        ], tokenExpires: 1_796_014_758_488), format: $0, into: &$1)
            },
            "ack": answer(4) { EnvelopeEncoder.ack(id: $0, channel: "room:42", format: $1, into: &$2) },
            "ack without a channel": answer(14) { EnvelopeEncoder.ack(id: $0, channel: nil, format: $1, into: &$2) },
            "ack of connect": answer(1) { EnvelopeEncoder.ackConnect(id: $0, user: "alice", format: $1, into: &$2) },
            "ack of subscribe": answer(2) {
                let result = SubscribeResult(channel: "room:42", result: .success(position), recovered: false, reason: "epochChanged")
                EnvelopeEncoder.ackSubscribe(id: $0, results: [result], isList: false, format: $1, into: &$2)
            },
            "ack of subscribe to several": answer(3) {
                let results = [
                    SubscribeResult(channel: "room:42", result: .success(position), recovered: true),
                    SubscribeResult(channel: "user:bob", result: .failure(foreign)),
                ]
                EnvelopeEncoder.ackSubscribe(id: $0, results: results, isList: true, format: $1, into: &$2)
            },
            "ack of subscribe with a page": answer(2) {
                var result = SubscribeResult(channel: "room:42", result: .success(position), recovered: true)
                result.publications = page
                result.hasMore = true
                result.reads = [ReadMark(user: "alice", offset: 12), ReadMark(user: "böb", offset: 18)]
                EnvelopeEncoder.ackSubscribe(id: $0, results: [result], isList: false, format: $1, into: &$2)
            },
            "ack of history": answer(16) {
                let result = HistoryResult(channel: "room:42", position: position, publications: page.reversed(), hasMore: true)
                EnvelopeEncoder.ackHistory(id: $0, result, format: $1, into: &$2)
            },
            "ack of history that is broken": answer(16) {
                let result = HistoryResult(
                    channel: "room:42", position: position, publications: [], hasMore: false, recovered: false, reason: "trimmed")
                EnvelopeEncoder.ackHistory(id: $0, result, format: $1, into: &$2)
            },
            "ack of chat": answer(5) {
                EnvelopeEncoder.ackPublish(
                    id: $0, channel: "room:42", messageId: "0e4f3c9a", position: position, isDuplicate: false, format: $1, into: &$2)
            },
            "ack of a repeated chat": answer(5) {
                EnvelopeEncoder.ackPublish(
                    id: $0, channel: "room:42", messageId: "0e4f3c9a", position: position, isDuplicate: true, format: $1, into: &$2)
            },
            "ack of read": answer(7) { EnvelopeEncoder.ackRead(id: $0, channel: "room:42", offset: 18, format: $1, into: &$2) },
            "ack of presence": answer(8) { EnvelopeEncoder.ackPresence(id: $0, version: 9, format: $1, into: &$2) },
            "ack of watch": answer(9) {
                let users = [
                    PresenceChange(user: "alice", status: .online, version: 8, lastSeen: time),
                    PresenceChange(user: "böb", status: .offline, version: 0, lastSeen: 0),
                ]
                EnvelopeEncoder.ackWatch(id: $0, users: users, isStale: true, format: $1, into: &$2)
            },
            "ack of subscribe with members": answer(2) {
                var result = SubscribeResult(channel: "room:42", result: .success(position))
                result.occupancy = 7
                result.members = MembersPage(
                    members: [MemberEntry(user: "alice", devices: 2), MemberEntry(user: "böb", devices: 1)], occupancy: 2,
                    sequence: 1_796_011_158_490, mode: .batched)
                EnvelopeEncoder.ackSubscribe(id: $0, results: [result], isList: false, format: $1, into: &$2)
            },
            "ack of members": answer(11) {
                let page = MembersPage(
                    members: [MemberEntry(user: "alice", devices: 300)], occupancy: 70_000, sequence: 1_796_011_158_490, mode: .counts,
                    cursor: "18446744073709551615")
                EnvelopeEncoder.ackMembers(id: $0, channel: "hall:1", page, format: $1, into: &$2)
            },
            "members": {
                var change = MembersChange(
                    channel: "room:42", mode: .each, occupancy: 2, sequence: 1_796_011_158_493, previous: 1_796_011_158_490)
                change.joined = [MemberEntry(user: "carol", devices: 1)]
                change.left = ["böb", "dave"]
                change.updated = [MemberEntry(user: "alice", devices: 2)]
                EnvelopeEncoder.members(change, format: $0, into: &$1)
            },
            "members told whole": {
                var change = MembersChange(channel: "room:42", mode: .batched, occupancy: 1, sequence: 1_796_011_158_494)
                change.members = [MemberEntry(user: "alice", devices: 1)]
                EnvelopeEncoder.members(change, format: $0, into: &$1)
            },
            "members counted": {
                EnvelopeEncoder.members(MembersChange(channel: "room:42", mode: .counts, occupancy: 0, sequence: 5), format: $0, into: &$1)
            },
            "error": { format, buffer in
                let id: StaticString = format == .json ? "\"e-6\"" : "\u{23}e-6"
                var token = [UInt8](UnsafeRawBufferPointer.literal(id))
                // No text literal can hold the header of a short string.
                if format != .json { token[0] = 0xA3 }
                let error = WireError(.rateLimited, "more than 100 messages a second (limits.messagesPerSecond)", retryAfter: 250)
                var taken = ByteBuffer(capacity: 64)
                token.withUnsafeBytes { EnvelopeEncoder.error(id: $0, error, format: format, into: &taken) }
                buffer.append(taken.bytes)
            },
            "pong": { EnvelopeEncoder.pong(id: none, format: $0, into: &$1) },
            "chat": publication(
                Publication(
                    messageClass: .chat, user: "alice", device: "phone", messageId: "0e4f3c9a", time: time,
                    payload: bytes(#"{"text":"hi"}"#)),
                position),
            "event in nobody's name": publication(
                lunch, Position(epoch: Mark("x7c2mq4a")!, offset: 4_294_967_296, tag: Mark("m0s6f3ya")!)),
            "typing": publication(
                Publication(
                    messageClass: .typing, user: "bob", device: "laptop", messageId: .empty, time: time,
                    payload: bytes(#"{"isTyping":true}"#)),
                nil),
            "read": publication(
                Publication(
                    messageClass: .read, user: "bob", device: "laptop", messageId: .empty, time: time, payload: bytes(#"{"offset":19}"#)),
                nil),
            "presence changes": {
                let changes = [
                    PresenceChange(user: "alice", status: .away, version: 9, lastSeen: time),
                    PresenceChange(user: "bob", status: .online, version: 1, lastSeen: time),
                ]
                EnvelopeEncoder.presence(changes, format: $0, into: &$1)
            },
            "degraded": system(.degraded(reason: "the link to Redis is down")),
            "restored": system(.restored),
            "resync": system(
                .resync(
                    channel: "room:42", position: Position(epoch: Mark("k2ma7qh3")!, offset: 4, tag: Mark("d5k2b7qh")!), reason: "linkLost")
            ),
            "drain": system(.drain(returnAfterMilliseconds: 1840)),
            "tokenExpiring": system(.tokenExpiring(inMilliseconds: 60_000)),
            "unsubscribed": system(.unsubscribed(channel: "staff:1", code: .forbidden)),
            "dropped": system(.dropped(class: "typing", count: 12)),
            "stream": system(.stream(key: "k3v7q2ma5x2c-17.9f86d081884c7d659a2feaa0c55ad015")),
        ]
    }

    private static func encoded(_ format: WireFormat, _ write: Write) -> [UInt8] {
        var buffer = ByteBuffer(capacity: 16)
        write(format, &buffer)
        return buffer.copyBytes()
    }

    @Test("the hub writes each of its envelopes as the vectors have it, in each format")
    func hub() throws {
        let vectors = try Vectors.envelopes().filter(\.isFromHub)
        #expect(Set(vectors.map(\.name)) == Set(Self.written.keys))
        for vector in vectors {
            guard let write = Self.written[vector.name] else { continue }
            #expect(text(Self.encoded(.json, write)) == text(vector.json), "\(vector.name)")
            #expect(Self.encoded(.messagePack, write) == vector.messagePack, "\(vector.name)")
            #expect(Self.encoded(.short, write) == vector.short, "\(vector.name)")
        }
    }

    @Test("a payload in the other format is rewritten on its way out, and the envelope is the same")
    func mixed() throws {
        let vectors = try Vectors.envelopes().filter(\.isFromHub)
        var publication = Self.lunch
        publication.payload = try #require(rewritten(publication.payload, from: .json, to: .messagePack))
        publication.payloadFormat = .messagePack
        let position = Position(epoch: Mark("x7c2mq4a")!, offset: 4_294_967_296, tag: Mark("m0s6f3ya")!)
        let vector = try #require(vectors.first { $0.name == "event in nobody's name" })
        let write = Self.publication(publication, position)
        #expect(text(Self.encoded(.json, write)) == text(vector.json))
        #expect(Self.encoded(.messagePack, write) == vector.messagePack)
        #expect(Self.encoded(.short, write) == vector.short)
    }

    @Test("a client's request says the same in each format")
    func client() throws {
        let vectors = try Vectors.envelopes().filter { !$0.isFromHub }
        var seen: Set<RequestType> = []
        for vector in vectors {
            let json = try #require(Read(vector.json, .json), "\(vector.name)")
            let packed = try #require(Read(vector.messagePack, .messagePack), "\(vector.name)")
            #expect(json == packed, "\(vector.name)")
            #expect(Read(vector.short, .short) == json, "\(vector.name)")
            // Who speaks the short form may write names.
            #expect(Read(vector.messagePack, .short) == json, "\(vector.name)")
            seen.insert(json.type)
        }
        #expect(seen == Set(RequestType.allCases))
    }

    @Test("envelopes are values like any other: rewriting one whole gives the vector's other form")
    func whole() throws {
        for vector in try Vectors.envelopes() {
            #expect(rewritten(vector.json, from: .json, to: .messagePack) == vector.messagePack, "\(vector.name)")
            #expect(text(rewritten(vector.messagePack, from: .messagePack, to: .json)) == text(vector.json), "\(vector.name)")
        }
    }

    @Test("no envelope has more than the 15 fields that the writer's header counts")
    func widest() throws {
        for vector in try Vectors.envelopes() {
            #expect(vector.messagePack[0] & 0xF0 == 0x80 && vector.messagePack[0] & 15 > 0, "\(vector.name)")
        }
    }

    @Test(
        "the short form has at most half of JSON's bytes over all envelopes, and over those of the hub; MessagePack with names less than all"
    )
    func sizes() throws {
        for vectors in [try Vectors.envelopes(), try Vectors.envelopes().filter(\.isFromHub)] {
            let json = vectors.reduce(0) { $0 + $1.json.count }
            #expect(vectors.reduce(0) { $0 + $1.short.count } * 2 <= json)
            #expect(vectors.reduce(0) { $0 + $1.messagePack.count } < json)
        }
    }

    /// A request with all that it means, whatever it was written in: values as JSON.
    private struct Read: Equatable {
        var type: RequestType
        var values: [String: String] = [:]
        var flags: [Bool]

        init?(_ message: [UInt8], _ format: WireFormat) {
            guard case .request(let request)? = Optional(message.withUnsafeBytes { EnvelopeScanner.scan($0, format: format, depthMax: 32) })
            else { return nil }
            type = request.type
            flags = [request.members, request.reverse]
            func bytes(_ range: ByteRange) -> [UInt8] { message.withUnsafeBytes { [UInt8](range.bytes(in: $0)) } }
            for (name, range) in [
                ("channel", request.channel), ("messageId", request.messageId), ("device", request.device), ("token", request.token),
                ("position", request.position), ("cursor", request.cursor),
            ] where range.isPresent {
                values[name] = text(bytes(range))
            }
            for (name, range) in [
                ("id", request.id), ("payload", request.payload), ("users", request.users),
                ("since", request.since), ("before", request.before), ("limit", request.limit),
                ("sinceTime", request.sinceTime), ("beforeTime", request.beforeTime), ("age", request.age),
            ] where range.isPresent {
                values[name] = text(rewritten(bytes(range), from: format.payload, to: .json))
            }
            if request.channels.isPresent { values["channels"] = message.withUnsafeBytes { Self.entries(request, $0) } }
        }

        /// The entries of `channels`, whose names of fields may be numbers.
        private static func entries(_ request: Request, _ message: UnsafeRawBufferPointer) -> String {
            var shown: [String] = []
            var elements = WireElements(message, range: request.channels, format: request.format, depthMax: 32)
            while let element = try? elements.next() {
                guard element.kind == .object else {
                    shown.append("\(element.name(in: message)!)")
                    continue
                }
                var fields = WireFields(message, range: element.range, format: request.format, depthMax: 32)
                while let (key, value) = try? fields.next() {
                    let field = [RequestField.channel, .position].first { key.isField($0, in: message) }
                    shown.append("\(field!): \(value.name(in: message)!)")
                }
            }
            return shown.joined(separator: "; ")
        }
    }
}
