import HubBase

/// Why a text isn't JSON (RFC 8259), or isn't JSON that we take, and at which byte of the message.
struct JSONFault: Error, Equatable {
    enum Reason: UInt8 {
        case tooDeep, ended, value, object, array, key, colon, separator, control, escape, number, trailing
    }

    var reason: Reason
    var at: Int

    var error: WireError {
        let what: String
        switch reason {
        case .tooDeep: return WireError(.tooDeep, "the JSON is nested too deep at byte \(at)")
        case .ended: what = "the text ends too early"
        case .value: what = "expected a value"
        case .object: what = "expected an object"
        case .array: what = "expected an array"
        case .key: what = "expected a field name in quotes"
        case .colon: what = "expected a colon"
        case .separator: what = "expected a comma or the end of the object or array"
        case .control: what = "a control character in a string must be escaped"
        case .escape: what = "bad escape in a string"
        case .number: what = "bad number"
        case .trailing: what = "text after the end of the value"
        }
        return WireError(.malformed, "not valid JSON: \(what) at byte \(at)")
    }
}

/// Reads JSON text (RFC 8259) in place: checks all of it, decodes nothing, allocates nothing, never recurses.
///
/// Nesting is a counter and one bit a level (object or array), so the depth is at most 64 whatever is asked for.
/// Every call leaves `index` behind what it read; all arithmetic is on indexes that are at most `end`.
struct JSONCursor {
    static let depthLimit = 64

    let base: UnsafeRawPointer
    let end: Int
    let depthMax: Int
    var index: Int

    /// `range` is clamped to the message; an absent one reads as empty text.
    init(_ message: UnsafeRawBufferPointer, range: ByteRange, depthMax: Int) {
        let isEmpty = !range.isPresent || message.baseAddress == nil
        // Never read through: `end` is 0 then.
        base = message.baseAddress ?? UnsafeRawPointer(bitPattern: 8)!
        index = isEmpty ? 0 : min(Int(range.offset), message.count)
        end = isEmpty ? 0 : min(Int(range.offset) + Int(range.count), message.count)
        self.depthMax = min(depthMax, JSONCursor.depthLimit)
    }

    @inline(__always) func byte(_ place: Int) -> UInt8 { base.load(fromByteOffset: place, as: UInt8.self) }

    /// The bytes of a value that this cursor found.
    @inline(__always) func bytes(_ range: ByteRange) -> UnsafeRawBufferPointer {
        UnsafeRawBufferPointer(start: base + Int(range.offset), count: Int(range.count))
    }

    func fault(_ reason: JSONFault.Reason) -> JSONFault {
        JSONFault(reason: index < end || reason == .tooDeep || reason == .trailing ? reason : .ended, at: index)
    }

    @inline(__always) mutating func skipSpace() {
        while index < end {
            let next = byte(index)
            if next > 0x20 { return }
            guard next == 0x20 || next == 0x0A || next == 0x0D || next == 0x09 else { return }
            index &+= 1
        }
    }

    /// Takes `wanted` or throws `reason`.
    @inline(__always) mutating func expect(_ wanted: UInt8, else reason: JSONFault.Reason) throws(JSONFault) {
        guard index < end, byte(index) == wanted else { throw fault(reason) }
        index &+= 1
    }

    /// A field's name and its colon; returns the name without its quotes.
    @inline(__always) mutating func key() throws(JSONFault) -> JSONValue {
        guard index < end, byte(index) == UInt8(ascii: "\"") else { throw fault(.key) }
        let name = try string()
        skipSpace()
        try expect(UInt8(ascii: ":"), else: .colon)
        return name
    }

    /// A string; `index` stands on its opening quote. RFC 8259 §7.
    @inline(__always) mutating func string() throws(JSONFault) -> JSONValue {
        index &+= 1
        let start = index
        var hasEscapes = false
        while true {
            skipPlain()
            guard index < end else { throw fault(.ended) }
            let next = byte(index)
            if next == UInt8(ascii: "\"") {
                let range = ByteRange(offset: start, count: index &- start)
                index &+= 1
                return JSONValue(kind: .string, range: range, hasEscapes: hasEscapes)
            }
            guard next == UInt8(ascii: "\\") else { throw fault(.control) }
            hasEscapes = true
            try escape()
        }
    }

    /// Moves to the next quote, backslash or control character, or to the end.
    @inline(__always) private mutating func skipPlain() {
        while end &- index >= 8 {
            let hits = specials(index)
            if hits != 0 {
                index &+= hits.trailingZeroBitCount &>> 3
                return
            }
            index &+= 8
        }
        while index < end {
            let next = byte(index)
            if next == UInt8(ascii: "\"") || next == UInt8(ascii: "\\") || next < 0x20 { return }
            index &+= 1
        }
    }

