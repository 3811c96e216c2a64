/// Indexes that wait for the link of their lane, first come first served within a lane.
struct LaneQueue {
    private var rings = [Ring<Int>](repeating: Ring(), count: Lane.count)
    private var occupied = LaneSet()

    var isEmpty: Bool { occupied.isEmpty }

    mutating func append(_ index: Int, lane: Int) {
        rings[lane].append(index)
        occupied.insert(lane)
    }

    /// The next one of any of `lanes`.
    mutating func removeFirst(in lanes: LaneSet) -> Int? {
        guard !occupied.isEmpty, let lane = occupied.intersection(lanes).first else { return nil }
        let index = rings[lane].removeFirst()
        if rings[lane].isEmpty { occupied.remove(lane) }
        return index
    }

    mutating func removeAll(in lanes: LaneSet) {
        for lane in occupied.intersection(lanes) { rings[lane].removeAll() }
        occupied = occupied.subtracting(lanes)
    }
}
