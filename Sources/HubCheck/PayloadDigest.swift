import HubBase
import HubWire

/// A number that stands for what a payload means: white space, escapes and ways to write a number don't count, since a journal may have been
/// written by another library than the one that talked. The order of fields does. FNV-1a, 64 bits: two payloads that differ by mistake are told apart.
enum PayloadDigest {
    /// nil: it isn't JSON. Cost: linear.
    static func of(_ value: WireValue, in bytes: UnsafeRawBufferPointer) -> UInt64? {
        var hash = Hash()
        return (try? add(value, bytes, &hash, depth: 0)).map { hash.state }
    }

    private struct Hash {
        var state: UInt64 = 0xCBF2_9CE4_8422_2325

        mutating func add(_ byte: UInt8) { state = (state ^ UInt64(byte)) &* 0x100_0000_01B3 }
        mutating func add(_ bytes: some Sequence<UInt8>) { for byte in bytes { add(byte) } }
    }

    private static func add(_ value: WireValue, _ bytes: UnsafeRawBufferPointer, _ hash: inout Hash, depth: Int) throws(WireError) {
        guard depth < JournalReader.depth else { throw WireError(.tooDeep, "the payload is nested too deeply") }
        hash.add(value.kind.rawValue)
        let text = value.range.bytes(in: bytes)
        switch value.kind {
        case .object:
            var fields = WireFields(bytes, range: value.range, format: .json, depthMax: JournalReader.depth)
            while let (key, field) = try fields.next() {
                try add(key, bytes, &hash, depth: depth + 1)
                try add(field, bytes, &hash, depth: depth + 1)
            }
            hash.add(0xFF)
        case .array:
            var elements = WireElements(bytes, range: value.range, format: .json, depthMax: JournalReader.depth)
            while let element = try elements.next() { try add(element, bytes, &hash, depth: depth + 1) }
            hash.add(0xFF)
        case .string:
            guard value.hasEscapes else { return hash.add(text + [0xFF]) }
            var plain = ByteBuffer(capacity: text.count)
            _ = JSONText.unescape(text, into: &plain, replacesLoneSurrogates: true)
            hash.add(plain.copyBytes() + [0xFF])
        case .number:
            let word = String(decoding: text, as: UTF8.self)
            if let whole = Int64(word) {
                hash.add("\(whole)".utf8)
            } else if let number = Double(word), number.isFinite {
                hash.add((Int64(exactly: number).map { "\($0)" } ?? "\(number)").utf8)
            } else {
                hash.add(text)
            }
        case .bool: hash.add(value.isTrue(in: bytes) ? 1 : 0)
        case .null: break
        case .binary: hash.add(text)
        }
    }
}
