/// Offsets that receivers were led past, and that may still come late: then they were out of order, and neither lost nor twice.
///
/// Of each seat (a receiver's place in a channel) at most 64; what's beyond stays lost. Seats without holes cost nothing.
package struct Holes: Sendable {
    private static let offsetsMax = 64
    private var open: [Int: [UInt64]] = [:]

    package init() {}

    /// `seat` was handed `offset`, and `count` before it were passed over.
    package mutating func pass(_ count: UInt64, before offset: UInt64, seat: Int) {
        guard count > 0, count < offset else { return }
        var offsets = open[seat] ?? []
        var missing = offset - count
        while missing < offset, offsets.count < Self.offsetsMax {
            offsets.append(missing)
            missing += 1
        }
        open[seat] = offsets
    }

    /// Whether `seat` hadn't had it: an old one that comes now fills a hole, or else came before.
    package mutating func fill(_ offset: UInt64, seat: Int) -> Bool {
        guard !open.isEmpty, let place = open[seat]?.firstIndex(of: offset) else { return false }
        open[seat]?.remove(at: place)
        if open[seat]?.isEmpty == true { open[seat] = nil }
        return true
    }

    /// What's missing there doesn't come any more, or means another thing.
    package mutating func close(_ seat: Int) { if !open.isEmpty { open[seat] = nil } }
}
