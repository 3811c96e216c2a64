import HubBase

/// What a JSON value is, from its first byte.
package enum JSONKind: UInt8, Sendable { case object, array, string, number, bool, null }

/// A value found by a scan. For strings `range` excludes the quotes, `hasEscapes` tells of a backslash; for all else it's the whole token.
package struct JSONValue: Sendable {
    package var kind: JSONKind
    package var range: ByteRange
    package var hasEscapes: Bool

    package init(kind: JSONKind, range: ByteRange, hasEscapes: Bool) {
        self.kind = kind
        self.range = range
        self.hasEscapes = hasEscapes
    }
}

/// Walks the fields of one JSON object in place (RFC 8259). Throws `malformed` or `tooDeep`; checks the whole text, what follows the
/// object included, by the time `next()` has returned nil.
package struct JSONFields {
    /// `outer` is the whole message that ranges are relative to; `range` the object in it.
    package init(_ outer: UnsafeRawBufferPointer, range: ByteRange, depthMax: Int) { fatalError("skeleton") }

    /// The next field: its key (raw text between the quotes) and value; nil after the last one.
    package mutating func next() throws(WireError) -> (key: JSONValue, value: JSONValue)? { fatalError("skeleton") }
}

/// Walks the elements of one JSON array in place.
package struct JSONElements {
    package init(_ outer: UnsafeRawBufferPointer, range: ByteRange, depthMax: Int) { fatalError("skeleton") }
    package mutating func next() throws(WireError) -> JSONValue? { fatalError("skeleton") }
}

package enum JSONText {
    /// Appends the string that the raw text between two quotes means. False for a lone surrogate or a bad escape. Cost: linear.
    package static func unescape(_ raw: UnsafeRawBufferPointer, into buffer: inout ByteBuffer) -> Bool { fatalError("skeleton") }

    /// Appends `text` (valid UTF-8) escaped for use between quotes; without the quotes.
    package static func escape(_ text: UnsafeRawBufferPointer, into buffer: inout ByteBuffer) { fatalError("skeleton") }

    /// The name that a JSON string holds: unescaped where needed, then validated. nil when it isn't a valid name of at most `limit` bytes.
    package static func name(_ raw: UnsafeRawBufferPointer, hasEscapes: Bool, limit: Int) -> Name? { fatalError("skeleton") }

    /// A JSON number that is an integer from 0 to 2^53 − 1, written without fraction or exponent; nil for all else.
    package static func unsigned(_ token: UnsafeRawBufferPointer) -> UInt64? { fatalError("skeleton") }
}
