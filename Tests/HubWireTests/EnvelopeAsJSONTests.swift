import Foundation
import HubBase
import HubWire
import Testing

@Suite("Envelopes of MessagePack as JSON")
struct EnvelopeAsJSONTests {
    private func rewritten(_ bytes: [UInt8], isShort: Bool) -> [UInt8]? {
        var buffer = ByteBuffer(capacity: 16)
        buffer.append("before")
        let isDone = bytes.withUnsafeBytes { EnvelopeAsJSON.rewrite($0, isShort: isShort, into: &buffer) }
        let all = buffer.copyBytes()
        #expect(all.starts(with: Array("before".utf8)) && (isDone || all.count == 6))
        return isDone ? Array(all.dropFirst(6)) : nil
    }

    private func object(_ bytes: [UInt8]?) throws -> NSDictionary {
        let bytes = try #require(bytes)
        let value = try JSONSerialization.jsonObject(with: Data(bytes))
        return try #require(value as? NSDictionary)
    }

    @Test("every envelope of the vectors, with names and with numbers, is the JSON one")
    func vectors() throws {
        for vector in try Vectors.envelopes() {
            let json = try object(vector.json)
            #expect(try object(rewritten(vector.messagePack, isShort: false)) == json, "\(vector.name)")
            #expect(try object(rewritten(vector.short, isShort: true)) == json, "\(vector.name), short")
        }
    }

    @Test("numbers that aren't given out yet keep their place, and names may stand among numbers")
    func tomorrow() throws {
        // {0: 2, 127: 5, "channel": "a", 17: 127}
        let bytes: [UInt8] = [0x84, 0x00, 0x02, 0x7F, 0x05, 0xA7] + Array("channel".utf8) + [0xA1, 0x61, 0x11, 0x7F]
        #expect(
            rewritten(bytes, isShort: true).map { String(decoding: $0, as: UTF8.self) }
                == #"{"type":"chat","127":5,"channel":"a","reason":127}"#)
    }

    @Test("numbers are names in the short form only, and never in a payload")
    func numbers() {
        #expect(rewritten([0x81, 0x00, 0x02], isShort: false) == nil)
        #expect(rewritten([0x81, 0x09, 0x81, 0x00, 0x02], isShort: true) == nil)
        #expect(
            rewritten([0x81, 0x09, 0x81, 0xA1, 0x61, 0x02], isShort: true).map { String(decoding: $0, as: UTF8.self) }
                == #"{"payload":{"a":2}}"#)
    }

    @Test("what is cut off, or isn't MessagePack, is refused, and nothing is written")
    func broken() throws {
        let whole = try #require(try Vectors.envelopes().first { $0.name == "chat" }).short
        for count in 0..<whole.count { #expect(rewritten(Array(whole.prefix(count)), isShort: true) == nil) }
        #expect(rewritten(whole + [0], isShort: true) == nil)
        #expect(rewritten([0xC1], isShort: true) == nil)
    }
}
