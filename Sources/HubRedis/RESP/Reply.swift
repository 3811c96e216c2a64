import HubBase

/// One reply, flat: its elements in reading order, each with its depth, and the bytes of all strings one after another. Kept and refilled
/// for each reply, so that a warm one costs no allocation, however many elements it has.
///
/// Depth 0 is the reply itself; the elements of an array follow it one level deeper.
package struct Reply: ~Copyable {
    package enum Kind: UInt8 { case string, array, integer, null, status, error }

    package struct Item {
        package var kind: Kind
        package var depth: UInt8
        /// Where a string's bytes start.
        package var offset: UInt32
        /// A string's length, an array's count of elements, an integer's value.
        package var value: Int64
    }

    package var items: [Item] = []
    package var bytes = ByteBuffer(capacity: 4096)

    package mutating func removeAll() {
        items.removeAll(keepingCapacity: true)
        bytes.removeAll()
        bytes.trim(above: 1 << 20)
    }

    package var count: Int { items.count }
    package func kind(_ index: Int) -> Kind? { index < items.count ? items[index].kind : nil }

    /// The bytes of a string, status or error; nil for everything else and past the end. Valid until the next reply.
    package func string(_ index: Int) -> UnsafeRawBufferPointer? {
        guard index < items.count else { return nil }
        let item = items[index]
        switch item.kind {
        case .string, .status, .error:
            return UnsafeRawBufferPointer(rebasing: bytes.bytes[Int(item.offset)..<Int(item.offset) + Int(item.value)])
        case .array, .integer, .null: return nil
        }
    }

    package func integer(_ index: Int) -> Int64? {
        guard index < items.count, items[index].kind == .integer else { return nil }
        return items[index].value
    }

    /// How many elements the array at `index` has.
    package func elements(_ index: Int) -> Int? {
        guard index < items.count, items[index].kind == .array else { return nil }
        return Int(items[index].value)
    }

    /// The index behind the element at `index` and all that is within it.
    package func end(of index: Int) -> Int {
        guard index < items.count else { return items.count }
        var next = index + 1
        while next < items.count, items[next].depth > items[index].depth { next += 1 }
        return next
    }

    package var isError: Bool { kind(0) == .error }

    /// The text of an error reply, for people and for `RedisFault`.
    package var errorText: String {
        guard isError, let text = string(0) else { return "" }
        return String(decoding: text.prefix(200), as: UTF8.self)
    }
}

/// Bytes as numbers and the like, without trapping and without `String`.
extension UnsafeRawBufferPointer {
    /// Decimal digits alone, below 2^63.
    package var decimal: UInt64? {
        guard count >= 1, count <= 19 else { return nil }
        var value: UInt64 = 0
        for byte in self {
            guard byte >= 48, byte <= 57 else { return nil }
            value = value &* 10 &+ UInt64(byte &- 48)
        }
        return value < 1 << 63 ? value : nil
    }

    /// An offset as a channel's record has it: no leading zeros, 15 digits at most (form.lua).
    package var offsetOfRecord: UInt64? {
        guard count < 16, count == 1 || self.first != 48 else { return nil }
        return decimal
    }

    package func equals(_ text: StaticString) -> Bool {
        count == text.utf8CodeUnitCount && elementsEqual(UnsafeRawBufferPointer(start: text.utf8Start, count: text.utf8CodeUnitCount))
    }

    package func hasPrefix(_ text: StaticString) -> Bool {
        count >= text.utf8CodeUnitCount && UnsafeRawBufferPointer(rebasing: self[..<text.utf8CodeUnitCount]).equals(text)
    }

    /// Cost: a comparison at every place; for error texts.
    package func contains(_ text: StaticString) -> Bool {
        guard count >= text.utf8CodeUnitCount else { return false }
        return (0...(count - text.utf8CodeUnitCount)).contains { UnsafeRawBufferPointer(rebasing: self[$0...]).hasPrefix(text) }
    }

    /// Splits off what stands before the first `separator`; nil when there's none within `limit` bytes.
    package mutating func take(until separator: UInt8, limit: Int) -> UnsafeRawBufferPointer? {
        guard let place = prefix(limit + 1).firstIndex(of: separator) else { return nil }
        let taken = UnsafeRawBufferPointer(rebasing: self[..<place])
        self = UnsafeRawBufferPointer(rebasing: self[(place + 1)...])
        return taken
    }

    package mutating func take(count length: Int) -> UnsafeRawBufferPointer? {
        guard length >= 0, length <= count else { return nil }
        let taken = UnsafeRawBufferPointer(rebasing: self[..<length])
        self = UnsafeRawBufferPointer(rebasing: self[length...])
        return taken
    }
}
