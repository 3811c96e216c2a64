import HubBase

/// Which channels a line of rights speaks of: a channel's name, in which a `*` may stand for what isn't fixed.
///
/// At the end a `*` is any rest of at least one byte, whatever it holds. Between two colons, or before the first, it's one whole segment. Nowhere
/// else may it stand, so that a name is compared in one walk that never goes back: at most as many steps as the name has bytes.
package enum ChannelPattern {
    package static let star = UInt8(ascii: "*")
    private static let colon = UInt8(ascii: ":")

    /// 1 to 255 bytes of UTF-8 without control characters, each `*` where it may be.
    package static func isValid(_ pattern: UnsafeRawBufferPointer) -> Bool {
        guard (1...Name.lengthMax).contains(pattern.count), UTF8Check.isValidName(pattern) else { return false }
        return pattern.indices.allSatisfy { place in
            guard pattern[place] == star, place < pattern.count - 1 else { return true }
            return (place == 0 || pattern[place - 1] == colon) && pattern[place + 1] == colon
        }
    }

    /// `pattern` must be valid.
    package static func matches(_ pattern: UnsafeRawBufferPointer, _ name: UnsafeRawBufferPointer) -> Bool {
        var place = 0
        var index = 0
        while index < pattern.count {
            if pattern[index] == star {
                if index == pattern.count - 1 { return place < name.count }
                let start = place
                while place < name.count, name[place] != colon { place += 1 }
                guard place > start else { return false }
            } else {
                guard place < name.count, name[place] == pattern[index] else { return false }
                place += 1
            }
            index += 1
        }
        return place == name.count
    }
}
