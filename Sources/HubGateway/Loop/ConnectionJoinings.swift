/// The joinings that one connection waits for, with their channels' places. Nearly always few, which costs a look at each; a client that comes back
/// to a thousand channels has a thousand, and each is found by its hash.
package struct ConnectionJoinings {
    private struct Line {
        var key: UInt64
        var slot: Int
        /// The subscription is made, and only waits for the members.
        var isMade: Bool
    }

    private var few: [Line] = []
    private var many: [UInt64: Line] = [:]
    /// Of `many`: how many there are for a channel.
    private var counts: [Int: Int] = [:]
    /// Subscriptions that aren't made yet.
    package private(set) var unmade = 0

    package static let fewMax = 16

    package init() {}

    package var isEmpty: Bool { few.isEmpty && many.isEmpty }
    /// In an order that's the same in each run.
    package var keys: [UInt64] { many.isEmpty ? few.map(\.key) : many.keys.sorted() }

    package func contains(_ slot: Int) -> Bool { many.isEmpty ? few.contains { $0.slot == slot } : counts[slot] != nil }

    /// It isn't there yet.
    package mutating func insert(_ key: UInt64, slot: Int, isMade: Bool) {
        if !isMade { unmade += 1 }
        let line = Line(key: key, slot: slot, isMade: isMade)
        guard !many.isEmpty || few.count == Self.fewMax else { return few.append(line) }
        for one in few + [line] {
            many[one.key] = one
            counts[one.slot, default: 0] += 1
        }
        few = []
    }

    package mutating func remove(_ key: UInt64) {
        if many.isEmpty {
            guard let place = few.firstIndex(where: { $0.key == key }) else { return }
            if !few.remove(at: place).isMade { unmade -= 1 }
        } else if let line = many.removeValue(forKey: key) {
            if !line.isMade { unmade -= 1 }
            let left = (counts[line.slot] ?? 1) - 1
            counts[line.slot] = left > 0 ? left : nil
        }
    }
}