    /// Of the eight bytes at `place`, the lowest set bit is in the first that is a quote, a backslash or a control character; 0 for none.
    /// (The usual "is there a zero byte" trick three times; it's exact for the lowest hit only.)
    @inline(__always) private func specials(_ place: Int) -> UInt64 {
        let ones: UInt64 = 0x0101_0101_0101_0101
        let word = UInt64(littleEndian: base.loadUnaligned(fromByteOffset: place, as: UInt64.self))
        let quote = word ^ (ones &* 0x22)
        let backslash = word ^ (ones &* 0x5C)
        return ((quote &- ones) & ~quote | (backslash &- ones) & ~backslash | (word &- ones &* 0x20) & ~word) & (ones &* 0x80)
    }

    private mutating func escape() throws(JSONFault) {
        index &+= 1
        guard index < end else { throw fault(.ended) }
        switch byte(index) {
        case UInt8(ascii: "\""), UInt8(ascii: "\\"), UInt8(ascii: "/"), UInt8(ascii: "b"), UInt8(ascii: "f"), UInt8(ascii: "n"),
            UInt8(ascii: "r"), UInt8(ascii: "t"):
            index &+= 1
        case UInt8(ascii: "u"):
            index &+= 1
            for _ in 0..<4 {
                guard index < end, JSONText.hexDigit(byte(index)) != nil else { throw fault(.escape) }
                index &+= 1
            }
        default: throw fault(.escape)
        }
    }

    @inline(__always) private mutating func digits() throws(JSONFault) {
        let start = index
        while index < end, byte(index) &- 48 <= 9 { index &+= 1 }
        guard index > start else { throw fault(.number) }
    }

    /// RFC 8259 §6: no plus, no leading zero, no bare point.
    private mutating func number() throws(JSONFault) {
        if byte(index) == UInt8(ascii: "-") { index &+= 1 }
        if index < end, byte(index) == UInt8(ascii: "0") {
            index &+= 1
        } else {
            try digits()
        }
        if index < end, byte(index) == UInt8(ascii: ".") {
            index &+= 1
            try digits()
        }
        if index < end, byte(index) | 0x20 == UInt8(ascii: "e") {
            index &+= 1
            if index < end, byte(index) == UInt8(ascii: "+") || byte(index) == UInt8(ascii: "-") { index &+= 1 }
            try digits()
        }
    }

    @inline(__always) private mutating func literal(_ word: StaticString) throws(JSONFault) {
        for place in 0..<word.utf8CodeUnitCount {
            guard index < end, byte(index) == word.utf8Start[place] else { throw fault(.value) }
            index &+= 1
        }
    }

    /// A value; `index` stands on its first byte, `depth` is how many objects and arrays are open around it.
    @inline(__always) mutating func value(at depth: Int) throws(JSONFault) -> JSONValue {
        guard index < end else { throw fault(.ended) }
        let start = index
        let kind: WireKind
        switch byte(index) {
        case UInt8(ascii: "\""): return try string()
        case UInt8(ascii: "{"):
            kind = .object
            try container(below: depth)
        case UInt8(ascii: "["):
            kind = .array
            try container(below: depth)
        default: kind = try scalar()
        }
        return JSONValue(kind: kind, range: ByteRange(offset: start, count: index &- start), hasEscapes: false)
    }

    /// A number or a literal.
    mutating func scalar() throws(JSONFault) -> WireKind {
        switch byte(index) {
        case UInt8(ascii: "t"):
            try literal("true")
            return .bool
        case UInt8(ascii: "f"):
            try literal("false")
            return .bool
        case UInt8(ascii: "n"):
            try literal("null")
            return .null
        case UInt8(ascii: "-"), UInt8(ascii: "0")...UInt8(ascii: "9"):
            try number()
            return .number
        default: throw fault(.value)
        }
    }

    /// A whole object or array with all in it; `index` stands on its bracket.
    private mutating func container(below outer: Int) throws(JSONFault) {
        var depth = outer
        // The lowest bit tells of the innermost: 1 for an object.
        var kinds: UInt64 = 0
        values: while true {
            guard index < end else { throw fault(.ended) }
            let first = byte(index)
            if first == UInt8(ascii: "\"") {
                _ = try string()
            } else if first == UInt8(ascii: "{") || first == UInt8(ascii: "[") {
                guard depth < depthMax else { throw fault(.tooDeep) }
                index &+= 1
                skipSpace()
                guard index < end else { throw fault(.ended) }
                // In ASCII the closing bracket is the opening one + 2.
                if byte(index) == first &+ 2 {
                    index &+= 1
                } else {
                    depth &+= 1
                    kinds = kinds &<< 1
                    if first == UInt8(ascii: "{") {
                        kinds |= 1
                        _ = try key()
                        skipSpace()
                    }
                    continue values
                }
            } else {
                _ = try scalar()
            }
            // A value has ended: close what closes here, then go on behind a comma.
            while true {
                if depth == outer { return }
                skipSpace()
                guard index < end else { throw fault(.ended) }
                let next = byte(index)
                if next == UInt8(ascii: ",") {
                    index &+= 1
                    skipSpace()
                    if kinds & 1 == 1 {
                        _ = try key()
                        skipSpace()
                    }
                    continue values
                }
                guard next == (kinds & 1 == 1 ? UInt8(ascii: "}") : UInt8(ascii: "]")) else { throw fault(.separator) }
                index &+= 1
                depth &-= 1
                kinds = kinds &>> 1
            }
        }
    }
}
