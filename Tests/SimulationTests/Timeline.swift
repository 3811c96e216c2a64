import HubBase

/// Virtual time: what is to happen when. Things of the same time happen in the order in which they were planned.
struct Timeline {
    private struct Entry {
        var at: Instant
        var order: UInt64
        var body: () -> Void

        func isBefore(_ other: Entry) -> Bool { (at, order) < (other.at, other.order) }
    }

    /// A binary heap.
    private var entries: [Entry] = []
    private var planned: UInt64 = 0
    private(set) var now: Instant

    init(at now: Instant) { self.now = now }

    mutating func plan(_ at: Instant, _ body: @escaping () -> Void) {
        planned += 1
        entries.append(Entry(at: max(at, now), order: planned, body: body))
        var child = entries.count - 1
        while child > 0, entries[child].isBefore(entries[(child - 1) / 2]) {
            entries.swapAt(child, (child - 1) / 2)
            child = (child - 1) / 2
        }
    }

    /// The next thing that happens until `end`, taken out; nil: nothing, and it's `end` now.
    mutating func next(until end: Instant) -> (() -> Void)? {
        guard let first = entries.first, first.at <= end else {
            now = max(now, end)
            return nil
        }
        now = first.at
        entries.swapAt(0, entries.count - 1)
        entries.removeLast()
        var parent = 0
        while true {
            var least = parent
            for child in [2 * parent + 1, 2 * parent + 2] where child < entries.count && entries[child].isBefore(entries[least]) {
                least = child
            }
            if least == parent { break }
            entries.swapAt(parent, least)
            parent = least
        }
        return first.body
    }
}
