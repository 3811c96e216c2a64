import HubBase

/// Envelopes as JSON, without white space (RFC 8259).
struct JSONWriter<Sink: ByteSink>: EnvelopeWriter {
    static var format: WireFormat { .json }

    private(set) var sink: Sink

    init(_ sink: Sink) { self.sink = sink }

    @inline(__always) mutating func begin() -> Int {
        sink.put(UInt8(ascii: "{"))
        return 0
    }

    @inline(__always) mutating func end(_ outer: Int) { sink.put(UInt8(ascii: "}")) }

    @inline(__always) mutating func firstKey(_ label: FieldLabel) {
        sink.put(UnsafeRawPointer(label.json.utf8Start) + 1, label.json.utf8CodeUnitCount &- 1)
    }

    @inline(__always) mutating func key(_ label: FieldLabel) { sink.put(label.json) }

    mutating func beginList(_ count: Int) { sink.put(UInt8(ascii: "[")) }
    mutating func beginElement(isFirst: Bool) { if !isFirst { sink.put(UInt8(ascii: ",")) } }
    mutating func endList() { sink.put(UInt8(ascii: "]")) }
    mutating func beginDictionary(_ count: Int) { sink.put(UInt8(ascii: "{")) }

    mutating func beginEntry(_ name: Name, isFirst: Bool) {
        beginElement(isFirst: isFirst)
        value(name)
        sink.put(UInt8(ascii: ":"))
    }

    mutating func endDictionary() { sink.put(UInt8(ascii: "}")) }

    /// Nothing in it needs escaping.
    @inline(__always) mutating func value(_ word: WireWord) {
        sink.put(UInt8(ascii: "\""))
        sink.put(word.text)
        sink.put(UInt8(ascii: "\""))
    }

    mutating func value(word text: String) { value(text) }

    /// Copies and looks at once: nearly no text needs escaping, and then this was all.
    @inline(__always) mutating func value(_ name: Name) {
        sink.put(UInt8(ascii: "\""))
        let target = sink.reserve(name.bytes.count)
        if name.bytes.withUnsafeBytes({ copyIsPlain($0, to: target) }) {
            sink.advance(name.bytes.count)
        } else {
            let target = sink.reserve(name.bytes.count &* 6)
            sink.advance(name.bytes.withUnsafeBytes { putEscaped($0, to: target) })
        }
        sink.put(UInt8(ascii: "\""))
    }

    mutating func value(_ text: String) {
        var text = text
        sink.put(UInt8(ascii: "\""))
        let target = sink.reserve(text.utf8.count &* 6)
        sink.advance(text.withUTF8 { putEscaped(UnsafeRawBufferPointer($0), to: target) })
        sink.put(UInt8(ascii: "\""))
    }

    @inline(__always) mutating func value(_ number: UInt64) { sink.put(decimal: number, digits: decimalDigits(number)) }

    @inline(__always) mutating func value(_ position: Position) {
        sink.put(UInt8(ascii: "\""))
        sink.put(position)
        sink.put(UInt8(ascii: "\""))
    }

    mutating func value(_ flag: Bool) { sink.put(flag ? "true" : "false") }
    @inline(__always) mutating func value(raw: UnsafeRawBufferPointer) { sink.put(raw) }
}

/// False when something in the text must be escaped; then what was written doesn't count. Eight bytes at a time, the last ones overlapping.
@inline(__always) func copyIsPlain(_ text: UnsafeRawBufferPointer, to target: UnsafeMutableRawPointer) -> Bool {
    guard let source = text.baseAddress else { return true }
    let count = text.count
    var special: UInt64 = 0
    if count >= 8 {
        var place = 0
        while place < count {
            let start = min(place, count &- 8)
            let word = source.loadUnaligned(fromByteOffset: start, as: UInt64.self)
            target.storeBytes(of: word, toByteOffset: start, as: UInt64.self)
            special |= specials(word)
            place &+= 8
        }
    } else {
        for place in 0..<count {
            let byte = source.load(fromByteOffset: place, as: UInt8.self)
            target.storeBytes(of: byte, toByteOffset: place, as: UInt8.self)
            special |= byte < 0x20 || byte == 0x22 || byte == 0x5C ? 1 : 0
        }
    }
    return special == 0
}

/// Not 0 when one of the eight bytes must be escaped (RFC 8259 §7): the "is there a zero byte" trick three times.
@inline(__always) private func specials(_ word: UInt64) -> UInt64 {
    let ones: UInt64 = 0x0101_0101_0101_0101
    let quote = word ^ (ones &* 0x22)
    let backslash = word ^ (ones &* 0x5C)
    return ((quote &- ones) & ~quote | (backslash &- ones) & ~backslash | (word &- ones &* 0x20) & ~word) & (ones &* 0x80)
}

/// Answers how many bytes it wrote, at most six for one. Takes no writer: one whose address is known can't stay in registers.
@inline(never) private func putEscaped(_ text: UnsafeRawBufferPointer, to target: UnsafeMutableRawPointer) -> Int {
    var escaped = ByteBuffer(capacity: text.count &* 2)
    JSONText.escape(text, into: &escaped)
    target.copyMemory(from: escaped.base, byteCount: escaped.count)
    return escaped.count
}
