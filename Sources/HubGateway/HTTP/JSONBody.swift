import HubBase
import HubCore
import HubNet
import HubWire

/// Writes the small JSON bodies of the HTTP API: fields in the order of the calls.
struct JSONBody: ~Copyable {
    private var buffer = ByteBuffer(capacity: 256)
    private var needsComma = false

    mutating func object(_ body: (inout JSONBody) -> Void) { nest("{", "}", body) }
    mutating func array(_ body: (inout JSONBody) -> Void) { nest("[", "]", body) }

    mutating func key(_ key: StaticString) {
        separate()
        buffer.append(UInt8(ascii: "\""))
        buffer.append(key)
        buffer.append("\":")
        needsComma = false
    }

    mutating func string(_ bytes: [UInt8]) {
        separate()
        buffer.append(UInt8(ascii: "\""))
        bytes.withUnsafeBytes { JSONText.escape($0, into: &buffer) }
        buffer.append(UInt8(ascii: "\""))
    }

    mutating func string(_ text: String) { string(Array(text.utf8)) }
    mutating func string(_ name: Name) { string(name.bytes) }
    mutating func string(_ text: StaticString) { string("\(text)") }

    mutating func number(_ value: UInt64) {
        separate()
        buffer.append(decimal: value)
    }

    mutating func bool(_ value: Bool) {
        separate()
        buffer.append(value ? "true" : "false")
    }

    mutating func position(_ position: Position) {
        separate()
        buffer.append(UInt8(ascii: "\""))
        position.append(to: &buffer)
        buffer.append(UInt8(ascii: "\""))
    }

    /// `"error":{"code","message","retryAfter"}`
    mutating func error(_ error: WireError) {
        key("error")
        object { inner in
            inner.key("code")
            inner.string(error.code.rawValue)
            inner.key("message")
            inner.string(error.message)
            if let retryAfter = error.retryAfter {
                inner.key("retryAfter")
                inner.number(retryAfter)
            }
        }
    }

    consuming func bytes() -> [UInt8] { buffer.copyBytes() }

    private mutating func separate() {
        if needsComma { buffer.append(UInt8(ascii: ",")) }
        needsComma = true
    }

    private mutating func nest(_ open: StaticString, _ close: StaticString, _ body: (inout JSONBody) -> Void) {
        separate()
        buffer.append(open)
        needsComma = false
        body(&self)
        buffer.append(close)
        needsComma = true
    }
}

extension HTTPResponse {
    static func json(_ status: Int, _ body: (inout JSONBody) -> Void) -> HTTPResponse {
        var json = JSONBody()
        json.object(body)
        return HTTPResponse(status: status, headers: [("Content-Type", "application/json")], body: json.bytes())
    }

    /// `{"error":{"code","message","retryAfter"}}`, with `Retry-After` in seconds where there's a time.
    static func error(_ error: WireError, status: Int? = nil, besides: (inout JSONBody) -> Void = { _ in }) -> HTTPResponse {
        var response = json(status ?? error.code.httpStatus) {
            $0.error(error)
            besides(&$0)
        }
        if let retryAfter = error.retryAfter { response.headers.append(("Retry-After", String((retryAfter + 999) / 1000))) }
        if response.status == 401 { response.headers.append(("WWW-Authenticate", "Bearer")) }
        return response
    }
}
