import HubBase

/// Deadlines by index, in a hashed wheel (Varghese and Lauck, scheme 6): arming and disarming cost a few loads and stores, whatever the
/// number of deadlines; no closure, no allocation once its table covers the indexes in use.
///
/// A pure value: time comes in as an argument. Resolution 10 ms; a deadline never fires early, and at most one tick late by the wheel's
/// own doing. One deadline an index: 16 bytes each.
package struct TimerWheel: ~Copyable {
    package static let tickNanoseconds: UInt64 = 10_000_000
    /// 41 s a revolution: ping, keep-alive and head deadlines are passed over at most twice.
    package static let slots = 4096

    private struct Node {
        /// The tick in which it fires; `unarmed` when it isn't in a list.
        var tick: UInt64
        var next: UInt32
        /// The node before, or the list's head: `headFlag` and the slot.
        var previous: UInt32
    }

    private static let unarmed = UInt64.max
    private static let none = UInt32.max
    private static let headFlag: UInt32 = 0x8000_0000
    /// The list of the tick that is being worked off.
    private static let dueSlot = UInt32(slots)

    private var nodes: UnsafeMutablePointer<Node>
    private var nodeCount: Int
    private let heads: UnsafeMutablePointer<UInt32>
    /// One bit a slot that isn't empty, so that the next deadline is found without walking the slots.
    private let occupied: UnsafeMutablePointer<UInt64>
    /// Every tick up to this one has been worked off or is being worked off.
    private var cursor: UInt64
    package private(set) var armedCount = 0

    package init(now: Instant) {
        nodes = .allocate(capacity: 64)
        nodes.initialize(repeating: Node(tick: Self.unarmed, next: Self.none, previous: Self.none), count: 64)
        nodeCount = 64
        heads = .allocate(capacity: Self.slots + 1)
        heads.initialize(repeating: Self.none, count: Self.slots + 1)
        occupied = .allocate(capacity: Self.slots / 64)
        occupied.initialize(repeating: 0, count: Self.slots / 64)
        cursor = now.nanoseconds / Self.tickNanoseconds
    }

    deinit {
        nodes.deallocate()
        heads.deallocate()
        occupied.deallocate()
    }

    /// (Re-)arms the deadline of `index`. A deadline that has passed fires at the next `popDue` of a later tick.
    package mutating func arm(_ index: UInt32, at deadline: Instant) {
        if Int(index) >= nodeCount { grow(toCover: index) }
        if nodes[Int(index)].tick != Self.unarmed { unlink(index) }
        // Rounded up, so that it's never early.
        var tick = deadline.nanoseconds / Self.tickNanoseconds
        if deadline.nanoseconds % Self.tickNanoseconds != 0 { tick += 1 }
        // Not into the tick being worked off: what re-arms itself with no delay must let the rest of the turn pass.
        nodes[Int(index)].tick = max(tick, cursor + 1)
        link(index)
        armedCount += 1
    }

    package mutating func disarm(_ index: UInt32) {
        guard Int(index) < nodeCount, nodes[Int(index)].tick != Self.unarmed else { return }
        unlink(index)
        nodes[Int(index)].tick = Self.unarmed
    }

    package func isArmed(_ index: UInt32) -> Bool {
        Int(index) < nodeCount && nodes[Int(index)].tick != Self.unarmed
    }

    /// The next index whose deadline has passed, disarmed; nil when there's none. One at a time, so that what it leads to may arm and
    /// disarm any. Cost: the slots between the last call and `now`, one revolution at most.
    package mutating func popDue(_ now: Instant) -> UInt32? {
        let nowTick = now.nanoseconds / Self.tickNanoseconds
        while true {
            let index = heads[Int(Self.dueSlot)]
            if index != Self.none {
                unlink(index)
                if nodes[Int(index)].tick <= nowTick {
                    nodes[Int(index)].tick = Self.unarmed
                    return index
                }
                // Due in a later revolution.
                link(index)
                armedCount += 1
                continue
            }
            guard cursor < nowTick else { return nil }
            // After a long stall one revolution passes every slot.
            if nowTick - cursor > UInt64(Self.slots) { cursor = nowTick - UInt64(Self.slots) }
            cursor += 1
            takeSlot(cursor)
        }
    }

    /// No deadline fires before this; nil when none is armed. May be early when the next one is more than a revolution away.
    package var nextDeadline: Instant? {
        if heads[Int(Self.dueSlot)] != Self.none { return Instant(nanoseconds: cursor * Self.tickNanoseconds) }
        guard armedCount > 0 else { return nil }
        let first = Int(truncatingIfNeeded: (cursor + 1) % UInt64(Self.slots))
        let words = Self.slots / 64
        for step in 0...words {
            let word = (first / 64 + step) % words
            var bits = occupied[word]
            if step == 0 { bits &= ~0 << UInt64(first % 64) }
            if step == words { bits &= ~(~0 << UInt64(first % 64)) }
            guard bits != 0 else { continue }
            let slot = word * 64 + bits.trailingZeroBitCount
            let distance = (slot - first + Self.slots) % Self.slots
            let (nanoseconds, overflow) = (cursor + 1 + UInt64(distance)).multipliedReportingOverflow(by: Self.tickNanoseconds)
            return overflow ? .distantFuture : Instant(nanoseconds: nanoseconds)
        }
        return nil
    }

    // MARK: Lists

    private mutating func takeSlot(_ tick: UInt64) {
        let slot = Int(truncatingIfNeeded: tick % UInt64(Self.slots))
        let first = heads[slot]
        guard first != Self.none else { return }
        heads[slot] = Self.none
        occupied[slot / 64] &= ~(1 << UInt64(slot % 64))
        heads[Int(Self.dueSlot)] = first
        nodes[Int(first)].previous = Self.headFlag | Self.dueSlot
    }

    private mutating func link(_ index: UInt32) {
        let slot = Int(truncatingIfNeeded: nodes[Int(index)].tick % UInt64(Self.slots))
        let first = heads[slot]
        nodes[Int(index)].next = first
        nodes[Int(index)].previous = Self.headFlag | UInt32(slot)
        if first != Self.none { nodes[Int(first)].previous = index }
        heads[slot] = index
        occupied[slot / 64] |= 1 << UInt64(slot % 64)
    }

    private mutating func unlink(_ index: UInt32) {
        let next = nodes[Int(index)].next
        let previous = nodes[Int(index)].previous
        if next != Self.none { nodes[Int(next)].previous = previous }
        if previous & Self.headFlag != 0 {
            let slot = Int(previous & ~Self.headFlag)
            heads[slot] = next
            if next == Self.none && slot < Self.slots { occupied[slot / 64] &= ~(1 << UInt64(slot % 64)) }
        } else {
            nodes[Int(previous)].next = next
        }
        armedCount -= 1
    }

    private mutating func grow(toCover index: UInt32) {
        precondition(index < Self.headFlag, "an index past 2^31 can't have a deadline")
        let count = max(nodeCount * 2, Int(index) + 1)
        let next = UnsafeMutablePointer<Node>.allocate(capacity: count)
        next.update(from: nodes, count: nodeCount)
        (next + nodeCount).initialize(repeating: Node(tick: Self.unarmed, next: Self.none, previous: Self.none), count: count - nodeCount)
        nodes.deallocate()
        nodes = next
        nodeCount = count
    }
}
