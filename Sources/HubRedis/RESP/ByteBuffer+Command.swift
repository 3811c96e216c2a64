import HubBase

/// Commands as Redis takes them: an array of bulk strings (RESP2), written straight into the link's outbound buffer.
///
/// A command is `command(n)` followed by exactly n arguments.
extension ByteBuffer {
    package mutating func command(_ arguments: Int) {
        append(UInt8(ascii: "*"))
        append(decimal: UInt64(arguments))
        append("\r\n")
    }

    private mutating func length(_ count: Int) {
        append(UInt8(ascii: "$"))
        append(decimal: UInt64(count))
        append("\r\n")
    }

    package mutating func argument(_ text: StaticString) {
        length(text.utf8CodeUnitCount)
        append(text)
        append("\r\n")
    }

    package mutating func argument(_ bytes: [UInt8]) {
        length(bytes.count)
        append(bytes)
        append("\r\n")
    }

    package mutating func argument(_ bytes: UnsafeRawBufferPointer) {
        length(bytes.count)
        append(bytes)
        append("\r\n")
    }

    /// Two runs of bytes as one argument.
    package mutating func argument(_ first: [UInt8], _ second: [UInt8], separator: UInt8) {
        length(first.count + 1 + second.count)
        append(first)
        append(separator)
        append(second)
        append("\r\n")
    }

    package mutating func argument(_ mark: Mark) {
        length(mark == .none ? 0 : 8)
        mark.append(to: &self)
        append("\r\n")
    }

    package mutating func argument(decimal value: UInt64) {
        length(decimalDigits(value))
        append(decimal: value)
        append("\r\n")
    }

    /// A key, from its partition's prefix, its kind and its name.
    package mutating func argument(key prefix: [UInt8], _ kind: StaticString, _ name: [UInt8] = []) {
        length(prefix.count + kind.utf8CodeUnitCount + name.count)
        append(prefix)
        append(kind)
        append(name)
        append("\r\n")
    }
}

package func decimalDigits(_ value: UInt64) -> Int {
    var digits = 1
    var rest = value / 10
    while rest > 0 {
        digits += 1
        rest /= 10
    }
    return digits
}
