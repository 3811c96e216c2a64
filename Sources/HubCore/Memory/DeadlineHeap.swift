import HubBase

/// Elements by the instant they are due, earliest first: a binary heap in one array. Removing others than the first isn't offered; who
/// wants it lets the element come due and finds that it doesn't count any more.
package struct DeadlineHeap<Element> {
    private var entries: [(due: Instant, element: Element)] = []

    package init() {}

    package var count: Int { entries.count }
    package var firstDue: Instant? { entries.first?.due }

    package mutating func insert(_ element: Element, due: Instant) {
        entries.append((due, element))
        var place = entries.count - 1
        while place > 0 {
            let parent = (place - 1) / 2
            if entries[parent].due <= entries[place].due { break }
            entries.swapAt(parent, place)
            place = parent
        }
    }

    /// The earliest element if it is due by `now`.
    package mutating func popFirst(dueBy now: Instant) -> (due: Instant, element: Element)? {
        guard let first = entries.first, first.due <= now else { return nil }
        let last = entries.removeLast()
        if entries.capacity > 1024 && entries.count < entries.capacity / 4 { entries = Array(entries) }
        if entries.isEmpty { return first }
        entries[0] = last
        var place = 0
        while true {
            var child = 2 * place + 1
            guard child < entries.count else { break }
            if child + 1 < entries.count && entries[child + 1].due < entries[child].due { child += 1 }
            if entries[place].due <= entries[child].due { break }
            entries.swapAt(place, child)
            place = child
        }
        return first
    }

    package mutating func removeAll() { entries = [] }

    /// Takes out those that don't count any more, and gives their memory back. Cost: a look at all.
    package mutating func keep(where counts: (Instant, Element) -> Bool) {
        // In the order of their deadlines they're a heap as they stand.
        entries = entries.filter { counts($0.due, $0.element) }.sorted { $0.due < $1.due }
    }
}
