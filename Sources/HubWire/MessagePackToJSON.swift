import HubBase

/// One MessagePack value as JSON, without white space. Numbers keep their value (a double in the fewest digits that read back as it),
/// binaries become base64 (RFC 4648 §4, padded). Nesting is recursion, at most 64 deep.
struct MessagePackToJSON {
    private var cursor: MessagePackCursor
    /// Numbers stand for names and words here: an envelope of the short form, but for its payload.
    private var isShort: Bool

    init(_ bytes: UnsafeRawBufferPointer, isShort: Bool = false) {
        self.isShort = isShort
        cursor = MessagePackCursor(bytes, range: ByteRange(offset: 0, count: bytes.count), depthMax: JSONCursor.depthLimit)
    }

    mutating func whole(into buffer: inout ByteBuffer) throws(MessagePackFault) {
        try value(at: 0, into: &buffer)
        guard cursor.index == cursor.end else { throw cursor.fault(.trailing, at: cursor.index) }
    }

    private mutating func value(at depth: Int, into buffer: inout ByteBuffer) throws(MessagePackFault) {
        let start = cursor.index
        let head = try cursor.head()
        switch head.kind {
        case .null: buffer.append("null")
        case .bool: buffer.append(head.bits == 1 ? "true" : "false")
        case .number: append(head, to: &buffer)
        case .string: try string(head, from: start, into: &buffer)
        case .binary:
            buffer.append(UInt8(ascii: "\""))
            appendBase64(cursor.bytes(try cursor.content(head.count)), to: &buffer)
            buffer.append(UInt8(ascii: "\""))
        case .array:
            try cursor.check(head, from: start, below: depth)
            buffer.append(UInt8(ascii: "["))
            for element in 0..<head.count {
                if element > 0 { buffer.append(UInt8(ascii: ",")) }
                try value(at: depth &+ 1, into: &buffer)
            }
            buffer.append(UInt8(ascii: "]"))
        case .object:
            try cursor.check(head, from: start, below: depth)
            buffer.append(UInt8(ascii: "{"))
            for field in 0..<head.count {
                if field > 0 { buffer.append(UInt8(ascii: ",")) }
                let place = cursor.index
                let key = try cursor.head()
                if isShort && key.kind == .number && key.number == .unsigned {
                    try numberedField(key.bits, at: depth &+ 1, into: &buffer)
                    continue
                }
                guard key.kind == .string else { throw cursor.fault(.key, at: place) }
                try string(key, from: place, into: &buffer)
                buffer.append(UInt8(ascii: ":"))
                try value(at: depth &+ 1, into: &buffer)
            }
            buffer.append(UInt8(ascii: "}"))
        }
    }

    /// A field of the short form. One that we don't know keeps its number as its name, and is ignored by whoever reads it.
    private mutating func numberedField(_ number: UInt64, at depth: Int, into buffer: inout ByteBuffer) throws(MessagePackFault) {
        let field = UInt8(exactly: number).flatMap(WireField.init(rawValue:))
        buffer.append(UInt8(ascii: "\""))
        if let field { buffer.append(Self.names[Int(field.rawValue)]) } else { buffer.append(decimal: number) }
        buffer.append("\":")
        switch field {
        case .type, .event, .status, .code, .class, .reason, .mode:
            let start = cursor.index
            let head = try cursor.head()
            guard head.kind == .number, head.number == .unsigned, let word = UInt8(exactly: head.bits).flatMap(WireWord.init(rawValue:))
            else {
                cursor.index = start
                return try value(at: depth, into: &buffer)
            }
            buffer.append(UInt8(ascii: "\""))
            buffer.append(word.text)
            buffer.append(UInt8(ascii: "\""))
        case .payload:
            isShort = false
            try value(at: depth, into: &buffer)
            isShort = true
        default: try value(at: depth, into: &buffer)
        }
    }

    private static let names = WireField.allCases.map { Array("\($0)".utf8) }

    private mutating func string(_ head: MessagePackHead, from start: Int, into buffer: inout ByteBuffer) throws(MessagePackFault) {
        let text = cursor.bytes(try cursor.text(head.count, from: start))
        buffer.append(UInt8(ascii: "\""))
        if copyIsPlain(text, to: buffer.reserve(text.count)) {
            buffer.advance(by: text.count)
        } else {
            JSONText.escape(text, into: &buffer)
        }
        buffer.append(UInt8(ascii: "\""))
    }

    private func append(_ number: MessagePackHead, to buffer: inout ByteBuffer) {
        switch number.number {
        case .unsigned: buffer.append(decimal: number.bits)
        case .negative: buffer.append(decimal: Int64(bitPattern: number.bits))
        case .double:
            // Finite, so it's digits, a point and an exponent: JSON's grammar holds all of it.
            var text = Double(bitPattern: number.bits).description
            text.withUTF8 { buffer.append(UnsafeRawBufferPointer($0)) }
        }
    }
}

private func appendBase64(_ bytes: UnsafeRawBufferPointer, to buffer: inout ByteBuffer) {
    let alphabet: StaticString = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
    let pad = UInt8(ascii: "=")
    _ = buffer.reserve((bytes.count &+ 2) / 3 &* 4)
    var index = 0
    while index < bytes.count {
        let left = bytes.count &- index
        let second = left > 1 ? UInt32(bytes[index &+ 1]) : 0
        let third = left > 2 ? UInt32(bytes[index &+ 2]) : 0
        let group = UInt32(bytes[index]) &<< 16 | second &<< 8 | third
        func letter(_ shift: UInt32) -> UInt8 { alphabet.utf8Start[Int(group &>> shift & 63)] }
        buffer.append(letter(18))
        buffer.append(letter(12))
        buffer.append(left > 1 ? letter(6) : pad)
        buffer.append(left > 2 ? letter(0) : pad)
        index &+= 3
    }
}
