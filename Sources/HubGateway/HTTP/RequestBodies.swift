import HubBase
import HubCore
import HubWire

/// `POST /v1/presence`: `{"users":[…]}`.
enum UsersBody {
    static func users(_ body: UnsafeRawBufferPointer, limits: Configuration.Limits) throws(WireError) -> [Name] {
        var list: ByteRange?
        try BodyFields.each(body, limits: limits) { (key, value) throws(WireError) in
            guard key == "users" else { return }
            guard value.kind == .array else { throw WireError(.malformed, "users must be an array of strings") }
            list = value.range
        }
        guard let list else { throw WireError(.malformed, "users is missing") }
        var users: [Name] = []
        var elements = JSONElements(body, range: list, depthMax: limits.depth)
        while let element = try elements.next() {
            guard users.count < limits.watchRequest else {
                throw WireError(.tooMany, "more than \(limits.watchRequest) users in one request")
            }
            users.append(try BodyFields.name(element, body, "users[\(users.count)]", limit: Name.lengthMax))
        }
        return users
    }
}

enum BodyFields {
    /// Calls `body` for each field of the object that a request carries, by its unescaped name; of a repeated field for the first only.
    /// `depth`: as deep as its values may nest, the object included; nil: `limits.depth`.
    static func each(
        _ bytes: UnsafeRawBufferPointer, limits: Configuration.Limits, depth: Int? = nil,
        _ body: (String, JSONValue) throws(WireError) -> Void
    ) throws(WireError) {
        guard UTF8Check.isValid(bytes) else { throw WireError(.malformed, "the body isn't UTF-8") }
        var fields = JSONFields(bytes, range: ByteRange(offset: 0, count: bytes.count), depthMax: depth ?? limits.depth)
        var seen: Set<[UInt8]> = []
        var unescaped = ByteBuffer(capacity: 64)
        while let (key, value) = try fields.next() {
            unescaped.removeAll()
            guard JSONText.unescape(key.range.bytes(in: bytes), into: &unescaped), unescaped.count <= 64 else { continue }
            let name = unescaped.copyBytes()
            guard seen.count < 64, seen.insert(name).inserted else { continue }
            try body(String(decoding: name, as: UTF8.self), value)
        }
    }

    static func name(_ value: JSONValue, _ bytes: UnsafeRawBufferPointer, _ field: String, limit: Int) throws(WireError) -> Name {
        guard value.kind == .string else { throw WireError(.malformed, "\(field) must be a string") }
        guard let name = JSONText.name(value.range.bytes(in: bytes), hasEscapes: value.hasEscapes, limit: limit) else {
            throw WireError(.badName, "\(field) must be a string of 1 to \(limit) bytes without control characters")
        }
        return name
    }
}

extension JSONValue {
    /// The value as it stands in the text, a string with its quotes.
    func wholeToken(in bytes: UnsafeRawBufferPointer) -> UnsafeRawBufferPointer {
        guard kind == .string else { return range.bytes(in: bytes) }
        return ByteRange(offset: Int(range.offset) - 1, count: Int(range.count) + 2).bytes(in: bytes)
    }
}
