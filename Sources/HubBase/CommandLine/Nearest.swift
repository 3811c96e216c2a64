/// Which of the known words a misspelt one was meant to be.
package enum Nearest {
    /// The known word with the smallest edit distance (insert, delete, replace, swap of neighbours), or nil when none is near: a third
    /// of the longer word's length at most. Case counts as an eighth of a difference. Cost: length × length for each known word; `word`
    /// is cut at 64 bytes.
    package static func to(_ word: String, in known: [String]) -> String? {
        let bytes = [UInt8](word.utf8.prefix(64))
        var best: (word: String, distance: Int)?
        for candidate in known {
            let other = [UInt8](candidate.utf8.prefix(64))
            let distance = distance(bytes, other)
            guard distance <= max(step, step * max(bytes.count, other.count) / 3) else { continue }
            if distance < best?.distance ?? .max { best = (candidate, distance) }
        }
        return best?.word
    }

    /// What one edit costs; letters of another case cost 1.
    private static let step = 8

    private static func distance(_ left: [UInt8], _ right: [UInt8]) -> Int {
        var before: [Int] = []
        var previous = (0...right.count).map { $0 * step }
        for i in 0..<left.count {
            var row = [step * (i + 1)]
            row.reserveCapacity(right.count + 1)
            for j in 0..<right.count {
                var cost = min(previous[j + 1] + step, row[j] + step, previous[j] + difference(left[i], right[j]))
                if i > 0, j > 0, left[i] == right[j - 1], left[i - 1] == right[j] { cost = min(cost, before[j - 1] + step) }
                row.append(cost)
            }
            before = previous
            previous = row
        }
        return previous[right.count]
    }

    private static func difference(_ left: UInt8, _ right: UInt8) -> Int {
        if left == right { return 0 }
        return lowercased(left) == lowercased(right) ? 1 : step
    }

    private static func lowercased(_ byte: UInt8) -> UInt8 { (0x41...0x5A).contains(byte) ? byte | 0x20 : byte }
}
