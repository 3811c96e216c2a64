import HubBase
import HubWire

/// Channels that have members, by partition, each with when the last lease in it ends: what a sweep goes through, and who has been told of as
/// occupied. As Redis keeps it in `mo` and `mw` (docs/redis.md).
struct OccupiedChannels {
    private struct Part {
        var ends: [Name: Instant] = [:]
        /// Nothing ends before.
        var earliest = Instant.distantFuture
        var sweptAt: Instant?
        var holdUntil = Instant(nanoseconds: 0)
    }

    private var parts = [Part](repeating: Part(), count: Partition.count)

    /// Whether it's new.
    mutating func insert(_ channel: Name, until end: Instant) -> Bool {
        let part = Partition.of(channel)
        parts[part].earliest = min(parts[part].earliest, end)
        return parts[part].ends.updateValue(end, forKey: channel) == nil
    }

    /// If it's there.
    mutating func move(_ channel: Name, to end: Instant) {
        let part = Partition.of(channel)
        guard parts[part].ends[channel] != nil else { return }
        parts[part].ends[channel] = end
        parts[part].earliest = min(parts[part].earliest, end)
    }

    mutating func remove(_ channel: Name) { parts[Partition.of(channel)].ends[channel] = nil }

    /// Until when nobody of the partition may be taken for dead; nil: the dead are dead. Where nobody has swept for so long that all may have been
    /// cut off, the next sweep begins a hold.
    func blindUntil(of part: Int, timers: PresenceTimers, at now: Instant) -> Instant? {
        guard let last = parts[part].sweptAt, now.since(last) <= timers.gapMax else { return now + timers.hold }
        return now < parts[part].holdUntil ? parts[part].holdUntil : nil
    }

    /// A sweep of one partition begins: the channels whose time is over. They come again after the longest gap, unless they're moved or removed.
    mutating func takeDue(of part: Int, timers: PresenceTimers, limit: Int, at now: Instant) -> [Name] {
        if let last = parts[part].sweptAt, now.since(last) < timers.memberSweepInterval { return [] }
        // Everybody may have been cut off.
        if parts[part].sweptAt.map({ now.since($0) > timers.gapMax }) ?? true { parts[part].holdUntil = now + timers.hold }
        parts[part].sweptAt = now
        guard now >= parts[part].holdUntil, parts[part].earliest <= now else { return [] }
        var due: [Name] = []
        var earliest = Instant.distantFuture
        for (channel, end) in parts[part].ends {
            guard end <= now, due.count < limit else {
                earliest = min(earliest, end)
                continue
            }
            due.append(channel)
        }
        let again = now + timers.gapMax
        for channel in due { parts[part].ends[channel] = again }
        parts[part].earliest = due.isEmpty ? earliest : min(earliest, again)
        return due
    }
}
