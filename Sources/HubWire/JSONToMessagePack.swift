import HubBase

/// One JSON value as MessagePack. Whole numbers become integers where 64 bits hold them, others doubles; escapes are undone.
///
/// Nothing is counted beforehand: a container's header has one byte, and what follows it moves up when there were more than 15 elements.
/// Nesting is recursion, at most 64 deep.
struct JSONToMessagePack {
    private var cursor: JSONCursor

    init(_ text: UnsafeRawBufferPointer) {
        cursor = JSONCursor(text, range: ByteRange(offset: 0, count: text.count), depthMax: JSONCursor.depthLimit)
    }

    mutating func whole(into buffer: inout ByteBuffer) throws(JSONFault) {
        cursor.skipSpace()
        try value(at: 0, into: &buffer)
        cursor.skipSpace()
        guard cursor.index == cursor.end else { throw cursor.fault(.trailing) }
    }

    private mutating func value(at depth: Int, into buffer: inout ByteBuffer) throws(JSONFault) {
        guard cursor.index < cursor.end else { throw cursor.fault(.ended) }
        switch cursor.byte(cursor.index) {
        case UInt8(ascii: "\""): append(try cursor.string(), to: &buffer)
        case UInt8(ascii: "{"): try container(UInt8(ascii: "}"), 0x80, at: depth, into: &buffer)
        case UInt8(ascii: "["): try container(UInt8(ascii: "]"), 0x90, at: depth, into: &buffer)
        default: try scalar(into: &buffer)
        }
    }

    private mutating func container(_ closing: UInt8, _ header: UInt8, at depth: Int, into buffer: inout ByteBuffer) throws(JSONFault) {
        guard depth < cursor.depthMax else { throw cursor.fault(.tooDeep) }
        cursor.index &+= 1
        let place = buffer.count
        buffer.append(header)
        var count = 0
        cursor.skipSpace()
        while true {
            guard cursor.index < cursor.end else { throw cursor.fault(.ended) }
            if cursor.byte(cursor.index) == closing, count == 0 { break }
            if header == 0x80 {
                append(try cursor.key(), to: &buffer)
                cursor.skipSpace()
            }
            try value(at: depth &+ 1, into: &buffer)
            count &+= 1
            cursor.skipSpace()
            guard cursor.index < cursor.end else { throw cursor.fault(.ended) }
            if cursor.byte(cursor.index) == closing { break }
            try cursor.expect(UInt8(ascii: ","), else: .separator)
            cursor.skipSpace()
        }
        cursor.index &+= 1
        if count < 16 {
            buffer.base.storeBytes(of: header | UInt8(truncatingIfNeeded: count), toByteOffset: place, as: UInt8.self)
        } else {
            widen(place, header == 0x80 ? 0xDE : 0xDC, count, &buffer)
        }
    }

    /// Puts a header of 16 or 32 bits where one byte was left.
    private func widen(_ place: Int, _ short: UInt8, _ count: Int, _ buffer: inout ByteBuffer) {
        let extra = count <= 0xFFFF ? 2 : 4
        let length = buffer.count &- place &- 1
        _ = buffer.reserve(extra)
        memmoveBytes(buffer.base + place + 1 + extra, buffer.base + place + 1, length)
        buffer.advance(by: extra)
        buffer.base.storeBytes(of: extra == 2 ? short : short &+ 1, toByteOffset: place, as: UInt8.self)
        for byte in 0..<extra {
            let bits = UInt8(truncatingIfNeeded: count &>> ((extra &- 1 &- byte) &* 8))
            buffer.base.storeBytes(of: bits, toByteOffset: place &+ 1 &+ byte, as: UInt8.self)
        }
    }

    private func append(_ string: JSONValue, to buffer: inout ByteBuffer) {
        let raw = cursor.bytes(string.range)
        guard string.hasEscapes else {
            withSink(&buffer) { $0.putText(raw) }
            return
        }
        var text = ByteBuffer(capacity: raw.count)
        _ = JSONText.unescape(raw, into: &text, replacesLoneSurrogates: true)
        withSink(&buffer) { $0.putText(text.bytes) }
    }

    private mutating func scalar(into buffer: inout ByteBuffer) throws(JSONFault) {
        let start = cursor.index
        switch try cursor.scalar() {
        case .null: buffer.append(0xC0 as UInt8)
        case .bool: buffer.append(cursor.byte(start) == UInt8(ascii: "t") ? 0xC3 : 0xC2 as UInt8)
        default:
            let token = UnsafeRawBufferPointer(start: cursor.base + start, count: cursor.index &- start)
            withSink(&buffer) { $0.putNumber(token) }
        }
    }
}

private func withSink(_ buffer: inout ByteBuffer, _ body: (inout BufferSink) -> Void) {
    withUnsafeMutablePointer(to: &buffer) { buffer in
        var sink = BufferSink(buffer: buffer)
        body(&sink)
    }
}

extension BufferSink {
    fileprivate mutating func putText(_ text: UnsafeRawBufferPointer) {
        putTextHeader(text.count)
        put(text)
    }

    /// A number's token. What no integer of 64 bits holds becomes the nearest double, as in every reader of JSON that has only doubles;
    /// beyond their range that's infinity. `-0` is a double too: no integer has its sign.
    fileprivate mutating func putNumber(_ token: UnsafeRawBufferPointer) {
        let isNegative = token.first == UInt8(ascii: "-")
        var magnitude: UInt64 = 0
        var fits = true
        for byte in token.dropFirst(isNegative ? 1 : 0) {
            let digit = byte &- 48
            let (product, overflows) = magnitude.multipliedReportingOverflow(by: 10)
            let (sum, carries) = product.addingReportingOverflow(UInt64(digit))
            guard digit <= 9, !overflows, !carries else {
                fits = false
                break
            }
            magnitude = sum
        }
        if fits && !isNegative {
            putNumber(magnitude)
        } else if fits && magnitude > 0 && magnitude <= 1 &<< 63 {
            putNegative(Int64(truncatingIfNeeded: 0 &- magnitude))
        } else {
            put(0xCB)
            put(big: (Double(String(decoding: token, as: UTF8.self)) ?? 0).bitPattern, bytes: 8)
        }
    }
}
