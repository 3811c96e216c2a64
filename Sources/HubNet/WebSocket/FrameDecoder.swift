import HubBase

/// Finds one frame after another (RFC 6455 §5) in bytes in place: judges each header before its payload is there, unmasks the payload
/// where it lies, checks text as it comes. Allocates nothing; 32 bytes at most.
///
/// The same bytes give the same steps however they were cut into reads; a fault is only found earlier or later.
package struct FrameDecoder {
    private let role: WebSocketRole
    private let allowsCompression: Bool
    private var isOver = false
    /// The fragmented message that is under way.
    private var message: MessageKind?
    private var messageIsCompressed = false
    /// Over the message under way, the front frame's `ready` bytes among it. Between messages it's complete, and so as new.
    private var text = UTF8Check()
    /// Frames and payload bytes of the message under way, the front frame not among them.
    private var fragments: UInt32 = 0
    private var collected: UInt32 = 0
    /// Payload bytes of the front frame that earlier calls have unmasked and checked.
    private var ready: UInt32 = 0

    /// - Parameter allowsCompression: permessage-deflate was agreed: RSV1 may be set on a message's first frame (RFC 7692 §6).
    package init(role: WebSocketRole, allowsCompression: Bool = false) {
        self.role = role
        self.allowsCompression = allowsCompression
    }

    /// A fragmented message is under way: what was collected of it has to be kept.
    package var isInMessage: Bool { message != nil }

    /// `bytes`: all that came and wasn't consumed. After `needMore` the same bytes (the payload's first part is unmasked by then) and more;
    /// they may have been moved.
    package mutating func next(_ bytes: UnsafeMutableRawBufferPointer, limits: FrameLimits) -> FrameStep {
        if isOver { return .needMore(0) }
        guard let base = bytes.baseAddress, bytes.count > 0 else { return .needMore(2) }
        let first: FrameHeader.First
        switch FrameHeader.readFirst(base.load(as: UInt8.self)) {
        case .first(let read): first = read
        case .fault(let reason): return fail(1002, reason)
        }
        if !first.opcode.isControl {
            if let fault = faultInSequence(first) { return fail(1002, fault) }
            if first.opcode == .continuation && fragments >= limits.fragments { return fail(1008, "too many fragments in one message") }
        }
        let payloadBytes: UInt64
        let headerBytes: Int
        let isMasked = role == .server
        switch FrameHeader.readLength(base, count: bytes.count, isControl: first.opcode.isControl, isMasked: isMasked) {
        case .length(let length, let header):
            payloadBytes = length
            headerBytes = header
        case .needMore(let count): return .needMore(count)
        case .fault(let reason): return fail(1002, reason)
        }
        if first.opcode.isControl {
            return nextControl(bytes, first.opcode, ByteRange(offset: headerBytes, count: Int(payloadBytes)))
        }
        let isCompressed = first.opcode == .continuation ? messageIsCompressed : first.isCompressed
        // Neither sum can overflow: a length is below 2^63, what was collected below 2^32. The limits may have been lowered meanwhile.
        let limit = isCompressed ? limits.compressedBytes : limits.messageBytes
        if UInt64(collected) &+ payloadBytes > UInt64(limit) { return fail(1009, "the message is too big") }
        return nextData(bytes, first, isCompressed, ByteRange(offset: headerBytes, count: Int(payloadBytes)))
    }

    /// What a data frame's first byte may not say at this point of the stream (§5.4, RFC 7692 §6.1).
    @inline(__always)
    private func faultInSequence(_ first: FrameHeader.First) -> StaticString? {
        if first.opcode == .continuation {
            if message == nil { return "a continuation without a message" }
            if first.isCompressed { return "RSV1 is set on a continuation" }
        } else {
            if message != nil { return "a new message inside a fragmented one" }
            if first.isCompressed && !allowsCompression { return "RSV1 is set, but no extension was agreed" }
        }
        return nil
    }

    @inline(__always)
    private mutating func nextData(
        _ bytes: UnsafeMutableRawBufferPointer, _ first: FrameHeader.First, _ isCompressed: Bool, _ range: ByteRange
    ) -> FrameStep {
        let kind = message ?? (first.opcode == .text ? .text : .binary)
        let isText = kind == .text && !isCompressed

        let headerBytes = Int(range.offset)
        let payloadBytes = Int(range.count)
        let arrived = min(max(bytes.count &- headerBytes, 0), payloadBytes)
        precondition(arrived >= Int(ready), "the front frame's bytes were dropped before they were consumed")
        if arrived > Int(ready) {
            let fresh = unmask(bytes, from: headerBytes &+ Int(ready), to: headerBytes &+ arrived, keyEnd: headerBytes)
            if isText && !text.consume(fresh) { return fail(1007, "the text isn't UTF-8") }
        }
        guard bytes.count >= headerBytes &+ payloadBytes else {
            ready = UInt32(truncatingIfNeeded: arrived)
            return .needMore(headerBytes &+ payloadBytes)
        }
        if isText && first.isFinal && !text.isComplete { return fail(1007, "the text ends inside a character") }
        ready = 0

        let consumed = headerBytes &+ payloadBytes
        if first.isFinal && message == nil { return .message(kind, payload: range, compressed: isCompressed, consumed: consumed) }
        let isFirst = message == nil
        if first.isFinal {
            message = nil
            fragments = 0
            collected = 0
        } else {
            message = kind
            messageIsCompressed = isCompressed
            // Both are bounded by the limits, which are below 2^31.
            fragments &+= 1
            collected &+= UInt32(truncatingIfNeeded: payloadBytes)
        }
        return .fragment(first: isFirst ? kind : nil, payload: range, isFinal: first.isFinal, compressed: isCompressed, consumed: consumed)
    }

    /// A control frame is at most 131 bytes: it's waited for as a whole. It may stand between a message's fragments.
    private mutating func nextControl(_ bytes: UnsafeMutableRawBufferPointer, _ opcode: Opcode, _ range: ByteRange) -> FrameStep {
        let consumed = Int(range.offset) + Int(range.count)
        guard bytes.count >= consumed else { return .needMore(consumed) }
        let payload = unmask(bytes, from: Int(range.offset), to: consumed, keyEnd: Int(range.offset))
        switch opcode {
        case .ping: return .ping(range, consumed: consumed)
        case .pong: return .pong(range, consumed: consumed)
        default:
            isOver = true
            return CloseFrame.judge(payload, at: range, consumed: consumed)
        }
    }

    /// Unmasks what lies between two offsets of the front. The key ends where the payload begins; a server's frames have none.
    @inline(__always)
    private func unmask(_ bytes: UnsafeMutableRawBufferPointer, from: Int, to: Int, keyEnd: Int) -> UnsafeRawBufferPointer {
        let part = UnsafeMutableRawBufferPointer(rebasing: bytes[from..<to])
        if role == .server {
            let key = UnsafeRawPointer(bytes.baseAddress.unsafelyUnwrapped).loadUnaligned(fromByteOffset: keyEnd &- 4, as: UInt32.self)
            Masking.apply(key, to: part, offset: from &- keyEnd)
        }
        return UnsafeRawBufferPointer(part)
    }

    private mutating func fail(_ code: UInt16, _ reason: StaticString) -> FrameStep {
        isOver = true
        return .failed(code: code, reason: reason)
    }
}
