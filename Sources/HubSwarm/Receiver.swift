/// What one bot was owed and what it got, of one room, since its subscription was acknowledged: offsets must come one by one.
package struct Receiver: Sendable {
    package struct Tally: Sendable, Equatable {
        package var delivered: UInt64 = 0
        package var expected: UInt64 = 0
        package var lost: UInt64 = 0
        package var duplicated: UInt64 = 0
        package var outOfOrder: UInt64 = 0

        package init(delivered: UInt64 = 0, expected: UInt64 = 0, lost: UInt64 = 0, duplicated: UInt64 = 0, outOfOrder: UInt64 = 0) {
            self.delivered = delivered
            self.expected = expected
            self.lost = lost
            self.duplicated = duplicated
            self.outOfOrder = outOfOrder
        }

        package static func += (left: inout Tally, right: Tally) {
            left.delivered += right.delivered
            left.expected += right.expected
            left.lost += right.lost
            left.duplicated += right.duplicated
            left.outOfOrder += right.outOfOrder
        }
    }

    /// Offsets that were jumped over and may still come, late; more of them than this are lost at once.
    private static let holesMax = 64
    private var holes: [UInt64] = []
    /// nil while not subscribed.
    private var last: UInt64?
    private var tally = Tally()

    package init() {}

    package var isSubscribed: Bool { last != nil }

    /// The subscription was acknowledged at `offset`: what comes after it is owed.
    package mutating func subscribed(at offset: UInt64) {
        if last != nil { ended() }
        last = offset
    }

    /// False when the bot isn't subscribed, so that nothing may come.
    package mutating func received(_ offset: UInt64) -> Bool {
        guard let last else { return false }
        if offset > last {
            let missed = offset - last - 1
            tally.expected += missed + 1
            tally.lost += missed
            tally.delivered += 1
            var hole = last + 1
            while hole < offset, holes.count < Self.holesMax {
                holes.append(hole)
                hole += 1
            }
            self.last = offset
        } else if let hole = holes.firstIndex(of: offset) {
            holes.remove(at: hole)
            tally.lost -= 1
            tally.delivered += 1
            tally.outOfOrder += 1
        } else {
            tally.duplicated += 1
        }
        return true
    }

    /// The connection ended: nothing more is owed on it. What happened meanwhile is recovery's business, not this tally's.
    package mutating func ended() {
        last = nil
        holes.removeAll()
    }

    /// Whether everything up to `acknowledged` is here (or never will be owed).
    package func hasAll(upTo acknowledged: UInt64) -> Bool {
        guard let last else { return true }
        return last >= acknowledged && tally.lost == 0
    }

    /// The sum, given how far the room was acknowledged at the end.
    package func settled(acknowledged: UInt64) -> Tally {
        var settled = tally
        if let last, acknowledged > last {
            settled.expected += acknowledged - last
            settled.lost += acknowledged - last
        }
        return settled
    }
}
