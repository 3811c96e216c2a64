// How long the reading of one envelope takes: ours, and Foundation's. run.sh runs this beside C and C++ libraries and prints one table.
//
//   bench-scan ENVELOPES.txt [MILLISECONDS]     prints "contender <tab> envelope <tab> ns" for each pair
//
// Every contender must find type, id, channel, messageId and the payload, and refuse what isn't JSON.
import Foundation
import HubBase
import HubWire

guard CommandLine.arguments.count >= 2, let lines = try? String(contentsOfFile: CommandLine.arguments[1], encoding: .utf8) else {
    FileHandle.standardError.write(Data("usage: bench-scan ENVELOPES.txt [MILLISECONDS]\n".utf8))
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

func scan(_ message: UnsafeRawBufferPointer) -> Int {
    switch EnvelopeScanner.scan(message, depthMax: 32) {
    case .request(let request): return Int(request.channel.bytes(in: message).count &+ request.payload.bytes(in: message).count)
    case .refused(let error, _): fatalError("refused: \(error)")
    }
}

for line in lines.split(separator: "\n") {
    let parts = line.split(separator: "\t", maxSplits: 1)
    let name = String(parts[0])
    let data = Data(parts[1].utf8)
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
