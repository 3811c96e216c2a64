import HubBase

/// Why bytes aren't MessagePack, or aren't MessagePack that we take, and at which byte of the message.
struct MessagePackFault: Error, Equatable {
    enum Reason: UInt8 {
        case tooDeep, ended, count, object, array, key, utf8, ext, number, reserved, trailing
    }

    var reason: Reason
    var at: Int

    var error: WireError {
        let what: String
        switch reason {
        case .tooDeep: return WireError(.tooDeep, "the MessagePack is nested too deep at byte \(at)")
        case .ext: return WireError(.malformed, "MessagePack's extension types (timestamps too) have no meaning here, at byte \(at)")
        case .number: return WireError(.malformed, "a number must be finite, at byte \(at)")
        case .key: return WireError(.malformed, "a field name must be a string, at byte \(at)")
        case .ended: what = "the bytes end too early"
        case .count: what = "more elements are announced than there are bytes"
        case .object: what = "expected a map"
        case .array: what = "expected an array"
        case .utf8: what = "a string isn't UTF-8"
        case .reserved: what = "c1 is never used"
        case .trailing: what = "bytes after the end of the value"
        }
        return WireError(.malformed, "not valid MessagePack: \(what) at byte \(at)")
    }
}

/// A value found by a scan. Of strings and binaries `range` is the content, of all else it's the whole token.
struct MessagePackValue {
    var kind: WireKind
    var range: ByteRange
    var token: ByteRange
}

/// What stands in a value's first bytes.
struct MessagePackHead {
    enum Number: UInt8 { case unsigned, negative, double }

    var kind: WireKind
    /// Bytes of a string or binary that follow, elements of an array, fields of a map. Nothing of it has been looked at.
    var count = 0
    /// A number's or a bool's value.
    var bits: UInt64 = 0
    var number = Number.unsigned
}

/// Reads MessagePack (the specification of 2017-08-09) in place: checks all of it, decodes nothing, allocates nothing.
///
/// What has no meaning in JSON isn't taken: extension types, numbers that aren't finite, names of fields that aren't strings. Strings must
/// be UTF-8. A count is believed only as far as there are bytes for it. Nesting is recursion, at most 64 deep whatever is asked for.
/// All arithmetic is on indexes that are at most `end`, which is below 2^32.
struct MessagePackCursor {
    let base: UnsafeRawPointer
    let end: Int
    let depthMax: Int
    var index: Int
    /// Whether names of fields may be whole numbers from 0 as well: in the short form's envelopes, never in payloads.
    var takesNumbers = false

    /// `range` is clamped to the message; an absent one reads as no bytes.
    init(_ message: UnsafeRawBufferPointer, range: ByteRange, depthMax: Int) {
        let isEmpty = !range.isPresent || message.baseAddress == nil
        // Never read through: `end` is 0 then.
        base = message.baseAddress ?? UnsafeRawPointer(bitPattern: 8)!
        index = isEmpty ? 0 : min(Int(range.offset), message.count)
        end = isEmpty ? 0 : min(Int(range.offset) + Int(range.count), message.count)
        self.depthMax = min(depthMax, JSONCursor.depthLimit)
    }

    /// The bytes of a value that this cursor found.
    @inline(__always) func bytes(_ range: ByteRange) -> UnsafeRawBufferPointer {
        UnsafeRawBufferPointer(start: base + Int(range.offset), count: Int(range.count))
    }

    /// Of the value, or part of one, that begins at `place`.
    func fault(_ reason: MessagePackFault.Reason, at place: Int) -> MessagePackFault { MessagePackFault(reason: reason, at: place) }

    // MARK: Values

    /// A value with all that is in it; `depth` is how many maps and arrays are open around it.
    @inline(__always) mutating func value(at depth: Int) throws(MessagePackFault) -> MessagePackValue {
        let start = index
        let head = try head()
        var range = ByteRange.absent
        switch head.kind {
        case .string: range = try text(head.count, from: start)
        case .binary: range = try content(head.count)
        case .object, .array: try elements(of: head, from: start, below: depth)
        case .number, .bool, .null: break
        }
        let token = ByteRange(offset: start, count: index &- start)
        return MessagePackValue(kind: head.kind, range: range.isPresent ? range : token, token: token)
    }

    /// A field's name.
    @inline(__always) mutating func key() throws(MessagePackFault) -> MessagePackValue {
        let start = index
        let head = try head()
        guard head.kind == .string else { return try numberedKey(head, from: start) }
        let range = try text(head.count, from: start)
        return MessagePackValue(kind: .string, range: range, token: ByteRange(offset: start, count: index &- start))
    }

    /// The number that comes next, when it's one of those that are their own byte.
    @inline(__always) mutating func smallNumber() -> UInt64? {
        guard index < end else { return nil }
        let byte = base.load(fromByteOffset: index, as: UInt8.self)
        guard byte < 0x80 else { return nil }
        index &+= 1
        return UInt64(byte)
    }

    private func numberedKey(_ head: MessagePackHead, from start: Int) throws(MessagePackFault) -> MessagePackValue {
        guard takesNumbers, head.kind == .number, head.number == .unsigned else { throw fault(.key, at: start) }
        let token = ByteRange(offset: start, count: index &- start)
        return MessagePackValue(kind: .number, range: token, token: token)
    }

    private mutating func elements(of head: MessagePackHead, from start: Int, below depth: Int) throws(MessagePackFault) {
        try check(head, from: start, below: depth)
        for _ in 0..<head.count {
            if head.kind == .object { _ = try key() }
            _ = try value(at: depth &+ 1)
        }
    }

