import HubBase

/// Pieces of JSON text. `label` is what stands before the value, comma, name and colon in one: one append.
extension ByteBuffer {
    mutating func appendField(_ label: StaticString, _ name: Name) {
        append(label)
        append(UInt8(ascii: "\""))
        name.bytes.withUnsafeBytes { JSONText.escape($0, into: &self) }
        append(UInt8(ascii: "\""))
    }

    mutating func appendField(_ label: StaticString, _ value: UInt64) {
        append(label)
        append(decimal: value)
    }

    mutating func appendField(_ label: StaticString, _ position: Position) {
        append(label)
        append(UInt8(ascii: "\""))
        position.append(to: &self)
        append(UInt8(ascii: "\""))
    }

    mutating func appendField(_ label: StaticString, _ text: String) {
        append(label)
        appendQuoted(text)
    }

    mutating func appendQuoted(_ text: String) {
        var text = text
        append(UInt8(ascii: "\""))
        text.withUTF8 { JSONText.escape(UnsafeRawBufferPointer($0), into: &self) }
        append(UInt8(ascii: "\""))
    }
}
