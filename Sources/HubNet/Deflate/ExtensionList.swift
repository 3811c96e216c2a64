/// The elements of `Sec-WebSocket-Extensions` (RFC 6455 §9.1), one field line after another:
///
/// ```
///   extension-list  = 1#extension
///   extension       = extension-token *( ";" extension-param )
///   extension-param = token [ "=" (token | quoted-string) ]     the quoted string's content is a token, too
/// ```
///
/// Reads in place, allocates nothing. An element that breaks the grammar is told as such and skipped to the next comma that isn't quoted:
/// what is optional and bad is declined, not refused. Cost: linear in the bytes, which the head's limit bounds.
struct ExtensionList {
    enum Element {
        /// The parameters are walked with `ExtensionParameters`.
        case named(UnsafeRawBufferPointer, ExtensionParameters)
        case malformed
    }

    private var cursor: ExtensionCursor

    init(_ value: UnsafeRawBufferPointer) { cursor = ExtensionCursor(value) }

    mutating func next() -> Element? {
        // Empty elements of a list are skipped (RFC 9110 §5.6.1.2).
        repeat { cursor.skipBlanks() } while cursor.take(UInt8(ascii: ","))
        if cursor.isAtEnd { return nil }
        let start = cursor
        guard let name = cursor.takeToken() else { return malformed(from: start) }
        let parameters = ExtensionParameters(cursor)
        while true {
            switch cursor.takeParameter() {
            case .parameter: continue
            case .malformed: return malformed(from: start)
            case .end: break
            }
            guard cursor.isAtEnd || cursor.take(UInt8(ascii: ",")) else { return malformed(from: start) }
            return .named(name, parameters)
        }
    }

    private mutating func malformed(from start: ExtensionCursor) -> Element {
        cursor = start
        cursor.skipElement()
        return .malformed
    }
}

/// The parameters of one element, which is known to be well-formed.
struct ExtensionParameters {
    private var cursor: ExtensionCursor

    init(_ cursor: ExtensionCursor) { self.cursor = cursor }

    /// nil: that was the last one.
    mutating func next() -> ExtensionParameter? {
        guard case .parameter(let parameter) = cursor.takeParameter() else { return nil }
        return parameter
    }
}

struct ExtensionParameter {
    var name: UnsafeRawBufferPointer
    /// Without the quotes; nil when there's none. A backslash in it, which no token has, is a quoted pair's: it isn't part of the value.
    var value: UnsafeRawBufferPointer?
}

/// Where the reading stands.
struct ExtensionCursor {
    private let bytes: UnsafeRawBufferPointer
    private var place = 0

    init(_ bytes: UnsafeRawBufferPointer) { self.bytes = bytes }

    enum Reading {
        case parameter(ExtensionParameter)
        /// Something other than `;` follows.
        case end
        case malformed
    }

    var isAtEnd: Bool { place >= bytes.count }

    mutating func skipBlanks() {
        while place < bytes.count && ASCII.isBlank(bytes[place]) { place += 1 }
    }

    mutating func take(_ byte: UInt8) -> Bool {
        guard place < bytes.count, bytes[place] == byte else { return false }
        place += 1
        return true
    }

    mutating func takeToken() -> UnsafeRawBufferPointer? {
        let start = place
        while place < bytes.count && ASCII.isToken(bytes[place]) { place += 1 }
        return place == start ? nil : UnsafeRawBufferPointer(rebasing: bytes[start..<place])
    }

    /// `; name`, `; name=value`, `; name="value"`, with white space around each sign, as implied by the grammar's time (RFC 2616 §2.1).
    mutating func takeParameter() -> Reading {
        skipBlanks()
        guard take(UInt8(ascii: ";")) else { return .end }
        skipBlanks()
        guard let name = takeToken() else { return .malformed }
        skipBlanks()
        guard take(UInt8(ascii: "=")) else { return .parameter(ExtensionParameter(name: name, value: nil)) }
        skipBlanks()
        if take(UInt8(ascii: "\"")) { return takeQuoted(name) }
        guard let value = takeToken() else { return .malformed }
        return .parameter(ExtensionParameter(name: name, value: value))
    }

    /// The rest of a quoted string. Its content must be a token once it's unescaped (RFC 6455 §9.1).
    private mutating func takeQuoted(_ name: UnsafeRawBufferPointer) -> Reading {
        let start = place
        while place < bytes.count, bytes[place] != UInt8(ascii: "\"") {
            if bytes[place] == UInt8(ascii: "\\") { place += 1 }
            guard place < bytes.count, ASCII.isToken(bytes[place]) else { return .malformed }
            place += 1
        }
        let end = place
        guard end > start, take(UInt8(ascii: "\"")) else { return .malformed }
        return .parameter(ExtensionParameter(name: name, value: UnsafeRawBufferPointer(rebasing: bytes[start..<end])))
    }

    /// From an element's start past the next comma that isn't quoted.
    mutating func skipElement() {
        var isQuoted = false
        while place < bytes.count {
            let byte = bytes[place]
            place += 1
            if byte == UInt8(ascii: "\\") && isQuoted {
                place = min(place + 1, bytes.count)
            } else if byte == UInt8(ascii: "\"") {
                isQuoted.toggle()
            } else if byte == UInt8(ascii: ",") && !isQuoted {
                return
            }
        }
    }
}
