/// A channel name, a user id, a device or a message id: validated UTF-8 bytes, compared as bytes.
///
/// Swift's `String` compares by canonical equivalence, Redis and every other language by bytes; a name that went through
/// `String` would be one name here and two there. So names never become a `String` but for people to read.
package struct Name: Hashable, Sendable {
    package let bytes: [UInt8]

    /// The longest channel name and user id, in bytes.
    package static let lengthMax = 255

    /// nil when the bytes are empty, longer than `limit`, not UTF-8, or hold a control character (U+0000–U+001F, U+007F, U+0080–U+009F).
    package init?(validating candidate: UnsafeRawBufferPointer, limit: Int = Name.lengthMax) {
        guard candidate.count >= 1, candidate.count <= limit, UTF8Check.isValidName(candidate) else { return nil }
        self.bytes = [UInt8](candidate)
    }

    package init?(validating candidate: [UInt8], limit: Int = Name.lengthMax) {
        guard let name = candidate.withUnsafeBytes({ Name(validating: $0, limit: limit) }) else { return nil }
        self = name
    }

    package init?(validating candidate: String, limit: Int = Name.lengthMax) {
        self.init(validating: [UInt8](candidate.utf8), limit: limit)
    }

    /// For bytes that were validated before (read back from our own tables or from Redis).
    package init(trusted bytes: [UInt8]) { self.bytes = bytes }

    /// The empty name: "nobody", "no device". Never valid on the wire.
    package static let empty = Name(trusted: [])

    package var isEmpty: Bool { bytes.isEmpty }

    /// What stands before the first `:`, or the whole name: where the channel's options come from.
    package var namespace: ArraySlice<UInt8> {
        bytes.prefix { $0 != UInt8(ascii: ":") }
    }
}

extension Name {
    /// Byte by byte; names that share their bytes are equal without a look at them.
    package static func == (left: Name, right: Name) -> Bool {
        left.bytes.withUnsafeBytes { one in
            right.bytes.withUnsafeBytes { other in
                guard one.count == other.count, let base = one.baseAddress, let otherBase = other.baseAddress else {
                    return one.count == other.count
                }
                return base == otherBase || equalBytes(base, otherBase, one.count)
            }
        }
    }

    /// All bytes at once: element by element, as an array hashes itself, costs three times that.
    package func hash(into hasher: inout Hasher) {
        bytes.withUnsafeBytes { hasher.combine(bytes: $0) }
        hasher.combine(UInt8(0xFF))
    }
}

extension Name: CustomStringConvertible {
    package var description: String { String(decoding: bytes, as: UTF8.self) }
}

extension Name: ExpressibleByStringLiteral {
    package init(stringLiteral value: StaticString) {
        self.bytes = [UInt8](UnsafeRawBufferPointer(start: value.utf8Start, count: value.utf8CodeUnitCount))
    }
}