    /// Whether the container whose head was just read may stand here. An element has at least one byte, a field two.
    @inline(__always) func check(_ head: MessagePackHead, from start: Int, below depth: Int) throws(MessagePackFault) {
        guard depth < depthMax else { throw fault(.tooDeep, at: start) }
        guard head.count <= (end &- index) &>> (head.kind == .object ? 1 : 0) else { throw fault(.count, at: start) }
    }

    @inline(__always) mutating func content(_ count: Int) throws(MessagePackFault) -> ByteRange {
        guard count <= end &- index else { throw fault(.ended, at: end) }
        defer { index &+= count }
        return ByteRange(offset: index, count: count)
    }

    @inline(__always) mutating func text(_ count: Int, from start: Int) throws(MessagePackFault) -> ByteRange {
        let range = try content(count)
        guard isASCII(range) || UTF8Check.isValid(bytes(range)) else { throw fault(.utf8, at: start) }
        return range
    }

    /// Names of fields and most values: looked at by words, the last one overlapping, before the full check is asked.
    @inline(__always) private func isASCII(_ range: ByteRange) -> Bool {
        let start = base + Int(range.offset)
        let count = Int(range.count)
        var bits: UInt64 = 0
        if count >= 8 {
            var place = 0
            while place &+ 8 < count {
                bits |= start.loadUnaligned(fromByteOffset: place, as: UInt64.self)
                place &+= 8
            }
            bits |= start.loadUnaligned(fromByteOffset: count &- 8, as: UInt64.self)
        } else if count >= 4 {
            bits = UInt64(start.loadUnaligned(as: UInt32.self)) | UInt64(start.loadUnaligned(fromByteOffset: count &- 4, as: UInt32.self))
        } else if count > 0 {
            bits = UInt64(start.load(as: UInt8.self)) | UInt64(start.load(fromByteOffset: count &>> 1, as: UInt8.self))
            bits |= UInt64(start.load(fromByteOffset: count &- 1, as: UInt8.self))
        }
        return bits & 0x8080_8080_8080_8080 == 0
    }

    // MARK: Heads

    /// Reads what stands before a string's, binary's, array's or map's content, or a whole value of another kind.
    @inline(__always) mutating func head() throws(MessagePackFault) -> MessagePackHead {
        let start = index
        guard start < end else { throw fault(.ended, at: end) }
        let first = base.load(fromByteOffset: start, as: UInt8.self)
        index &+= 1
        switch first {
        case 0xA0...0xBF: return MessagePackHead(kind: .string, count: Int(first & 31))
        case 0x00...0x7F: return MessagePackHead(kind: .number, bits: UInt64(first))
        case 0x80...0x8F: return MessagePackHead(kind: .object, count: Int(first & 15))
        case 0x90...0x9F: return MessagePackHead(kind: .array, count: Int(first & 15))
        case 0xE0...0xFF: return MessagePackHead(kind: .number, bits: UInt64(bitPattern: Int64(Int8(bitPattern: first))), number: .negative)
        case 0xD9: return MessagePackHead(kind: .string, count: Int(try big(1)))
        case 0xC0: return MessagePackHead(kind: .null)
        case 0xC2, 0xC3: return MessagePackHead(kind: .bool, bits: UInt64(first & 1))
        default: return try longHead(first, from: start)
        }
    }

    /// A head with a number behind its first byte.
    private mutating func longHead(_ first: UInt8, from start: Int) throws(MessagePackFault) -> MessagePackHead {
        switch first {
        case 0xDA: return MessagePackHead(kind: .string, count: Int(try big(2)))
        case 0xDB: return MessagePackHead(kind: .string, count: Int(try big(4)))
        case 0xC4: return MessagePackHead(kind: .binary, count: Int(try big(1)))
        case 0xC5: return MessagePackHead(kind: .binary, count: Int(try big(2)))
        case 0xC6: return MessagePackHead(kind: .binary, count: Int(try big(4)))
        case 0xDC: return MessagePackHead(kind: .array, count: Int(try big(2)))
        case 0xDD: return MessagePackHead(kind: .array, count: Int(try big(4)))
        case 0xDE: return MessagePackHead(kind: .object, count: Int(try big(2)))
        case 0xDF: return MessagePackHead(kind: .object, count: Int(try big(4)))
        case 0xCC...0xCF: return MessagePackHead(kind: .number, bits: try big(1 &<< Int(first & 3)))
        case 0xD0...0xD3:
            let bytes = 1 &<< Int(first & 3)
            let unused = 64 &- UInt64(bytes &* 8)
            let value = Int64(bitPattern: try big(bytes) &<< unused) &>> Int64(unused)
            return MessagePackHead(kind: .number, bits: UInt64(bitPattern: value), number: value < 0 ? .negative : .unsigned)
        case 0xCA:
            let value = Float(bitPattern: UInt32(truncatingIfNeeded: try big(4)))
            return try double(Double(value), from: start)
        case 0xCB: return try double(Double(bitPattern: try big(8)), from: start)
        case 0xC7...0xC9, 0xD4...0xD8: throw fault(.ext, at: start)
        default: throw fault(.reserved, at: start)
        }
    }

    private func double(_ value: Double, from start: Int) throws(MessagePackFault) -> MessagePackHead {
        guard value.isFinite else { throw fault(.number, at: start) }
        return MessagePackHead(kind: .number, bits: value.bitPattern, number: .double)
    }

    /// The next 1, 2, 4 or 8 bytes as a number, the highest first.
    @inline(__always) private mutating func big(_ count: Int) throws(MessagePackFault) -> UInt64 {
        guard count <= end &- index else { throw fault(.ended, at: end) }
        var value: UInt64 = 0
        for place in 0..<count { value = value &<< 8 | UInt64(base.load(fromByteOffset: index &+ place, as: UInt8.self)) }
        index &+= count
        return value
    }
}
