import HubBase

/// What a value is, from its first byte. `binary` is MessagePack's alone.
package enum WireKind: UInt8, Sendable { case object, array, string, number, bool, null, binary }

/// A value that a scan found, whatever the format. Of strings (and binaries) `range` is the content, of all else the whole token.
package struct WireValue: Sendable {
    package var kind: WireKind
    package var format: PayloadFormat
    package var range: ByteRange
    /// JSON's alone: the content holds a backslash.
    package var hasEscapes: Bool

    package init(_ value: JSONValue) {
        kind = value.kind
        format = .json
        range = value.range
        hasEscapes = value.hasEscapes
    }

    init(_ value: MessagePackValue) {
        kind = value.kind
        format = .messagePack
        range = value.range
        hasEscapes = false
    }

    /// The name that a string means; nil when it's no string or no valid name of at most `limit` bytes.
    package func name(in message: UnsafeRawBufferPointer, limit: Int = Name.lengthMax) -> Name? {
        guard kind == .string else { return nil }
        return JSONText.name(range.bytes(in: message), hasEscapes: hasEscapes, limit: limit)
    }

    /// An integer from 0 to 2^53 − 1; nil for all else.
    package func unsigned(in message: UnsafeRawBufferPointer) -> UInt64? {
        guard kind == .number else { return nil }
        return format == .json ? JSONText.unsigned(range.bytes(in: message)) : MessagePack.unsigned(range.bytes(in: message))
    }

    /// Of a value that is a bool.
    package func isTrue(in message: UnsafeRawBufferPointer) -> Bool {
        range.bytes(in: message).first == (format == .json ? UInt8(ascii: "t") : 0xC3)
    }

    /// Whether it names that field: as text, or (only the short form hands out such) as its number.
    package func isField(_ field: RequestField, in message: UnsafeRawBufferPointer) -> Bool {
        switch kind {
        case .string: ShortText(range.bytes(in: message), hasEscapes: hasEscapes).flatMap { RequestField($0) } == field
        case .number: unsigned(in: message).flatMap { RequestField(number: $0) } == field
        default: false
        }
    }

    /// Whether it's a string that means `name` (at most 16 bytes, as all names of fields and types are).
    package func isText(_ name: StaticString, in message: UnsafeRawBufferPointer) -> Bool {
        kind == .string && JSONText.isEqual(range.bytes(in: message), hasEscapes: hasEscapes, to: name)
    }
}
