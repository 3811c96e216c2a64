// How long the reading of one envelope takes: ours, and Foundation's. run.sh runs this beside C and C++ libraries and prints one table.
//
//   bench-scan ENVELOPES.txt [MILLISECONDS]     prints "contender <tab> envelope <tab> ns" for each pair
//   bench-scan ENVELOPES.txt pack               prints the envelopes as MessagePack, in hexadecimal digits
//   bench-scan ENVELOPES.hex [MILLISECONDS]     the same for those
//   bench-scan publications [MILLISECONDS]      how long the writing of one publication takes
//
// Every contender must find type, id, channel, messageId and the payload, and refuse what isn't JSON.
import Foundation
import HubBase
import HubWire

let file = CommandLine.arguments.count >= 2 ? CommandLine.arguments[1] : ""
guard let lines = file == "publications" ? "" : try? String(contentsOfFile: file, encoding: .utf8) else {
    FileHandle.standardError.write(Data("usage: bench-scan ENVELOPES.txt|ENVELOPES.hex|publications [MILLISECONDS|pack]\n".utf8))
    exit(2)
}
let window = (CommandLine.arguments.count > 2 ? Double(CommandLine.arguments[2]) ?? 40 : 40) * 1e6

/// CPU time of this process in nanoseconds: what others do on the machine counts less than on the wall's clock.
func now() -> Double {
    var time = timespec()
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time)
    return Double(time.tv_sec) * 1e9 + Double(time.tv_nsec)
}

/// What keeps the optimizer from dropping the work.
nonisolated(unsafe) var sink = 0

func report(_ contender: String, _ envelope: String, _ body: () -> Int) {
    var batch = 16
    while true {
        let start = now()
        for _ in 0..<batch { sink &+= body() }
        let took = now() - start
        if took >= window {
            print("\(contender)\t\(envelope)\t\(took / Double(batch))")
            return
        }
        batch *= 2
    }
}

/// Foundation can't leave a value alone: what isn't decoded is gone.
struct WithoutPayload: Decodable {
    var type: String
    var id: Int?
    var channel: String?
    var messageId: String?
}

struct WithPayload: Decodable {
    var type: String
    var id: Int?
    var channel: String?
    var messageId: String?
    var payload: AnyJSON?
}

/// Any JSON value, decoded so that it can be encoded again: the only way to hand a payload on.
enum AnyJSON: Codable {
    case null, bool(Bool), number(Double), string(String), array([AnyJSON]), object([String: AnyJSON])

    init(from decoder: any Decoder) throws {
        let container = try decoder.singleValueContainer()
        if container.decodeNil() {
            self = .null
        } else if let value = try? container.decode(Bool.self) {
            self = .bool(value)
        } else if let value = try? container.decode(Double.self) {
            self = .number(value)
        } else if let value = try? container.decode(String.self) {
            self = .string(value)
        } else if let value = try? container.decode([AnyJSON].self) {
            self = .array(value)
        } else {
            self = .object(try container.decode([String: AnyJSON].self))
        }
    }

    func encode(to encoder: any Encoder) throws {
        var container = encoder.singleValueContainer()
        switch self {
        case .null: try container.encodeNil()
        case .bool(let value): try container.encode(value)
        case .number(let value): try container.encode(value)
        case .string(let value): try container.encode(value)
        case .array(let value): try container.encode(value)
        case .object(let value): try container.encode(value)
        }
    }
}

let decoder = JSONDecoder()
let encoder = JSONEncoder()

func scan(_ message: UnsafeRawBufferPointer, _ format: WireFormat = .json) -> Int {
    switch EnvelopeScanner.scan(message, format: format, depthMax: 32) {
    case .request(let request): return Int(request.channel.bytes(in: message).count &+ request.payload.bytes(in: message).count)
    case .refused(let error, _): fatalError("refused: \(error)")
    }
}

func rewritten(_ bytes: [UInt8], from: PayloadFormat, to: PayloadFormat) -> [UInt8] {
    var buffer = ByteBuffer(capacity: 4096)
    guard bytes.withUnsafeBytes({ PayloadTranscoder.rewrite($0, from: from, to: to, into: &buffer) }) else { fatalError("not a value") }
    return buffer.copyBytes()
}

func hex(_ bytes: [UInt8]) -> String { bytes.map { String(format: "%02x", $0) }.joined() }

