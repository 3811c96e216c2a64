import HubBase
import HubWire
import Testing

/// One client's envelope as MessagePack. Wire bytes are spelled by `Pack`, which knows nothing of the code it tests.
@Suite struct MessagePackScannerTests {
    private func scan(_ message: [UInt8], depthMax: Int = 32) -> Scanned { scanPacked(message, depthMax: depthMax) }
    private func scan(_ fields: (String, Pack)..., depthMax: Int = 32) -> Scanned {
        scan(Pack.map(fields).bytes, depthMax: depthMax)
    }

    @Test("every type of the closed list is known", arguments: RequestType.allCases)
    func types(type: RequestType) {
        #expect(scan(("type", .text("\(type)"))).type == type)
    }

    @Test("a chat's fields are found where they lie: text without its header, id and payload with it")
    func chat() throws {
        let found = scan(
            ("type", "chat"), ("id", .raw([0xCD, 0x01, 0x00])), ("channel", "room:42"), ("messageId", "m-1"),
            ("payload", .map([("text", "hi")])))
        #expect(found.type == .chat && found.channel == "room:42" && found.messageId == "m-1")
        #expect(found.idBytes == [0xCD, 0x01, 0x00], "an id goes back as it was written")
        #expect(found.payloadBytes == [0x81, 0xA4] + bytes("text") + [0xA2] + bytes("hi"))
        let request = try #require(found.request)
        #expect(request.format == .messagePack && !request.escapes)
    }

