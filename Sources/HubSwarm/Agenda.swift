import HubBase

/// Who is due next: a binary heap of 16 bytes an entry. Times are exact, where a loop's timers have steps of 10 ms.
package struct Agenda: Sendable {
    package struct Entry: Sendable, Equatable {
        package var at: Instant
        package var bot: UInt32
    }

    private var heap: [Entry] = []

    package init() {}

    package var count: Int { heap.count }
    package var next: Instant? { heap.first?.at }

    package mutating func add(_ bot: UInt32, at: Instant) {
        heap.append(Entry(at: at, bot: bot))
        var place = heap.count - 1
        while place > 0, heap[place].at < heap[(place - 1) / 2].at {
            heap.swapAt(place, (place - 1) / 2)
            place = (place - 1) / 2
        }
    }

    /// The earliest, if it's due.
    package mutating func takeDue(_ now: Instant) -> Entry? {
        guard let first = heap.first, first.at <= now else { return nil }
        heap.swapAt(0, heap.count - 1)
        heap.removeLast()
        var place = 0
        while true {
            var least = place
            for child in [2 * place + 1, 2 * place + 2] where child < heap.count && heap[child].at < heap[least].at { least = child }
            guard least != place else { return first }
            heap.swapAt(place, least)
            place = least
        }
    }
}
