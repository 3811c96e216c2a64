/// First in, first out: one array used as a ring, so that a queue which fills and empties again costs no allocation once warm. What it needed
/// for an unusual rush it gives back once that is over.
package struct Queue<Element> {
    private var slots: [Element?] = []
    private var head = 0
    package private(set) var count = 0

    package init() {}

    package var isEmpty: Bool { count == 0 }

    /// Lent, not copied: who looks at one field touches nothing that the element points to.
    package var first: Element? {
        _read {
            if count == 0 { yield nil } else { yield slots[head] }
        }
    }

    /// The element `place` steps after the first.
    package subscript(place: Int) -> Element {
        _read {
            precondition(place >= 0 && place < count, "place \(place) in a queue of \(count)")
            yield slots[(head + place) & (slots.count - 1)]!
        }
    }

    package mutating func append(_ element: Element) {
        if count == slots.count { grow() }
        slots[(head + count) & (slots.count - 1)] = element
        count += 1
    }

    /// Before the first.
    package mutating func prepend(_ element: Element) {
        if count == slots.count { grow() }
        head = (head + slots.count - 1) & (slots.count - 1)
        slots[head] = element
        count += 1
    }

    /// Changes the element `place` steps after the first.
    package mutating func update(_ place: Int, _ body: (inout Element) -> Void) {
        precondition(place >= 0 && place < count, "place \(place) in a queue of \(count)")
        body(&slots[(head + place) & (slots.count - 1)]!)
    }

    package mutating func popFirst() -> Element? {
        guard count > 0 else { return nil }
        let element = slots[head].take()
        head = (head + 1) & (slots.count - 1)
        count -= 1
        if count == 0 && slots.count > 1024 { removeAll() }
        return element
    }

    package mutating func popLast() -> Element? {
        guard count > 0 else { return nil }
        count -= 1
        return slots[(head + count) & (slots.count - 1)].take()
    }

    /// Gives the memory back too.
    package mutating func removeAll() { self = Queue() }

    /// The capacity stays a power of two, so that a mask finds a place.
    private mutating func grow() {
        var next: [Element?] = []
        next.reserveCapacity(max(slots.count * 2, 4))
        for place in 0..<count { next.append(slots[(head + place) & (slots.count - 1)].take()) }
        while next.count < max(slots.count * 2, 4) { next.append(nil) }
        slots = next
        head = 0
    }
}

extension Queue: Sendable where Element: Sendable {}
