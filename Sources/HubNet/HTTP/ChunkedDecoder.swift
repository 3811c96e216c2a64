import HubBase

/// Takes a chunked body apart (RFC 9112 §7.1), incremental: framing is consumed as it comes, so nothing is scanned twice. The shell appends
/// each `data` to its body and drops `consumed` bytes. Size lines, extensions and trailers are as strict as heads: whatever two readers could
/// take for different ends of a chunk is refused.
package struct ChunkedDecoder {
    package enum Step {
        /// Drop `consumed` bytes (framing that is done with) and come again with more.
        case needMore(consumed: Int)
        /// Body bytes, then drop `consumed`. Come again at once: there may be more.
        case data(ByteRange, consumed: Int)
        /// The body is complete; trailer fields were checked and dropped.
        case end(consumed: Int)
        case refused(HTTPRefusal)
    }

    /// What the next byte is a part of.
    private enum Phase: UInt8 {
        case size, blankAfterSize, `extension`, sizeLF
        case data, dataCR, dataLF
        case trailerStart, trailerName, trailerValue, trailerLF, lastLF
        case over
    }

    private var phase = Phase.size
    private var sizeDigits: UInt8 = 0
    private var trailers: UInt16 = 0
    /// Bytes of the trailer section so far.
    private var trailerBytes: UInt32 = 0
    /// Bytes of size lines so far.
    private var framingBytes: UInt64 = 0
    /// The chunk's size as far as it's read, then what is left of it.
    private var left: UInt64 = 0
    /// Body bytes that were announced so far.
    private var total: UInt64 = 0

    package init() {}

    /// `bytes`: all that came and wasn't consumed. The sum of all `data` stays within `limits.bodyBytes`: a chunk that would pass it is
    /// refused with 413 from its size alone. Cost: one step a byte of framing; data isn't looked at.
    package mutating func decode(_ bytes: UnsafeRawBufferPointer, limits: borrowing NetLimits) -> Step {
        let limit = UInt64(clamping: limits.bodyBytes)
        var index = 0
        while index < bytes.count {
            if phase == .data {
                let taken = min(left, UInt64(bytes.count - index))
                let range = ByteRange(offset: index, count: Int(taken))
                left -= taken
                if left == 0 { phase = .dataCR }
                return .data(range, consumed: index + Int(taken))
            }
            if phase == .over { return .end(consumed: index) }
            if let refusal = take(bytes[index], bodyBytes: limit, limits) {
                phase = .over
                return .refused(refusal)
            }
            index += 1
            if phase == .over { return .end(consumed: index) }
        }
        return .needMore(consumed: index)
    }

    /// One byte of framing.
    private mutating func take(_ byte: UInt8, bodyBytes: UInt64, _ limits: borrowing NetLimits) -> HTTPRefusal? {
        switch phase {
        case .size, .blankAfterSize, .extension, .sizeLF, .dataCR, .dataLF:
            // The smallest chunk has five bytes of framing for one of data; extensions get some room on top.
            framingBytes += 1
            if framingBytes > 4096 + 8 * total { return HTTPRefusal(status: 400, message: "too much chunk framing for so little body") }
            return takeOfChunk(byte, bodyBytes)
        case .trailerStart, .trailerName, .trailerValue, .trailerLF, .lastLF:
            trailerBytes += 1
            if trailerBytes > UInt32(clamping: limits.headBytes) { return HTTPRefusal(status: 431, message: "the trailer is too long") }
            return takeOfTrailer(byte, headers: limits.headers)
        case .data, .over: return nil
        }
    }

    private mutating func takeOfChunk(_ byte: UInt8, _ bodyBytes: UInt64) -> HTTPRefusal? {
        switch phase {
        case .size:
            if let digit = ASCII.hexValue(byte) {
                // 16 digits fit into 64 bits.
                guard sizeDigits < 16 else { return HTTPRefusal(status: 400, message: "a chunk size of more than 16 digits") }
                sizeDigits += 1
                left = left << 4 | UInt64(digit)
                if left > bodyBytes - min(total, bodyBytes) { return HTTPRefusal(status: 413, message: "the body is too long") }
                return nil
            }
            guard sizeDigits > 0 else { return HTTPRefusal(status: 400, message: "a chunk without a size") }
            return takeAfterSize(byte)
        case .blankAfterSize:
            // Blanks may only stand in front of an extension (§7.1.1).
            if byte == 0x0D { return HTTPRefusal(status: 400, message: "white space after a chunk size") }
            return takeAfterSize(byte)
        case .extension:
            if byte == 0x0D {
                phase = .sizeLF
            } else if byte != 0x09 && (byte < 0x20 || byte == 0x7F) {
                return HTTPRefusal(status: 400, message: "a control character in a chunk extension")
            }
        case .sizeLF:
            guard byte == 0x0A else { return HTTPRefusal(status: 400, message: "a chunk size line without its LF") }
            total += left
            phase = left == 0 ? .trailerStart : .data
        case .dataCR:
            guard byte == 0x0D else { return HTTPRefusal(status: 400, message: "a chunk longer than its size") }
            phase = .dataLF
        default:
            guard byte == 0x0A else { return HTTPRefusal(status: 400, message: "a chunk without its LF") }
            phase = .size
            sizeDigits = 0
            left = 0
        }
        return nil
    }

    private mutating func takeAfterSize(_ byte: UInt8) -> HTTPRefusal? {
        switch byte {
        case 0x0D: phase = .sizeLF
        case 0x20, 0x09: phase = .blankAfterSize
        case UInt8(ascii: ";"): phase = .extension
        default: return HTTPRefusal(status: 400, message: "a chunk size that isn't a hex number")
        }
        return nil
    }

    private mutating func takeOfTrailer(_ byte: UInt8, headers: Int) -> HTTPRefusal? {
        switch phase {
        case .trailerStart:
            if byte == 0x0D {
                phase = .lastLF
            } else if ASCII.isToken(byte) {
                phase = .trailerName
            } else {
                return HTTPRefusal(status: 400, message: "a malformed trailer")
            }
        case .trailerName:
            if byte == UInt8(ascii: ":") {
                phase = .trailerValue
            } else if !ASCII.isToken(byte) {
                return HTTPRefusal(status: 400, message: "a malformed trailer")
            }
        case .trailerValue:
            if byte == 0x0D {
                phase = .trailerLF
            } else if byte != 0x09 && (byte < 0x20 || byte == 0x7F) {
                return HTTPRefusal(status: 400, message: "a control character in the trailer")
            }
        case .trailerLF:
            guard byte == 0x0A else { return HTTPRefusal(status: 400, message: "a trailer line without its LF") }
            trailers &+= 1
            if Int(trailers) > headers || trailers == UInt16.max { return HTTPRefusal(status: 431, message: "too many trailers") }
            phase = .trailerStart
        default:
            guard byte == 0x0A else { return HTTPRefusal(status: 400, message: "the body's last line has no LF") }
            phase = .over
        }
        return nil
    }
}
