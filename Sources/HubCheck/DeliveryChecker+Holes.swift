import HubBase
import HubWire

/// What a reader was led past: lost without a word, unless it comes late (then it's out of order, and nothing is lost).
extension DeliveryChecker {
    /// The places between two that a reader was brought to one after the other.
    struct Hole {
        let after: Position
        let before: Position
        /// Those that came late.
        var filled: Set<UInt64> = []

        /// 9e18 places may be missing, so they are counted, not listed.
        var missing: UInt64 { before.offset - after.offset - 1 - UInt64(filled.count) }
    }

    /// Whether the reader was led past that place, and hasn't had it yet. Cost: a look at its holes, which few have, by halving.
    mutating func fillHole(at position: Position, of seat: Seat) -> Bool {
        guard let holes = readers[seat]?.holes, !holes.isEmpty else { return false }
        var (low, high) = (0, holes.count)
        while low < high {
            let middle = (low + high) / 2
            if holes[middle].before.offset <= position.offset { low = middle + 1 } else { high = middle }
        }
        guard low < holes.count, holes[low].after.offset < position.offset,
            readers[seat]?.holes[low].filled.insert(position.offset).inserted == true
        else { return false }
        if readers[seat]?.holes[low].missing == 0 { readers[seat]?.holes.remove(at: low) }
        return true
    }

    /// What hasn't come by now doesn't come any more: the subscription ends, another takes its place, or all is over.
    mutating func settleHoles(_ seat: Seat) {
        guard let holes = readers[seat]?.holes, !holes.isEmpty else { return }
        for hole in holes {
            find(
                .gap, seat.channel, seat.client,
                "went from \(hole.after) to \(hole.before): \(hole.missing) passed over, and wasn't told")
        }
        readers[seat]?.holes = []
    }
}
