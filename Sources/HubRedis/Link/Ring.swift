/// A queue whose front leaves in constant time and that keeps its memory: an array used in a circle.
package struct Ring<Element> {
    private var storage: [Element?] = []
    private var head = 0
    package private(set) var count = 0

    package init() {}

    package var isEmpty: Bool { count == 0 }

    package var first: Element? { count == 0 ? nil : storage[head] }

    /// The element at a distance from the front.
    package subscript(index: Int) -> Element {
        precondition(index >= 0 && index < count)
        return storage[(head + index) & (storage.count - 1)]!
    }

    package mutating func append(_ element: Element) {
        if count == storage.count { grow() }
        storage[(head + count) & (storage.count - 1)] = element
        count += 1
    }

    package mutating func prepend(_ element: Element) {
        if count == storage.count { grow() }
        head = (head &- 1) & (storage.count - 1)
        storage[head] = element
        count += 1
    }

    package mutating func removeFirst() -> Element? {
        guard count > 0 else { return nil }
        let element = storage[head].take()
        head = (head + 1) & (storage.count - 1)
        count -= 1
        // What a rush needed isn't held for ever.
        if count == 0 && storage.count > 1024 { self = Ring() }
        return element
    }

    /// Changes each element in its place.
    package mutating func update(_ body: (inout Element) -> Void) {
        for index in 0..<count {
            let place = (head + index) & (storage.count - 1)
            if var element = storage[place].take() {
                body(&element)
                storage[place] = element
            }
        }
    }

    package mutating func removeAll() {
        storage.removeAll()
        head = 0
        count = 0
    }

    private mutating func grow() {
        var larger = [Element?](repeating: nil, count: max(16, storage.count * 2))
        for index in 0..<count { larger[index] = storage[(head + index) & (storage.count - 1)].take() }
        storage = larger
        head = 0
    }
}
