import Foundation
import HubBase
import HubWire
import Testing

/// The files of docs/vectors, which a foreign implementation is held against too (Tests/Integration/test_msgpack.py).
enum Vectors {
    struct Envelope: Sendable {
        var name: String
        var isFromHub: Bool
        /// The text as it stands in the file: its order of fields is the one that's asked for.
        var json: [UInt8]
        var messagePack: [UInt8]
        var short: [UInt8]
    }

    static func envelopes() throws -> [Envelope] {
        let file = try read("envelopes.json")
        return try file.withUnsafeBytes { file in
            var found: [Envelope] = []
            var elements = JSONElements(file, range: ByteRange(offset: 0, count: file.count), depthMax: 32)
            while let element = try elements.next() {
                var vector = Envelope(name: "", isFromHub: false, json: [], messagePack: [], short: [])
                var fields = JSONFields(file, range: element.range, depthMax: 32)
                while let (key, value) = try fields.next() {
                    let text = String(decoding: value.range.bytes(in: file), as: UTF8.self)
                    switch String(decoding: key.range.bytes(in: file), as: UTF8.self) {
                    case "name": vector.name = text
                    case "from": vector.isFromHub = text == "hub"
                    case "json": vector.json = bytes(text)
                    case "msgpack": vector.messagePack = try hex(text)
                    case "short": vector.short = try hex(text)
                    case let other: Issue.record("unknown field \(other)")
                    }
                }
                found.append(vector)
            }
            return found
        }
    }

    /// The numbers of the short form: each name's place in its list.
    struct Numbers: Decodable {
        var fields: [String]
        var words: [String]
        /// The fields whose values are words.
        var worded: [String]
    }

    static func numbers() throws -> Numbers { try JSONDecoder().decode(Numbers.self, from: Data(read("short.json"))) }

    struct Payloads: Decodable {
        struct Pair: Decodable {
            var json: String
            var msgpack: String
        }

        struct Refused: Decodable {
            var msgpack: String
            var why: String
        }

        var fromJSON: [Pair]
        var fromMessagePack: [Pair]
        var refused: [Refused]
    }

    static func payloads() throws -> Payloads { try JSONDecoder().decode(Payloads.self, from: Data(read("payloads.json"))) }

    static func hex(_ text: String) throws -> [UInt8] {
        try #require(text.utf8.count % 2 == 0)
        return try stride(from: 0, to: text.utf8.count, by: 2).map { place in
            try #require(UInt8(text.dropFirst(place).prefix(2), radix: 16))
        }
    }

    private static func read(_ name: String) throws -> [UInt8] {
        let top = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent().deletingLastPathComponent()
        return [UInt8](try Data(contentsOf: top.appending(path: "docs/vectors/\(name)")))
    }
}

/// What the transcoder makes of a payload; nil when it refuses.
func rewritten(_ payload: [UInt8], from: PayloadFormat, to: PayloadFormat) -> [UInt8]? {
    // Not empty before: what is there must stay.
    var buffer = ByteBuffer(capacity: 16)
    buffer.append("before")
    let isDone = payload.withUnsafeBytes { PayloadTranscoder.rewrite($0, from: from, to: to, into: &buffer) }
    let all = [UInt8](buffer.bytes)
    #expect(all.starts(with: bytes("before")) && (isDone || all.count == 6))
    return isDone ? Array(all.dropFirst(6)) : nil
}

func text(_ bytes: [UInt8]?) -> String? { bytes.map { String(decoding: $0, as: UTF8.self) } }
