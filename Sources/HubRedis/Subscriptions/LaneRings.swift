/// Things that wait for the link of their lane, first come first served within a lane; lanes take turns.
struct LaneRings<Element> {
    private var rings = [Ring<Element>](repeating: Ring(), count: Lane.count)
    private var occupied = LaneSet()
    /// Whose turn it is.
    private var next = 0
    private(set) var count = 0

    var isEmpty: Bool { occupied.isEmpty }

    mutating func append(_ element: Element, lane: Int) {
        rings[lane].append(element)
        occupied.insert(lane)
        count += 1
    }

    /// The next one of any of `lanes`.
    mutating func removeFirst(in lanes: LaneSet) -> Element? {
        guard !occupied.isEmpty, let lane = occupied.intersection(lanes).first(from: next) else { return nil }
        next = (lane + 1) % Lane.count
        let element = rings[lane].removeFirst()
        if rings[lane].isEmpty { occupied.remove(lane) }
        count -= 1
        return element
    }

    mutating func removeAll(in lanes: LaneSet) {
        for lane in occupied.intersection(lanes) {
            count -= rings[lane].count
            rings[lane].removeAll()
        }
        occupied = occupied.subtracting(lanes)
    }
}

/// Indexes of subscriptions.
typealias LaneQueue = LaneRings<Int>
