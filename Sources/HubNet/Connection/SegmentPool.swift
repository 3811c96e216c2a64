/// Ranges of the arena that are queued for connections whose range isn't one piece: linked lists in one pool, emptied at the end of each
/// turn, so that a warm loop allocates none.
struct SegmentPool: ~Copyable {
    static let none = UInt32.max
    /// More in one turn, and a connection is flushed early: 3 MiB a loop.
    static let limit = 1 << 18

    struct Segment {
        var start: UInt32
        var end: UInt32
        var next: UInt32
    }

    private var segments: UnsafeMutablePointer<Segment>
    private var capacity = 1024
    private(set) var count = 0

    init() { segments = .allocate(capacity: 1024) }

    deinit { segments.deallocate() }

    var isFull: Bool { count >= Self.limit }

    subscript(_ index: UInt32) -> Segment { segments[Int(index)] }

    /// Appends a range to the list that ends in `tail`; returns its index.
    mutating func append(start: UInt32, end: UInt32, after tail: UInt32) -> UInt32 {
        if count == capacity {
            let next = UnsafeMutablePointer<Segment>.allocate(capacity: capacity * 2)
            next.moveInitialize(from: segments, count: count)
            segments.deallocate()
            segments = next
            capacity *= 2
        }
        let index = UInt32(count)
        (segments + count).initialize(to: Segment(start: start, end: end, next: Self.none))
        count += 1
        if tail != Self.none { segments[Int(tail)].next = index }
        return index
    }

    mutating func removeAll() { count = 0 }
}