    @Test("a backslash in a string is itself")
    func backslash() throws {
        let message = Pack.map([("type", "subscribe"), ("channel", .text(#"a\u0041"#))]).bytes
        let request = try #require(scan(message).request)
        message.withUnsafeBytes { #expect(request.name(request.channel, in: $0) == #"a\u0041"#) }
    }

    @Test("an id is an integer from 0 to 2^53 - 1 in any of its forms, or a string of at most 64 bytes")
    func ids() {
        let good: [[UInt8]] = [
            [0], [0x7F], [0xCC, 7], [0xCD, 0, 7], [0xCE, 0, 0, 0, 7], [0xCF, 0, 0x1F, 255, 255, 255, 255, 255, 255], [0xD0, 7],
            [0xD3, 0, 0, 0, 0, 0, 0, 0, 7], [0xA0], [0xD9, 1, 0x61], Pack.text(String(repeating: "x", count: 64)).bytes,
        ]
        for id in good {
            let found = scan(("type", "ping"), ("id", .raw(id)))
            #expect(found.type == .ping && found.idBytes == id, "\(id)")
        }
        let bad: [[UInt8]] = [
            [0xFF], [0xD0, 0xFF], [0xCF, 0, 0x20, 0, 0, 0, 0, 0, 0], [0xCF, 255, 255, 255, 255, 255, 255, 255, 255],
            [0xCB, 0x40, 0x1C, 0, 0, 0, 0, 0, 0], [0xC0], [0xC3], [0x90], [0xC4, 1, 0x61],
            Pack.text(String(repeating: "x", count: 65)).bytes,
        ]
        for id in bad {
            let found = scan(("type", "ping"), ("id", .raw(id)))
            #expect(found.code == .malformed && found.message.contains("\"id\"") && found.idBytes == [], "\(id)")
        }
    }

    @Test(
        "a field of the wrong kind is malformed by its name",
        arguments: [
            ("channel", [0x07]), ("channel", [0xC0]), ("channel", [0xC4, 0x01, 0x61]), ("token", [0xC3]), ("users", [0x80]),
            ("channels", [0xA1, 0x61]), ("limit", [0xA1, 0x31]), ("limit", [0xCB, 0x40, 0x14, 0, 0, 0, 0, 0, 0]), ("members", [0x01]),
            ("reverse", [0xC0]), ("since", [0xFF]), ("before", [0x90]), ("type", [0x01]),
        ] as [(String, [UInt8])])
    func kinds(field: String, value: [UInt8]) {
        let found = scan(("id", .raw([5])), (field, .raw(value)), field == "type" ? ("x", .raw([0])) : ("type", "history"))
        #expect(found.code == .malformed && found.message.contains("\"\(field)\""), "\(found)")
        #expect(found.idBytes == [5], "the refusal reaches the one who asked")
    }

    @Test("unknown fields are ignored, of a repeated one the first counts, an unknown type is unknownType")
    func leniency() {
        let found = scan(
            ("new", .map([("deep", .raw([0x92, 0xC4, 0x01, 0xFF, 0xCB, 0x3F, 0xF8, 0, 0, 0, 0, 0, 0]))])), ("type", "typing"),
            ("type", "chat"),
            ("channel", "a"), ("channel", "b"))
        #expect(found.type == .typing && found.channel == "a")
        let dance = scan(("id", .raw([9])), ("type", "dance"))
        #expect(dance.code == .unknownType && dance.idBytes == [9] && dance.message.contains("dance"))
    }

    @Test(
        "what JSON couldn't carry is malformed wherever it stands",
        arguments: [
            ([0xD4, 0x01, 0x00], "extension"), ([0xD6, 0xFF, 0, 0, 0, 0], "extension"), ([0xC7, 0, 5], "extension"),
            ([0xCB, 0x7F, 0xF8, 0, 0, 0, 0, 0, 0], "finite"), ([0xCA, 0x7F, 0x80, 0, 0], "finite"), ([0x81, 0x01, 0x02], "string"),
            ([0x81, 0xC4, 0x01, 0x61, 0x02], "string"), ([0xC1], "c1"), ([0xA1, 0xFF], "UTF-8"),
        ] as [([UInt8], String)])
    func unrepresentable(value: [UInt8], word: String) {
        for field in ["payload", "unknown"] {
            let found = scan(("type", "chat"), (field, .raw(value)))
            #expect(found.code == .malformed && found.message.contains(word), "\(found.message)")
        }
    }

    @Test("what isn't a map, or is followed by more, is malformed")
    func shape() {
        for message in [[], [0xC0], [0x90], [0xA4] + bytes("ping"), [0xC4, 0], bytes(#"{"type":"ping"}"#)] as [[UInt8]] {
            #expect(scan(message).code == .malformed, "\(message)")
        }
        let ping = Pack.map([("type", "ping")]).bytes
        #expect(scan(ping).type == .ping)
        #expect(scan(ping + [0xC0]).message.contains("after the end"))
        #expect(scan([0x80]).message.contains("\"type\" is missing"))
    }

    @Test("counts of four thousand million are refused at once: nothing is allocated or walked for them")
    func hostileCounts() {
        for value in [
            [0xDD, 255, 255, 255, 255], [0xDF, 255, 255, 255, 255], [0xDB, 255, 255, 255, 255], [0xC6, 255, 255, 255, 255],
            [0xDD, 0, 0, 0, 1], [0xDF, 0, 0, 0, 1, 0xA0],
        ] as [[UInt8]] {
            #expect(scan([0x82, 0xA4] + bytes("type") + [0xA4] + bytes("ping") + [0xA1, 0x78] + value).code == .malformed, "\(value)")
        }
        #expect(scan([0xDF, 255, 255, 255, 255]).message.contains("announced"))
    }

    @Test("nesting is counted with the envelope as level 1", arguments: [1, 2, 5, 32, 64])
    func depth(depthMax: Int) {
        func nested(_ levels: Int) -> Pack { .raw([UInt8](repeating: 0x91, count: levels - 1) + [0x90]) }
        if depthMax > 1 { #expect(scan(("payload", nested(depthMax - 1)), ("type", "chat"), depthMax: depthMax).type == .chat) }
        #expect(scan(("payload", nested(depthMax)), ("type", "chat"), depthMax: depthMax).code == .tooDeep)
        #expect(scan(("payload", nested(60_000)), ("type", "chat"), depthMax: 1_000_000).code == .tooDeep, "64 whatever is asked for")
    }

    @Test("cut at any point an envelope is malformed, and nothing is read behind the cut")
    func truncated() throws {
        for vector in try Vectors.envelopes() where !vector.isFromHub {
            for cut in 0..<vector.messagePack.count {
                #expect(scan(Array(vector.messagePack.prefix(cut))).code == .malformed, "\(vector.name) at \(cut)")
            }
        }
    }

    @Test("20,000 damaged envelopes are taken or refused as a slow twin does", arguments: [2, 32])
    func twin(depthMax: Int) throws {
        var chance = Chance(seed: 0x0B5E_55ED)
        let seeds = try Vectors.envelopes().filter { !$0.isFromHub }.map(\.messagePack)
        var taken = 0
        var refused = 0
        for round in 0..<20_000 {
            let message = Mutation.messagePack(seeds[round % seeds.count], &chance)
            let found = scan(message, depthMax: depthMax)
            // A refusal for the envelope's own reasons comes only after the whole message was read.
            let isReadable = found.code == nil || found.code == .unknownType || found.message.hasPrefix("\"")
            let expected = SlowMessagePack(message, depthMax: depthMax)?.isMap == true
            #expect(isReadable == expected, "\(message)")
            if expected { taken += 1 } else { refused += 1 }
        }
        #expect(taken > 1_000 && refused > 8_000, "\(taken) taken, \(refused) refused")
    }

    @Test("walks through fields and elements find the same as the twin, and never trap")
    func walks() throws {
        var chance = Chance(seed: 11)
        let seeds = try Vectors.envelopes().map(\.messagePack)
        var walked = 0
        for round in 0..<5_000 {
            let message = Mutation.messagePack(seeds[round % seeds.count], &chance)
            message.withUnsafeBytes { message in
                let whole = ByteRange(offset: 0, count: message.count)
                var fields = WireFields(message, range: whole, format: .messagePack, depthMax: 32)
                do throws(WireError) {
                    while let (key, value) = try fields.next() {
                        #expect(key.kind == .string)
                        walked += 1
                        _ = value.name(in: message)
                        _ = value.unsigned(in: message)
                        guard value.kind == .array else { continue }
                        var elements = WireElements(message, range: value.range, format: .messagePack, depthMax: 32)
                        while let element = try elements.next() { _ = element.range.bytes(in: message) }
                    }
                } catch {
                    #expect(error.code == .malformed || error.code == .tooDeep)
                }
            }
        }
        #expect(walked > 5_000)
    }
}

/// MessagePack spelled out for tests: strings and maps in their shortest forms, and whatever bytes one likes.
enum Pack: ExpressibleByStringLiteral {
    case text(String)
    case map([(String, Pack)])
    case raw([UInt8])

    init(stringLiteral value: String) { self = .text(value) }

    var bytes: [UInt8] {
        switch self {
        case .raw(let bytes): return bytes
        case .text(let text):
            let count = UInt8(text.utf8.count)
            return (count < 32 ? [0xA0 + count] : [0xD9, count]) + Array(text.utf8)
        case .map(let fields):
            return fields.reduce([0x80 + UInt8(fields.count)]) { $0 + Pack.text($1.0).bytes + $1.1.bytes }
        }
    }
}
