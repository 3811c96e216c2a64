import HubBase

/// Bytes that the socket didn't take, in memory of their own that ends when they have left. Bounded by `NetLimits.outboundBytes`.
struct Backlog {
    /// What has left already, and what is filled.
    private(set) var head: Int
    private(set) var tail: Int
    private let capacity: Int
    /// From `head` to the next frame's first byte: where the queue may be cut.
    private(set) var partOfFrame: Int

    private static let headerBytes = 32
    /// Smallest piece of memory.
    private static let capacityMin = 512

    static func count(_ backlog: UnsafeMutablePointer<Backlog>?) -> Int {
        guard let backlog else { return 0 }
        return backlog.pointee.tail - backlog.pointee.head
    }

    /// Memory that a queue of so many bytes takes, with its overhead.
    static func cost(_ bytes: Int) -> Int { bytes + headerBytes }

    static func waiting(_ backlog: UnsafeMutablePointer<Backlog>) -> UnsafeRawBufferPointer {
        UnsafeRawBufferPointer(start: memory(backlog) + backlog.pointee.head, count: backlog.pointee.tail - backlog.pointee.head)
    }

    /// Appends. `partOfFrame` counts for the first bytes of an empty queue.
    static func append(_ backlog: inout UnsafeMutablePointer<Backlog>?, _ bytes: UnsafeRawBufferPointer, partOfFrame: Int) {
        guard let source = bytes.baseAddress, bytes.count > 0 else { return }
        let waitingCount = count(backlog)
        if let current = backlog, current.pointee.capacity - current.pointee.tail >= bytes.count {
            (memory(current) + current.pointee.tail).copyMemory(from: source, byteCount: bytes.count)
            current.pointee.tail += bytes.count
            return
        }
        let next = make(capacity: max(capacityMin, waitingCount + bytes.count + waitingCount / 2))
        next.pointee.partOfFrame = partOfFrame
        if let current = backlog {
            memory(next).copyMemory(from: memory(current) + current.pointee.head, byteCount: waitingCount)
            next.pointee.partOfFrame = current.pointee.partOfFrame
        }
        (memory(next) + waitingCount).copyMemory(from: source, byteCount: bytes.count)
        next.pointee.tail = waitingCount + bytes.count
        free(&backlog)
        backlog = next
    }

    /// `length` bytes have left. The memory goes with the last of them.
    static func removeFirst(_ backlog: inout UnsafeMutablePointer<Backlog>?, _ length: Int) {
        guard let current = backlog else { return }
        precondition(length <= current.pointee.tail - current.pointee.head, "more left than waited")
        let border = current.pointee.partOfFrame
        current.pointee.partOfFrame =
            border >= length ? border - length : FrameWalk.restOfFrame(waiting(current), from: border, at: length)
        current.pointee.head += length
        if current.pointee.head == current.pointee.tail { free(&backlog) }
    }

    /// Cuts the queue at the first frame's border; returns how many whole frames were dropped.
    static func cut(_ backlog: UnsafeMutablePointer<Backlog>) -> Int {
        let bytes = waiting(backlog)
        let border = min(backlog.pointee.partOfFrame, bytes.count)
        let dropped = FrameWalk.count(UnsafeRawBufferPointer(rebasing: bytes[border...]))
        backlog.pointee.tail = backlog.pointee.head + border
        return dropped
    }

    static func free(_ backlog: inout UnsafeMutablePointer<Backlog>?) {
        if let memory = backlog { UnsafeMutableRawPointer(memory).deallocate() }
        backlog = nil
    }

    private static func make(capacity: Int) -> UnsafeMutablePointer<Backlog> {
        let raw = UnsafeMutableRawPointer.allocate(byteCount: headerBytes + capacity, alignment: 16)
        let backlog = raw.bindMemory(to: Backlog.self, capacity: 1)
        backlog.initialize(to: Backlog(head: 0, tail: 0, capacity: capacity, partOfFrame: 0))
        return backlog
    }

    private static func memory(_ backlog: UnsafeMutablePointer<Backlog>) -> UnsafeMutableRawPointer {
        UnsafeMutableRawPointer(backlog) + headerBytes
    }
}
