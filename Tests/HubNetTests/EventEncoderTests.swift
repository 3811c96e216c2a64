import HubBase
import HubNet
import Testing

@Suite("events on the wire, WHATWG HTML §9.2")
struct EventEncoderTests {
    private func written(_ body: (inout ByteBuffer) -> Void) -> String {
        var buffer = ByteBuffer(capacity: 16)
        body(&buffer)
        return String(decoding: buffer.bytes, as: UTF8.self)
    }

    private func event(_ message: String, id: String = "") -> String {
        var message = message
        var id = id
        return message.withUTF8 { message in
            id.withUTF8 { id in
                written { EventEncoder.append(UnsafeRawBufferPointer(message), id: UnsafeRawBufferPointer(id), into: &$0) }
            }
        }
    }

    private func close(_ code: UInt16, _ reason: String) -> String {
        var reason = reason
        return reason.withUTF8 { reason in
            written { EventEncoder.appendClose(code: code, reason: UnsafeRawBufferPointer(reason), into: &$0) }
        }
    }

    @Test("a message is one event, each of its lines a data line; CR, LF and both together end one")
    func lines() {
        #expect(event("{}") == "data: {}\n\n")
        #expect(event("") == "data: \n\n")
        #expect(event("{\n1\r2\r\n3}") == "data: {\ndata: 1\ndata: 2\ndata: 3}\n\n")
        #expect(event("\n\r\n\r\r") == "data: \ndata: \ndata: \ndata: \ndata: \n\n")
        #expect(event("a\n") == "data: a\ndata: \n\n")
        #expect(event("{}", id: "x7.1.q3") == "id: x7.1.q3\ndata: {}\n\n")
    }

    @Test("a client puts together what was sent, with LF for each line end, whatever the message", arguments: 0..<200 as Range<UInt64>)
    func twin(seed: UInt64) {
        var chance = Chance(seed: seed)
        let pieces = ["\n", "\r", "\r\n", "data: ", ":", "{\"a\":1}", "id: x", " ", "é", "\u{feff}"]
        let message = (0..<Int.random(in: 0...12, using: &chance)).map { _ in pieces.randomElement(using: &chance)! }.joined()
        let wire = event(message)
        #expect(wire.hasSuffix("\n\n") && !wire.dropLast(2).utf8.elementsEqual("".utf8))
        // As a reader reads: lines, of which the value of `data` counts, up to the first empty one.
        let lines = wire.utf8.split(separator: 10, omittingEmptySubsequences: false).map { String($0)! }
        #expect(lines.firstIndex(of: "") == lines.count - 2, "an empty line within")
        let data = lines.dropLast(2).map { line in
            #expect(line.hasPrefix("data: "))
            return String(line.unicodeScalars.dropFirst(6))
        }
        var expected: [UInt8] = []
        var previous: UInt8 = 0
        for byte in message.utf8 {
            if byte == 10 && previous == 13 { /* the pair's second half */  } else { expected.append(byte == 13 ? 10 : byte) }
            previous = byte
        }
        #expect(data.joined(separator: "\n").utf8.elementsEqual(expected))
    }

    @Test("a close names code and reason, a time to come back where the reason begins with one, and by its id that it's final")
    func closing() {
        #expect(close(4008, "too slow") == "event: close\ndata: {\"code\":4008,\"reason\":\"too slow\"}\n\n")
        #expect(
            close(1013, "1500 too many")
                == "retry: 1500\nevent: close\ndata: {\"code\":1013,\"retryAfter\":1500,\"reason\":\"1500 too many\"}\n\n")
        #expect(close(4001, "") == "id: close.4001\nevent: close\ndata: {\"code\":4001,\"reason\":\"\"}\n\n")
        #expect(close(1011, "a \"word\" \\ \n") == "event: close\ndata: {\"code\":1011,\"reason\":\"a 'word' ' '\"}\n\n")
        #expect(close(1013, "99999999999999999999") == "event: close\ndata: {\"code\":1013,\"reason\":\"99999999999999999999\"}\n\n")
    }

    @Test("which codes are final, and how their id is known again")
    func final() {
        let final: Set<UInt16> = [1000, 1002, 1003, 1007, 1008, 1009, 4001, 4003]
        for code in (1000...1015).map(UInt16.init) + (4000...4020).map(UInt16.init) {
            #expect(EventEncoder.isFinal(code) == final.contains(code), "\(code)")
        }
        func ends(_ id: String) -> Bool { Array(id.utf8).withUnsafeBytes { EventEncoder.endsFor($0) } }
        #expect(ends("close.4001") && ends("close.1000"))
        #expect(!ends("") && !ends("close.") && !ends("close") && !ends(".0.") && !ends("x7c2mq4a.17.q3hd5k2b"))
    }
}
