import HubBase

/// Envelopes as MessagePack, every value in its shortest form.
struct MessagePackWriter<Sink: ByteSink, Style: MessagePackStyle>: EnvelopeWriter {
    static var format: WireFormat { Style.format }

    private(set) var sink: Sink
    /// Where the header of the innermost object stands; its low four bits are the count so far.
    private var header = 0

    init(_ sink: Sink) { self.sink = sink }

    @inline(__always) mutating func begin() -> Int {
        let outer = header
        header = sink.count
        sink.put(0x80)
        return outer
    }

    @inline(__always) mutating func end(_ outer: Int) { header = outer }
    @inline(__always) mutating func firstKey(_ label: FieldLabel) { key(label) }

    @inline(__always) mutating func key(_ label: FieldLabel) {
        sink.increment(at: header)
        Style.put(label, to: &sink)
    }

    mutating func beginList(_ count: Int) { sink.putArrayHeader(count) }
    mutating func beginElement(isFirst: Bool) {}
    mutating func endList() {}
    mutating func beginDictionary(_ count: Int) { sink.putMapHeader(count) }
    mutating func beginEntry(_ name: Name, isFirst: Bool) { value(name) }
    mutating func endDictionary() {}

    @inline(__always) mutating func value(_ word: WireWord) { Style.put(word, to: &sink) }

    mutating func value(word text: String) {
        if Style.format == .short, let word = WireWord(text) { value(word) } else { value(text) }
    }

    @inline(__always) mutating func value(_ name: Name) {
        sink.putTextHeader(name.bytes.count)
        name.bytes.withUnsafeBytes { sink.put($0) }
    }

    mutating func value(_ text: String) {
        var text = text
        text.withUTF8 { utf8 in
            sink.putTextHeader(utf8.count)
            sink.put(UnsafeRawBufferPointer(utf8))
        }
    }

    @inline(__always) mutating func value(_ number: UInt64) { sink.putNumber(number) }

    @inline(__always) mutating func value(_ position: Position) {
        let marks = (position.epoch.raw == 0 ? 0 : 8) &+ (position.tag.raw == 0 ? 0 : 8)
        sink.putTextHeader(marks &+ 2 &+ decimalDigits(position.offset))
        sink.put(position)
    }

    mutating func value(_ flag: Bool) { sink.put(flag ? 0xC3 : 0xC2) }
    @inline(__always) mutating func value(raw: UnsafeRawBufferPointer) { sink.put(raw) }
}

/// How names of fields and words of closed lists are written; a type, so that the compiler makes a writer of each.
protocol MessagePackStyle {
    static var format: WireFormat { get }
    static func put(_ label: FieldLabel, to sink: inout some ByteSink)
    static func put(_ word: WireWord, to sink: inout some ByteSink)
}

enum NamedStyle: MessagePackStyle {
    @inline(__always) static var format: WireFormat { .messagePack }

    @inline(__always) static func put(_ label: FieldLabel, to sink: inout some ByteSink) {
        sink.put(0xA0 | UInt8(truncatingIfNeeded: label.nameCount))
        sink.put(label.name, label.nameCount)
    }

    @inline(__always) static func put(_ word: WireWord, to sink: inout some ByteSink) {
        let text = word.text
        sink.putTextHeader(text.utf8CodeUnitCount)
        sink.put(text)
    }
}

enum NumberedStyle: MessagePackStyle {
    @inline(__always) static var format: WireFormat { .short }
    @inline(__always) static func put(_ label: FieldLabel, to sink: inout some ByteSink) { sink.putNumber(UInt64(label.field.rawValue)) }
    @inline(__always) static func put(_ word: WireWord, to sink: inout some ByteSink) { sink.putNumber(UInt64(word.rawValue)) }
}

/// What stands before values, and numbers, in the shortest form that holds them.
extension ByteSink {
    /// Counts are those of buffers in memory, so 32 bits hold them: a longer one is our own fault.
    @inline(__always) mutating func putTextHeader(_ count: Int) {
        if count < 32 {
            put(0xA0 | UInt8(truncatingIfNeeded: count))
        } else if count <= 0xFF {
            put(0xD9)
            put(UInt8(truncatingIfNeeded: count))
        } else {
            putLongHeader(count, short: 0xDA)
        }
    }

    mutating func putArrayHeader(_ count: Int) {
        if count < 16 { put(0x90 | UInt8(truncatingIfNeeded: count)) } else { putLongHeader(count, short: 0xDC) }
    }

    mutating func putMapHeader(_ count: Int) {
        if count < 16 { put(0x80 | UInt8(truncatingIfNeeded: count)) } else { putLongHeader(count, short: 0xDE) }
    }

    /// `short` announces 16 bits; the byte after it 32.
    @inline(never) private mutating func putLongHeader(_ count: Int, short: UInt8) {
        precondition(count <= Int(UInt32.max), "\(count) don't fit a MessagePack header")
        if count <= 0xFFFF {
            put(short)
            put(big: UInt64(count), bytes: 2)
        } else {
            put(short &+ 1)
            put(big: UInt64(count), bytes: 4)
        }
    }

    @inline(__always) mutating func putNumber(_ value: UInt64) {
        if value < 0x80 {
            put(UInt8(truncatingIfNeeded: value))
        } else if value <= 0xFF {
            put(0xCC)
            put(UInt8(truncatingIfNeeded: value))
        } else if value <= 0xFFFF {
            put(0xCD)
            put(big: value, bytes: 2)
        } else if value <= 0xFFFF_FFFF {
            put(0xCE)
            put(big: value, bytes: 4)
        } else {
            put(0xCF)
            put(big: value, bytes: 8)
        }
    }

    /// A number below zero.
    mutating func putNegative(_ value: Int64) {
        let bits = UInt64(bitPattern: value)
        if value >= -32 {
            put(UInt8(truncatingIfNeeded: bits))
        } else if value >= Int64(Int8.min) {
            put(0xD0)
            put(UInt8(truncatingIfNeeded: bits))
        } else if value >= Int64(Int16.min) {
            put(0xD1)
            put(big: bits, bytes: 2)
        } else if value >= Int64(Int32.min) {
            put(0xD2)
            put(big: bits, bytes: 4)
        } else {
            put(0xD3)
            put(big: bits, bytes: 8)
        }
    }
}
