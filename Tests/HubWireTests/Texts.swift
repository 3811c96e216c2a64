import HubBase
import HubWire

// What the tests of this target say in one word.

func bytes(_ text: String) -> [UInt8] { [UInt8](text.utf8) }

/// What a scan found, with its ranges already read: a test's message doesn't outlive the call.
struct Scanned: Equatable {
    var type: RequestType?
    var code: ErrorCode?
    var message = ""
    var id = ""
    var channel: String?
    var messageId: String?
    var payload: String?
    /// As they were written, for what isn't text.
    var idBytes: [UInt8] = []
    var payloadBytes: [UInt8] = []
    var request: Request?

    static func == (left: Scanned, right: Scanned) -> Bool {
        left.type == right.type && left.code == right.code && left.message == right.message && left.id == right.id
            && left.channel == right.channel && left.messageId == right.messageId && left.payload == right.payload
    }
}

func scan(_ message: [UInt8], depthMax: Int = 32) -> Scanned { scan(message, .json, depthMax: depthMax) }

func scanPacked(_ message: [UInt8], depthMax: Int = 32) -> Scanned { scan(message, .messagePack, depthMax: depthMax) }

func scanShort(_ message: [UInt8], depthMax: Int = 32) -> Scanned { scan(message, .short, depthMax: depthMax) }

private func scan(_ message: [UInt8], _ format: WireFormat, depthMax: Int) -> Scanned {
    // On memory of exactly that length, so that the address sanitizer sees a read beyond the end.
    let exact = UnsafeMutableRawBufferPointer.allocate(byteCount: message.count, alignment: 1)
    defer { exact.deallocate() }
    exact.copyBytes(from: message)
    return scan(in: UnsafeRawBufferPointer(exact), format, depthMax: depthMax)
}

private func scan(in message: UnsafeRawBufferPointer, _ format: WireFormat, depthMax: Int) -> Scanned {
    func text(_ range: ByteRange) -> String? {
        range.isPresent ? String(decoding: range.bytes(in: message), as: UTF8.self) : nil
    }
    switch EnvelopeScanner.scan(message, format: format, depthMax: depthMax) {
    case .request(let request):
        return Scanned(
            type: request.type, id: text(request.id) ?? "", channel: text(request.channel), messageId: text(request.messageId),
            payload: text(request.payload), idBytes: [UInt8](request.id.bytes(in: message)),
            payloadBytes: [UInt8](request.payload.bytes(in: message)), request: request)
    case .refused(let error, let id):
        return Scanned(code: error.code, message: error.message, id: text(id) ?? "", idBytes: [UInt8](id.bytes(in: message)))
    }
}

func scan(_ message: String, depthMax: Int = 32) -> Scanned { scan(bytes(message), depthMax: depthMax) }

/// What an encoder appends, as text.
func written(_ write: (inout ByteBuffer) -> Void) -> String {
    var buffer = ByteBuffer(capacity: 16)
    write(&buffer)
    return String(decoding: buffer.bytes, as: UTF8.self)
}

func writtenCount(_ write: (inout ByteBuffer) -> Void) -> Int {
    var buffer = ByteBuffer(capacity: 16)
    write(&buffer)
    return buffer.count
}

extension UnsafeRawBufferPointer {
    /// The bytes of a text that lives as long as the program: for raw ids in encoder tests.
    static func literal(_ text: StaticString) -> UnsafeRawBufferPointer {
        UnsafeRawBufferPointer(start: text.utf8Start, count: text.utf8CodeUnitCount)
    }
}
