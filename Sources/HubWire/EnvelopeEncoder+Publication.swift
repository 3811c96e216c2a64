import HubBase

extension EnvelopeEncoder {
    /// Publications: encoded once for each loop and wire variant. `position` is nil for `typing` and `read`, which have none.
    ///
    /// The payload goes out as it came in. Cost: one copy of the bytes, no allocation once the buffer is warm.
    package static func publication(_ publication: Publication, channel: Name, position: Position?, into buffer: inout ByteBuffer) {
        // One reservation for the worst case (every byte of every name escaped), then only stores.
        let names = channel.bytes.count + publication.user.bytes.count + publication.device.bytes.count + publication.messageId.bytes.count
        var writer = Writer(buffer.reserve(fixedLengthMax + names * 6 + publication.payload.count))
        switch publication.messageClass {
        case .chat: writer.put("{\"type\":\"chat\",\"channel\":\"")
        case .event: writer.put("{\"type\":\"event\",\"channel\":\"")
        case .read: writer.put("{\"type\":\"read\",\"channel\":\"")
        case .typing: writer.put("{\"type\":\"typing\",\"channel\":\"")
        }
        writer.put(name: channel)
        if let position {
            writer.put("\",\"offset\":")
            writer.put(decimal: position.offset)
            writer.put(",\"position\":\"")
            writer.put(position)
        }
        if !publication.user.isEmpty {
            writer.put("\",\"user\":\"")
            writer.put(name: publication.user)
        }
        if !publication.device.isEmpty {
            writer.put("\",\"device\":\"")
            writer.put(name: publication.device)
        }
        writer.put("\",\"time\":")
        writer.put(decimal: publication.time)
        if publication.messageId.isEmpty {
            writer.put(",\"payload\":")
        } else {
            writer.put(",\"messageId\":\"")
            writer.put(name: publication.messageId)
            writer.put("\",\"payload\":")
        }
        publication.payload.withUnsafeBytes { writer.put($0) }
        writer.put("}")
        buffer.advance(by: writer.count)
    }

    /// Above the sum of all literals, a position and two numbers; a test writes the longest.
    static let fixedLengthMax = 256
}

/// Stores into memory that was reserved for the worst case, so that nothing is checked along the way.
private struct Writer {
    private let start: UnsafeMutableRawPointer
    private(set) var count = 0

    init(_ start: UnsafeMutableRawPointer) { self.start = start }

    @inline(__always) mutating func put(_ literal: StaticString) {
        (start + count).copyMemory(from: literal.utf8Start, byteCount: literal.utf8CodeUnitCount)
        count &+= literal.utf8CodeUnitCount
    }

    @inline(__always) mutating func put(_ bytes: UnsafeRawBufferPointer) {
        guard let source = bytes.baseAddress else { return }
        (start + count).copyMemory(from: source, byteCount: bytes.count)
        count &+= bytes.count
    }

    @inline(__always) private mutating func put(_ byte: UInt8) {
        start.storeBytes(of: byte, toByteOffset: count, as: UInt8.self)
        count &+= 1
    }

    /// Copies and looks at once: nearly no name needs escaping, and then this was all.
    @inline(__always) mutating func put(name: Name) {
        let isPlain = name.bytes.withUnsafeBytes { bytes in
            var unsafe: UInt8 = 0
            for index in 0..<bytes.count {
                let byte = bytes[index]
                start.storeBytes(of: byte, toByteOffset: count &+ index, as: UInt8.self)
                unsafe |= byte < 0x20 || byte == 0x22 || byte == 0x5C ? 1 : 0
            }
            return unsafe == 0
        }
        if isPlain {
            count &+= name.bytes.count
        } else {
            putEscaped(name)
        }
    }

    @inline(never) private mutating func putEscaped(_ name: Name) {
        var escaped = ByteBuffer(capacity: name.bytes.count * 6)
        name.bytes.withUnsafeBytes { JSONText.escape($0, into: &escaped) }
        put(escaped.bytes)
    }

    @inline(__always) mutating func put(_ position: Position) {
        put(position.epoch)
        put(UInt8(ascii: "."))
        put(decimal: position.offset)
        put(UInt8(ascii: "."))
        put(position.tag)
    }

    @inline(__always) private mutating func put(_ mark: Mark) {
        guard mark.raw != 0 else { return }
        start.storeBytes(of: mark.raw.littleEndian, toByteOffset: count, as: UInt64.self)
        count &+= 8
    }

    mutating func put(decimal value: UInt64) {
        var digits = 1
        var rest = value / 10
        while rest > 0 {
            digits &+= 1
            rest /= 10
        }
        rest = value
        var place = digits
        while place > 0 {
            place &-= 1
            start.storeBytes(of: UInt8(truncatingIfNeeded: 48 &+ rest % 10), toByteOffset: count &+ place, as: UInt8.self)
            rest /= 10
        }
        count &+= digits
    }
}
