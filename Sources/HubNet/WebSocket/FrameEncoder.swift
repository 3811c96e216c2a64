import HubBase

package enum Opcode: UInt8, Sendable {
    case continuation = 0x0
    case text = 0x1
    case binary = 0x2
    case close = 0x8
    case ping = 0x9
    case pong = 0xA

    package init(_ kind: MessageKind) { self = kind == .text ? .text : .binary }
}

/// Writes frames (RFC 6455 §5.2). Everything that we send is one frame.
package enum FrameEncoder {
    /// Room for any header: 2 + 8 + 4.
    package static let headerBytesMax = 14
    /// What a control frame may carry (§5.5).
    package static let controlBytesMax = 125

    /// Writes the header of a frame whose payload begins at `payload`, right in front of it, and returns how many bytes it took (2 … 14).
    /// `headerBytesMax` bytes in front must be free. Masking the payload is the caller's (`Masking`).
    package static func writeHeader(
        before payload: UnsafeMutableRawPointer, _ opcode: Opcode, payloadBytes: Int, compressed: Bool = false, maskingKey: UInt32? = nil
    ) -> Int {
        precondition(payloadBytes >= 0, "a frame of negative length")
        var end = payload
        if let maskingKey {
            end -= 4
            end.storeBytes(of: maskingKey, as: UInt32.self)
        }
        let short: UInt8
        if payloadBytes <= 125 {
            short = UInt8(truncatingIfNeeded: payloadBytes)
        } else if payloadBytes <= 0xFFFF {
            short = 126
            end -= 2
            end.storeBytes(of: UInt16(truncatingIfNeeded: payloadBytes).bigEndian, as: UInt16.self)
        } else {
            short = 127
            end -= 8
            end.storeBytes(of: UInt64(payloadBytes).bigEndian, as: UInt64.self)
        }
        end -= 2
        end.storeBytes(of: 0x80 | (compressed ? 0x40 : 0) | opcode.rawValue, as: UInt8.self)
        end.storeBytes(of: (maskingKey == nil ? 0 : 0x80) | short, toByteOffset: 1, as: UInt8.self)
        return payload - end
    }

    /// Most frames are below 64 KiB: their header has 4 bytes, or 2, and then the payload moves down by two.
    private static let gap = 4
    private static let maskBytes = 4

    /// Leaves room for a header; the payload is to be appended behind it, and then `placeHeader` called. Returns how much.
    @discardableResult
    static func leaveGap(isMasked: Bool = false, into out: inout ByteBuffer) -> Int {
        let bytes = gap + (isMasked ? maskBytes : 0)
        _ = out.reserve(bytes)
        out.advance(by: bytes)
        return bytes
    }

    /// Makes a frame of what lies from `start` to the buffer's end: the gap, and a payload of `payloadBytes`. Masks it. The frame begins at
    /// `start` without a hole, so that frames lie one right after the other.
    static func placeHeader(
        from start: Int, _ opcode: Opcode, payloadBytes count: Int, compressed: Bool = false, maskingKey: UInt32? = nil,
        into out: inout ByteBuffer
    ) {
        let extra = maskingKey == nil ? 0 : maskBytes
        let gap = gap + extra
        let headerBytes = (count < 126 ? 2 : count < 65536 ? 4 : 10) + extra
        if headerBytes > gap {
            _ = out.reserve(headerBytes - gap)
            out.advance(by: headerBytes - gap)
        }
        let payload = out.base + start + headerBytes
        if headerBytes != gap { memmoveBytes(payload, out.base + start + gap, count) }
        if headerBytes < gap { out.removeLast(gap - headerBytes) }
        if let maskingKey { Masking.apply(maskingKey, to: UnsafeMutableRawBufferPointer(start: payload, count: count)) }
        let written = writeHeader(before: payload, opcode, payloadBytes: count, compressed: compressed, maskingKey: maskingKey)
        precondition(written == headerBytes, "a frame header of \(written) bytes where \(headerBytes) were left")
    }

    /// Appends a ping or pong with a copy of `payload` (≤ 125 bytes).
    package static func appendControl(
        _ opcode: Opcode, _ payload: UnsafeRawBufferPointer, maskingKey: UInt32? = nil, into out: inout ByteBuffer
    ) {
        precondition(opcode.isControl && payload.count <= controlBytesMax, "a control frame of more than 125 bytes")
        append(opcode, maskingKey, payloadBytes: payload.count, into: &out) { $0.copyMemory(from: payload) }
    }

    /// Appends a close frame. nil: without a code, and then without a reason. The reason, UTF-8, is cut to 123 bytes at a character's border.
    package static func appendClose(
        code: UInt16?, reason: UnsafeRawBufferPointer, maskingKey: UInt32? = nil, into out: inout ByteBuffer
    ) {
        guard let code else { return append(.close, maskingKey, payloadBytes: 0, into: &out) { _ in } }
        let cut = bytesThatFit(reason, limit: controlBytesMax - 2)
        append(.close, maskingKey, payloadBytes: 2 + cut, into: &out) { payload in
            payload.storeBytes(of: code.bigEndian, as: UInt16.self)
            UnsafeMutableRawBufferPointer(rebasing: payload[2...]).copyMemory(from: UnsafeRawBufferPointer(rebasing: reason[..<cut]))
        }
    }

    private static func append(
        _ opcode: Opcode, _ maskingKey: UInt32?, payloadBytes: Int, into out: inout ByteBuffer,
        _ fill: (UnsafeMutableRawBufferPointer) -> Void
    ) {
        let headerBytes = maskingKey == nil ? 2 : 6
        let payload = out.reserve(headerBytes + payloadBytes) + headerBytes
        _ = writeHeader(before: payload, opcode, payloadBytes: payloadBytes, maskingKey: maskingKey)
        let place = UnsafeMutableRawBufferPointer(start: payload, count: payloadBytes)
        fill(place)
        if let maskingKey { Masking.apply(maskingKey, to: place) }
        out.advance(by: headerBytes + payloadBytes)
    }

    /// The most bytes, at most `limit`, that don't end inside a character.
    private static func bytesThatFit(_ text: UnsafeRawBufferPointer, limit: Int) -> Int {
        guard text.count > limit else { return text.count }
        var cut = limit
        while cut > 0 && text[cut] & 0xC0 == 0x80 { cut -= 1 }
        return cut
    }
}
