import HubBase
import HubRedis
import Testing

@Suite struct ReplyReaderTests {
    /// A reply as text: `+OK`, `-ERR x`, `:5`, `"abc"`, `nil`, `[…]`.
    static func describe(_ reply: borrowing Reply, _ index: inout Int) -> String {
        let place = index
        index += 1
        guard let kind = reply.kind(place) else { return "?" }
        let text = reply.string(place).map { String(decoding: $0, as: UTF8.self) } ?? ""
        switch kind {
        case .status: return "+\(text)"
        case .error: return "-\(text)"
        case .string: return "\"\(text)\""
        case .integer: return ":\(reply.integer(place) ?? 0)"
        case .null: return "nil"
        case .array:
            var parts: [String] = []
            for _ in 0..<(reply.elements(place) ?? 0) { parts.append(describe(reply, &index)) }
            return "[\(parts.joined(separator: ","))]"
        }
    }

    static func read(_ pieces: [ArraySlice<UInt8>], limits: ReplyReader.Limits = ReplyReader.Limits()) -> [String] {
        let reader = ReplyReader(limits: limits)
        var seen: [String] = []
        for piece in pieces {
            [UInt8](piece).withUnsafeBytes { reader.feed($0) }
            reading: while true {
                switch reader.next() {
                case .incomplete: break reading
                case .failed:
                    seen.append("failed")
                    return seen
                case .reply:
                    var index = 0
                    seen.append(describe(reader.reply, &index))
                    if index != reader.reply.count { seen.append("left over") }
                }
            }
        }
        return seen
    }

    static let wire: [(String, [String])] = [
        ("+OK\r\n", ["+OK"]),
        ("-ERR no\r\n", ["-ERR no"]),
        (":0\r\n:-7\r\n:9223372036854775807\r\n", [":0", ":-7", ":9223372036854775807"]),
        ("$3\r\nabc\r\n$0\r\n\r\n$-1\r\n", ["\"abc\"", "\"\"", "nil"]),
        ("*0\r\n*-1\r\n", ["[]", "nil"]),
        ("*3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$2\r\n\r\n\r\n", ["[\"message\",\"c\",\"\r\n\"]"]),
        ("*3\r\n$1\r\n9\r\n*2\r\n$1\r\na\r\n$1\r\n1\r\n*0\r\n", ["[\"9\",[\"a\",\"1\"],[]]"]),
        ("*2\r\n*1\r\n*1\r\n:1\r\n+x\r\n$1\r\ny\r\n", ["[[[:1]],+x]", "\"y\""]),
    ]

    @Test("replies are read whole, byte by byte and cut at every point", arguments: wire)
    func splits(text: String, expected: [String]) {
        let bytes = [UInt8](text.utf8)
        #expect(Self.read([bytes[...]]) == expected)
        #expect(Self.read(bytes.indices.map { bytes[$0...$0] }) == expected)
        for cut in 0...bytes.count { #expect(Self.read([bytes[..<cut], bytes[cut...]]) == expected) }
    }

    @Test(
        "what isn't RESP, or is too much of it, fails before memory is taken for it",
        arguments: [
            "hello\r\n", "*2147483647\r\n", "*1048577\r\n", "*2\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n:1\r\n", "$99999999999999999999\r\n",
            "$-2\r\n", "*-2\r\n", "?1\r\n", "HTTP/1.1 400 Bad Request\r\n\r\n",
        ])
    func refuses(text: String) {
        let bytes = [UInt8](text.utf8)
        #expect(Self.read([bytes[...]]).last == "failed")
        #expect(Self.read(bytes.indices.map { bytes[$0...$0] }).last == "failed")
    }

    @Test("a bulk string of two gigabytes, or half a reply, waits for its end within the limit only")
    func bounded() {
        var limits = ReplyReader.Limits()
        limits.pendingBytes = 10_000
        let head = [UInt8]("$2147483647\r\n".utf8)
        let part = [UInt8](repeating: 120, count: 3_000)
        #expect(Self.read([head[...], part[...], part[...], part[...]], limits: limits) == [])
        #expect(Self.read([head[...], part[...], part[...], part[...], part[...]], limits: limits) == ["failed"])
        let half = [UInt8]("*3\r\n$7\r\nmessage\r\n".utf8)
        #expect(Self.read([half[...]], limits: limits) == [])
    }

    @Test("a reply with more elements than the limit fails")
    func elements() {
        var limits = ReplyReader.Limits()
        limits.elements = 10
        #expect(Self.read([[UInt8]("*11\r\n".utf8)[...]], limits: limits) == ["failed"])
        let nested = "*9\r\n" + String(repeating: "*1\r\n:1\r\n", count: 9)
        #expect(Self.read([[UInt8](nested.utf8)[...]], limits: limits) == ["failed"])
        let fits = "*9\r\n" + String(repeating: ":1\r\n", count: 9)
        #expect(Self.read([[UInt8](fits.utf8)[...]], limits: limits).count == 1)
    }

    @Test("after a reset nothing of the old connection is left")
    func reset() {
        let reader = ReplyReader()
        [UInt8]("*2\r\n$3\r\nab".utf8).withUnsafeBytes { reader.feed($0) }
        #expect(reader.next() == .incomplete)
        reader.reset()
        [UInt8]("+OK\r\n".utf8).withUnsafeBytes { reader.feed($0) }
        #expect(reader.next() == .reply)
        #expect(reader.reply.count == 1)
        [UInt8]("nonsense\r\n".utf8).withUnsafeBytes { reader.feed($0) }
        guard case .failed = reader.next() else {
            Issue.record("nonsense was read")
            return
        }
        reader.reset()
        #expect(reader.next() == .incomplete)
    }

    @Test("commands are arrays of bulk strings")
    func commands() {
        var buffer = ByteBuffer(capacity: 16)
        buffer.command(4)
        buffer.argument("SET")
        buffer.argument([UInt8]("k\r\n".utf8))
        buffer.argument(decimal: 18_446_744_073_709_551_615)
        buffer.argument(Mark.none)
        let text = String(decoding: buffer.copyBytes(), as: UTF8.self)
        #expect(text == "*4\r\n$3\r\nSET\r\n$3\r\nk\r\n\r\n$20\r\n18446744073709551615\r\n$0\r\n\r\n")
    }
}
