import HubBase

/// The timers that `schedule` hands out: what to say when one fires, by index and generation. A pure value beside the wheel that keeps
/// their deadlines.
package struct TimerSlab: ~Copyable {
    /// Whom a timer belongs to.
    package enum Owner: UInt8 {
        case handler
        /// A stream's connect deadline; the value is its index and generation.
        case stream
        /// Listeners that were paused for want of descriptors.
        case listeners
        /// TLS handshakes that wait for the node's pace.
        case arrivals
        /// Handshakes' answers that were put aside.
        case withheld
    }

    package struct Fired: Equatable {
        package var owner: Owner
        package var kind: UInt32
        package var value: UInt64

        package init(owner: Owner, kind: UInt32, value: UInt64) {
            self.owner = owner
            self.kind = kind
            self.value = value
        }
    }

    private struct Entry {
        var value: UInt64
        var kind: UInt32
        var generation: UInt32
        var owner: Owner
        var isUsed: Bool
    }

    private var wheel: TimerWheel
    private var entries: [Entry] = []
    private var free: [UInt32] = []

    package init(now: Instant) { wheel = TimerWheel(now: now) }

    package mutating func schedule(at deadline: Instant, owner: Owner, kind: UInt32, value: UInt64) -> TimerID {
        let index: UInt32
        if let reused = free.popLast() {
            index = reused
            entries[Int(index)].value = value
            entries[Int(index)].kind = kind
            entries[Int(index)].owner = owner
            entries[Int(index)].isUsed = true
        } else {
            index = UInt32(entries.count)
            entries.append(Entry(value: value, kind: kind, generation: 1, owner: owner, isUsed: true))
        }
        wheel.arm(index, at: deadline)
        return TimerID(index: index, generation: entries[Int(index)].generation)
    }

    /// Nothing happens when it has fired or was cancelled before.
    package mutating func cancel(_ timer: TimerID) {
        guard Int(timer.index) < entries.count, entries[Int(timer.index)].isUsed,
            entries[Int(timer.index)].generation == timer.generation
        else { return }
        wheel.disarm(timer.index)
        release(timer.index)
    }

    package mutating func popDue(_ now: Instant) -> Fired? {
        guard let index = wheel.popDue(now) else { return nil }
        let entry = entries[Int(index)]
        release(index)
        return Fired(owner: entry.owner, kind: entry.kind, value: entry.value)
    }

    package var nextDeadline: Instant? { wheel.nextDeadline }
    package var count: Int { wheel.armedCount }

    private mutating func release(_ index: UInt32) {
        entries[Int(index)].isUsed = false
        entries[Int(index)].generation &+= 1
        free.append(index)
    }
}
