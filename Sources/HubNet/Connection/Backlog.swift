import HubBase

/// A frame of an outbound queue that may be dropped.
package struct FrameMark: Equatable {
    /// Where it begins: an offset in the bytes that it's handed over with.
    package var offset: Int
    package var sendClass: SendClass
    /// Of the same class and key the newest counts; 0: each counts.
    package var key: UInt64

    package init(offset: Int, sendClass: SendClass, key: UInt64) {
        self.offset = offset
        self.sendClass = sendClass
        self.key = key
    }
}

/// Bytes that the socket didn't take, in memory of their own that ends when they have left. Bounded by `NetLimits.outboundBytes`.
///
/// All that a queue knows beside its bytes lives here too, so that a connection whose socket takes everything pays nothing for it.
package struct Backlog {
    package typealias Pointer = UnsafeMutablePointer<Backlog>

    /// What has left already, and what is filled.
    private(set) var head = 0
    private(set) var tail = 0
    let capacity: Int
    /// What waits: frames or events.
    private(set) var walk = FrameWalk.frames
    /// From `head` to the first place where the queue may be cut: behind the frame that is half out.
    package private(set) var partOfFrame = 0
    /// Whole frames that wait and may be dropped, in order. `FrameMark.offset` counts from the queue's first byte ever, so that marks needn't
    /// move when bytes leave: less `left` it's an offset in what waits.
    var marks: [FrameMark] = []
    /// Bytes that have left, or were dropped.
    private(set) var left = 0
    /// Bytes with a key that came since conflating was tried last.
    var unconflated = 0
    var dropped = DroppedFrames()
    /// What the budget was charged for this queue.
    var charged = 0

    private static let headerBytes = 128
    /// Smallest piece of memory.
    private static let capacityMin = 512

    private init(capacity: Int) { self.capacity = capacity }

    package static func count(_ backlog: Pointer?) -> Int {
        guard let backlog else { return 0 }
        return backlog.pointee.tail - backlog.pointee.head
    }

    /// What a queue weighs against its limit once `bytes` with `marks` have been added, with its overhead.
    static func cost(_ backlog: Pointer?, adding bytes: Int, marks: Int) -> Int {
        count(backlog) + bytes + headerBytes + ((backlog?.pointee.marks.count ?? 0) + marks) * MemoryLayout<FrameMark>.stride
    }

    /// The memory that a queue holds.
    static func memory(_ backlog: Pointer) -> Int {
        headerBytes + backlog.pointee.capacity + backlog.pointee.marks.capacity * MemoryLayout<FrameMark>.stride
    }

    package static func waiting(_ backlog: Pointer) -> UnsafeRawBufferPointer {
        UnsafeRawBufferPointer(start: bytes(backlog) + backlog.pointee.head, count: count(backlog))
    }

    // MARK: In and out

    /// How much more memory `bytes` would need; 0 when they fit.
    static func growth(_ backlog: Pointer?, adding bytes: Int) -> Int {
        guard let backlog else { return headerBytes + nextCapacity(0, bytes) }
        if backlog.pointee.capacity - backlog.pointee.tail >= bytes { return 0 }
        return max(0, nextCapacity(count(backlog), bytes) - backlog.pointee.capacity)
    }

    private static func nextCapacity(_ waiting: Int, _ bytes: Int) -> Int { max(capacityMin, waiting + bytes + waiting / 2) }

    /// Appends; makes the queue when there's none, also for no bytes. `partOfFrame` counts for the first bytes of a new queue.
    package static func append(
        _ backlog: inout Pointer?, _ bytes: UnsafeRawBufferPointer, partOfFrame: Int, marks: [FrameMark] = [], walk: FrameWalk = .frames
    ) {
        let current = backlog ?? make(capacity: nextCapacity(0, bytes.count))
        if backlog == nil {
            current.pointee.partOfFrame = partOfFrame
            current.pointee.walk = walk
        }
        let target =
            current.pointee.capacity - current.pointee.tail >= bytes.count
            ? current : move(current, capacity: nextCapacity(count(current), bytes.count))
        backlog = target
        if !marks.isEmpty { add(marks, to: target) }
        guard let source = bytes.baseAddress else { return }
        (Self.bytes(target) + target.pointee.tail).copyMemory(from: source, byteCount: bytes.count)
        target.pointee.tail += bytes.count
    }

    private static func add(_ marks: [FrameMark], to backlog: Pointer) {
        // Those of frames that have begun to leave are done with. Half of them at a time, so that each is moved once on average.
        let half = backlog.pointee.marks.count / 2
        if half > 32, backlog.pointee.marks[half].offset < backlog.pointee.left { backlog.pointee.marks.removeFirst(half) }
        let start = backlog.pointee.left + count(backlog)
        for mark in marks {
            backlog.pointee.marks.append(FrameMark(offset: start + mark.offset, sendClass: mark.sendClass, key: mark.key))
        }
    }

    /// `length` bytes have left. The memory goes with the last of them: the caller frees an empty queue.
    package static func removeFirst(_ backlog: Pointer, _ length: Int) {
        precondition(length <= count(backlog), "more left than waited")
        let border = backlog.pointee.partOfFrame
        backlog.pointee.partOfFrame =
            border >= length ? border - length : backlog.pointee.walk.restOfFrame(waiting(backlog), from: border, at: length)
        backlog.pointee.head += length
        backlog.pointee.left += length
    }

    /// Puts what waits between `ranges` together and drops the ranges (offsets in what waits, in order, whole frames).
    static func remove(_ ranges: [Range<Int>], from backlog: Pointer) {
        guard var end = ranges.first?.lowerBound else { return }
        precondition(end >= backlog.pointee.partOfFrame, "a frame that is half out can't be dropped")
        let base = bytes(backlog) + backlog.pointee.head
        for (place, range) in ranges.enumerated() {
            let next = place + 1 < ranges.count ? ranges[place + 1].lowerBound : count(backlog)
            memmoveBytes(base + end, base + range.upperBound, next - range.upperBound)
            end += next - range.upperBound
        }
        backlog.pointee.tail = backlog.pointee.head + end
    }

    /// Cuts the queue where it may be cut; returns how many whole frames were dropped. What stays moves to memory of its size.
    static func cut(_ backlog: inout Pointer?) -> Int {
        guard let current = backlog else { return 0 }
        let waiting = waiting(current)
        let border = min(current.pointee.partOfFrame, waiting.count)
        let dropped = current.pointee.walk.count(UnsafeRawBufferPointer(rebasing: waiting[border...]))
        current.pointee.tail = current.pointee.head + border
        current.pointee.marks = []
        backlog = move(current, capacity: border + capacityMin)
        return dropped
    }

    /// Memory of the size of what waits, where there's much more; true when it moved.
    static func shrink(_ backlog: inout Pointer?) -> Bool {
        guard let current = backlog, current.pointee.capacity > capacityMin * 4, count(current) < current.pointee.capacity / 2 else {
            return false
        }
        backlog = move(current, capacity: max(capacityMin, count(current) + count(current) / 4))
        return true
    }

    // MARK: Memory

    package static func free(_ backlog: inout Pointer?) {
        if let memory = backlog {
            memory.deinitialize(count: 1)
            UnsafeMutableRawPointer(memory).deallocate()
        }
        backlog = nil
    }

    private static func make(capacity: Int) -> Pointer {
        precondition(MemoryLayout<Backlog>.size <= headerBytes, "a backlog's own state has \(MemoryLayout<Backlog>.size) bytes")
        let raw = UnsafeMutableRawPointer.allocate(byteCount: headerBytes + capacity, alignment: 16)
        let backlog = raw.bindMemory(to: Backlog.self, capacity: 1)
        backlog.initialize(to: Backlog(capacity: capacity))
        return backlog
    }

    /// The same queue in other memory; what has left stays behind.
    private static func move(_ old: Pointer, capacity: Int) -> Pointer {
        let next = make(capacity: capacity)
        let waiting = waiting(old)
        if let source = waiting.baseAddress { bytes(next).copyMemory(from: source, byteCount: waiting.count) }
        next.pointee.tail = waiting.count
        next.pointee.walk = old.pointee.walk
        next.pointee.partOfFrame = old.pointee.partOfFrame
        next.pointee.left = old.pointee.left
        next.pointee.marks = old.pointee.marks
        next.pointee.unconflated = old.pointee.unconflated
        next.pointee.dropped = old.pointee.dropped
        next.pointee.charged = old.pointee.charged
        var emptied: Pointer? = old
        free(&emptied)
        return next
    }

    private static func bytes(_ backlog: Pointer) -> UnsafeMutableRawPointer { UnsafeMutableRawPointer(backlog) + headerBytes }
}
