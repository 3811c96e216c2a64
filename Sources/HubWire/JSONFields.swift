import HubBase

/// A value found by a scan. For strings `range` excludes the quotes, `hasEscapes` tells of a backslash; for all else it's the whole token.
package struct JSONValue: Sendable {
    package var kind: WireKind
    package var range: ByteRange
    package var hasEscapes: Bool

    package init(kind: WireKind, range: ByteRange, hasEscapes: Bool) {
        self.kind = kind
        self.range = range
        self.hasEscapes = hasEscapes
    }

    /// The whole token, of a string with its quotes.
    package var token: ByteRange {
        kind == .string ? ByteRange(offset: Int(range.offset) - 1, count: Int(range.count) + 2) : range
    }
}

/// Where a walk through an object or array stands.
private enum Walk { case notStarted, inside, over }

/// Walks the fields of one JSON object in place (RFC 8259). Throws `malformed` or `tooDeep`; checks the whole text, what follows the
/// object included, by the time `next()` has returned nil.
///
/// The object itself is level 1 of the nesting. A walk that threw is over.
package struct JSONFields {
    private(set) var cursor: JSONCursor
    private var walk = Walk.notStarted

    /// `outer` is the whole message that ranges are relative to; `range` the object in it.
    package init(_ outer: UnsafeRawBufferPointer, range: ByteRange, depthMax: Int) {
        cursor = JSONCursor(outer, range: range, depthMax: depthMax)
    }

    /// The next field: its key (raw text between the quotes) and value; nil after the last one.
    package mutating func next() throws(WireError) -> (key: JSONValue, value: JSONValue)? {
        do {
            return try step()
        } catch {
            walk = .over
            throw error.error
        }
    }

    /// `next()` with the error still a plain value: no text is made for it.
    @inline(__always) mutating func step() throws(JSONFault) -> (key: JSONValue, value: JSONValue)? {
        switch walk {
        case .over: return nil
        case .notStarted:
            cursor.skipSpace()
            try cursor.expect(UInt8(ascii: "{"), else: .object)
            guard cursor.depthMax >= 1 else { throw cursor.fault(.tooDeep) }
            walk = .inside
            cursor.skipSpace()
            if try cursor.ends(with: UInt8(ascii: "}")) {
                walk = .over
                return nil
            }
        case .inside:
            cursor.skipSpace()
            if try cursor.ends(with: UInt8(ascii: "}")) {
                walk = .over
                return nil
            }
            try cursor.expect(UInt8(ascii: ","), else: .separator)
            cursor.skipSpace()
        }
        let key = try cursor.key()
        cursor.skipSpace()
        let value = try cursor.value(at: 1)
        return (key, value)
    }
}

/// Walks the elements of one JSON array in place; otherwise as `JSONFields`.
package struct JSONElements {
    private var cursor: JSONCursor
    private var walk = Walk.notStarted

    package init(_ outer: UnsafeRawBufferPointer, range: ByteRange, depthMax: Int) {
        cursor = JSONCursor(outer, range: range, depthMax: depthMax)
    }

    package mutating func next() throws(WireError) -> JSONValue? {
        do {
            return try step()
        } catch {
            walk = .over
            throw error.error
        }
    }

    private mutating func step() throws(JSONFault) -> JSONValue? {
        switch walk {
        case .over: return nil
        case .notStarted:
            cursor.skipSpace()
            try cursor.expect(UInt8(ascii: "["), else: .array)
            guard cursor.depthMax >= 1 else { throw cursor.fault(.tooDeep) }
            walk = .inside
            cursor.skipSpace()
            if try cursor.ends(with: UInt8(ascii: "]")) {
                walk = .over
                return nil
            }
        case .inside:
            cursor.skipSpace()
            if try cursor.ends(with: UInt8(ascii: "]")) {
                walk = .over
                return nil
            }
            try cursor.expect(UInt8(ascii: ","), else: .separator)
            cursor.skipSpace()
        }
        return try cursor.value(at: 1)
    }
}

extension JSONCursor {
    /// Whether the bracket that closes everything stands here; then nothing but white space may follow it.
    @inline(__always) fileprivate mutating func ends(with bracket: UInt8) throws(JSONFault) -> Bool {
        guard index < end, byte(index) == bracket else { return false }
        index &+= 1
        skipSpace()
        guard index == end else { throw fault(.trailing) }
        return true
    }

    /// One value of any kind and nothing after it but white space.
    mutating func whole() throws(JSONFault) {
        skipSpace()
        _ = try value(at: 0)
        skipSpace()
        guard index == end else { throw fault(.trailing) }
    }
}
