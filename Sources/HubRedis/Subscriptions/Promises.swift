import HubWire

/// Places of a channel that were acknowledged to this node's clients, and that the channel's feed hasn't come to. Redis replicates behind its
/// answers: a failover can take such a place back, or give it to another message, and nothing that's heard would show it.
///
/// Two are enough: within the life of a command link Redis takes nothing back, so the latest one speaks for those before it; when the link
/// is lost the latest becomes doubtful, and is looked at before those that follow.
///
/// A word where nothing was ever promised; a place in memory from the first promise on, since a channel that is published to once mostly is again.
struct Promises {
    private struct Places {
        var latest: Position?
        var doubtful: Position?
    }

    /// One, or none.
    private var kept: [Places] = []

    private var places: Places? { kept.first }

    /// A publication was acknowledged at `position`; the feed is at `known`. Cost: a comparison.
    mutating func make(_ position: Position, at known: Position) {
        // Another epoch is announced whatever was promised in it.
        guard position.epoch == known.epoch || known.isOrigin, position.offset > known.offset else { return }
        if kept.isEmpty { kept = [Places()] }
        if let latest = kept[0].latest, latest.epoch == position.epoch, latest.offset > position.offset { return }
        kept[0].latest = position
    }

    /// The link that promised is lost.
    mutating func doubt() {
        guard let places, let latest = places.latest else { return }
        if places.doubtful == nil { kept[0].doubtful = latest }
        kept[0].latest = nil
    }

    /// The feed comes to `next`. True: what was promised at its offset is another message.
    mutating func pass(_ next: Position) -> Bool {
        guard let places else { return false }
        var isBroken = false
        if let place = places.doubtful, place.isPassed(by: next) {
            isBroken = place.isReplaced(by: next)
            kept[0].doubtful = nil
        }
        if let place = places.latest, place.isPassed(by: next) {
            isBroken = isBroken || place.isReplaced(by: next)
            kept[0].latest = nil
        }
        return isBroken
    }

    /// Whether the channel, which stands at `tip`, never came to what was promised.
    func isBroken(by tip: Position) -> Bool {
        for place in [places?.doubtful, places?.latest] {
            // Of another epoch: the channel that was promised to begin began otherwise, or didn't begin.
            if let place, place.epoch != tip.epoch || place.offset > tip.offset || place.isReplaced(by: tip) { return true }
        }
        return false
    }

    /// A gap is announced: it covers them.
    mutating func forget() {
        if !kept.isEmpty { kept[0] = Places() }
    }
}

extension Position {
    fileprivate func isPassed(by next: Position) -> Bool { epoch != next.epoch || offset <= next.offset }
    /// Another epoch takes its place only where the channel hadn't begun: else it's announced for itself.
    fileprivate func isReplaced(by next: Position) -> Bool { epoch != next.epoch || offset == next.offset && tag != next.tag }
}
