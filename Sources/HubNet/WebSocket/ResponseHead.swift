import HubBase

/// What a server's answer to the opening handshake says (RFC 6455 §4.1, the list of what a client must check), by token lists as on the
/// server's side.
struct ResponseHead {
    private(set) var status = 0
    private var upgradesToWebSocket = false
    private var saysUpgrade = false
    private var acceptKeys = 0
    private var acceptKey = ByteRange.absent
    private var subprotocols = 0
    private var subprotocol = ByteRange.absent
    private var extensionCount = 0
    private var deflateIsSound = false
    private var fault: StaticString?

    /// Reads a head that is known to be complete, and its status line to be one.
    init(_ bytes: UnsafeRawBufferPointer, start: Int, _ limits: borrowing NetLimits) {
        var lines = HeadLines(from: start)
        while case .line(let lineStart, let lineEnd) = lines.next(bytes, headBytes: limits.headBytes, headers: limits.headers) {
            if lines.count == 1 {
                status = ResponseHead.status(bytes, lineStart, lineEnd) ?? 0
                continue
            }
            switch FieldLine.read(bytes, lineStart, lineEnd) {
            case .refused(let refusal): fault = fault ?? refusal.message
            case .field(let field): note(field, bytes)
            }
        }
    }

    /// `HTTP/1.1 SP 3DIGIT [SP reason]`; nil when it isn't that. Some servers leave out the space before an empty reason.
    static func status(_ bytes: UnsafeRawBufferPointer, _ start: Int, _ end: Int) -> Int? {
        let line = UnsafeRawBufferPointer(rebasing: bytes[start..<end])
        guard line.count >= 12, line.count == 12 || line[12] == 0x20 else { return nil }
        guard ASCII.equals(UnsafeRawBufferPointer(rebasing: line[..<7]), "HTTP/1."), ASCII.isDigit(line[7]), line[8] == 0x20 else {
            return nil
        }
        guard ASCII.isDigit(line[9]), ASCII.isDigit(line[10]), ASCII.isDigit(line[11]) else { return nil }
        // A 101 in HTTP/1.0 is no answer to an upgrade.
        let status = Int(line[9] - 0x30) * 100 + Int(line[10] - 0x30) * 10 + Int(line[11] - 0x30)
        return line[7] == 0x30 && status < 200 ? nil : status
    }

    private mutating func note(_ field: HTTPRequest.Header, _ bytes: UnsafeRawBufferPointer) {
        let name = field.name.bytes(in: bytes)
        let value = field.value.bytes(in: bytes)
        if ASCII.equals(name, ignoringCase: "upgrade") {
            for element in TokenList(value) where ASCII.equals(element, ignoringCase: "websocket") { upgradesToWebSocket = true }
        } else if ASCII.equals(name, ignoringCase: "connection") {
            for element in TokenList(value) where ASCII.equals(element, ignoringCase: "upgrade") { saysUpgrade = true }
        } else if ASCII.equals(name, ignoringCase: "sec-websocket-accept") {
            acceptKeys += 1
            acceptKey = field.value
        } else if ASCII.equals(name, ignoringCase: "sec-websocket-protocol") {
            subprotocols += 1
            subprotocol = field.value
        } else if ASCII.equals(name, ignoringCase: "sec-websocket-extensions") {
            noteExtensions(value)
        }
    }

    /// An empty list agrees to nothing.
    private mutating func noteExtensions(_ value: UnsafeRawBufferPointer) {
        var list = ExtensionList(value)
        while let element = list.next() {
            extensionCount += 1
            guard case .named(let name, let parameters) = element, ASCII.equals(name, "permessage-deflate"),
                let answer = DeflateOffer(parameters)
            else { continue }
            // What we asked for must be there, a window of ours, which we didn't offer to limit, must not (RFC 7692 §7.1.1.1, §7.1.2.2).
            deflateIsSound = answer.serverNoContextTakeover && answer.clientMaxWindowBits == .notOffered
        }
    }

    func judge(
        _ bytes: UnsafeRawBufferPointer, _ expected: AcceptKey, _ opening: borrowing ClientOpening, length: Int
    ) -> ClientHandshake.Step {
        guard status == 101 else { return .failed(status: status, "the server answered \(status) instead of opening a WebSocket") }
        if let fault { return .failed(status: status, "the server's 101 has \(fault)") }
        guard upgradesToWebSocket else { return .failed(status: status, "the server's 101 doesn't upgrade to websocket") }
        guard saysUpgrade else { return .failed(status: status, "the server's 101 has no Connection: Upgrade") }
        guard acceptKeys == 1, expected.equals(acceptKey.bytes(in: bytes)) else {
            return .failed(status: status, "the server's 101 doesn't answer our key")
        }
        guard extensionCount == 0 || (extensionCount == 1 && opening.offersDeflate) else {
            return .failed(status: status, "the server's 101 has an extension that wasn't offered")
        }
        guard extensionCount == 0 || deflateIsSound else {
            return .failed(status: status, "the server's 101 agrees to something other than the offered permessage-deflate")
        }
        if subprotocols > 0 {
            let chosen = subprotocol.bytes(in: bytes)
            guard subprotocols == 1, opening.subprotocols.contains(where: { $0.utf8.elementsEqual(chosen) }) else {
                return .failed(status: status, "the server's 101 has a subprotocol that wasn't offered")
            }
        }
        return .open(length: length, subprotocol: subprotocol, deflates: extensionCount > 0)
    }
}