func unhex(_ text: Substring) -> [UInt8] {
    stride(from: 0, to: text.utf8.count, by: 2).map { UInt8(text.dropFirst($0).prefix(2), radix: 16) ?? 0 }
}

func measurePublications() {
    let position = Position(epoch: Mark("x7c2mq4a")!, offset: 1234, tag: Mark("m0s6f3ya")!)
    let text = Array(#"{"text":"\#(String(repeating: "x", count: 100))"}"#.utf8)
    let numbers = Array("{\"points\":[\((0..<24).map { "[\($0 * 37),\($0 * 11 % 100)]" }.joined(separator: ","))]}".utf8)
    for (name, payload) in [("text of 111 B", text), ("numbers of \(numbers.count) B", numbers)] {
        for from in PayloadFormat.allCases {
            let publication = Publication(
                messageClass: .chat, user: "alice", device: "device-7qh3k2ma", messageId: "0e4f3c9a-7c1b-4c52-9d1e-5a1f8b2e6d70",
                time: 1_796_011_158_488, payload: rewritten(payload, from: .json, to: from), payloadFormat: from)
            for to in WireFormat.allCases {
                var buffer = ByteBuffer(capacity: 4096)
                var length = 0
                report("\(from) to \(to)", name) {
                    buffer.removeAll()
                    EnvelopeEncoder.publication(publication, channel: "room:42", position: position, format: to, into: &buffer)
                    length = buffer.count
                    return length
                }
                print("\(from) to \(to)\t\(name), bytes\t\(length)")
            }
        }
    }
}

/// An envelope of named MessagePack with the numbers of the short form.
func shortened(_ message: UnsafeRawBufferPointer) -> [UInt8] {
    var out: [UInt8] = [0x80]
    var walk = WireFields(message, range: ByteRange(offset: 0, count: message.count), format: .messagePack, depthMax: 32)
    while let (key, value) = try? walk.next() {
        let name = String(decoding: key.range.bytes(in: message), as: UTF8.self)
        let content = value.range.bytes(in: message)
        out[0] += 1
        out += WireField.allCases.filter { "\($0)" == name }.map(\.rawValue)
        if name == "type" {
            out += WireWord.allCases.filter { "\($0)" == String(decoding: content, as: UTF8.self) }.map(\.rawValue)
        } else {
            if value.kind == .string { out += content.count < 32 ? [0xA0 | UInt8(content.count)] : [0xD9, UInt8(content.count)] }
            out += content
        }
    }
    return out
}

func measurePacked(_ name: String, _ bytes: [UInt8]) {
    bytes.withUnsafeBytes { message in
        report("hub", name) { scan(message, .messagePack) }
        shortened(message).withUnsafeBytes { short in report("hub-short", name) { scan(short, .short) } }
        var fields = 0
        report("hub-fields", name) {
            var walk = WireFields(
                message, range: ByteRange(offset: 0, count: message.count), format: .messagePack, depthMax: 32)
            fields = 0
            while let field = try? walk.next() { fields &+= Int(field.value.range.count) }
            return fields
        }
    }
}

func measureJSON(_ name: String, _ data: Data) {
    [UInt8](data).withUnsafeBytes { message in
        report("hub", name) { scan(message) }
        report("hub+utf8", name) { UTF8Check.isValid(message) ? scan(message) : 0 }
        var fields = 0
        report("hub-fields", name) {
            var walk = JSONFields(message, range: ByteRange(offset: 0, count: message.count), depthMax: 32)
            fields = 0
            while let field = try? walk.next() { fields &+= Int(field.value.range.bytes(in: message).count) }
            return fields
        }
    }
    report("foundation-lossy", name) { (try? decoder.decode(WithoutPayload.self, from: data).type.count) ?? 0 }
    report("foundation", name) {
        guard let envelope = try? decoder.decode(WithPayload.self, from: data) else { return 0 }
        return envelope.type.count + ((try? encoder.encode(envelope.payload).count) ?? 0)
    }
}

if file == "publications" { measurePublications() }
for line in lines.split(separator: "\n") {
    let parts = line.split(separator: "\t", maxSplits: 1)
    if CommandLine.arguments.last == "pack" {
        print("\(parts[0])\t\(hex(rewritten(Array(parts[1].utf8), from: .json, to: .messagePack)))")
    } else if file.hasSuffix(".hex") {
        measurePacked(String(parts[0]), unhex(parts[1]))
    } else {
        measureJSON(String(parts[0]), Data(parts[1].utf8))
    }
}
