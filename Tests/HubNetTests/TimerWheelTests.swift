import HubBase
import HubNet
import Testing

@Suite struct TimerWheelTests {
    static let start = Instant(nanoseconds: 123_456_789_000)

    private func at(_ milliseconds: UInt64) -> Instant { Self.start + .milliseconds(milliseconds) }

    @Test("a deadline never fires early, and fires within one tick of 10 ms")
    func resolution() {
        for delay in [UInt64(0), 1, 9, 10, 11, 500, 40_949, 40_950, 40_960, 90_000] {
            var wheel = TimerWheel(now: Self.start)
            wheel.arm(7, at: at(delay))
            var firedAt: UInt64?
            for time in max(delay, 15) - 15...delay + 25 where firedAt == nil {
                if wheel.popDue(at(time)) == 7 { firedAt = time }
            }
            let fired = firedAt ?? .max
            #expect(fired >= delay && fired <= delay + 20, "\(delay) ms fired at \(fired)")
            #expect(wheel.popDue(at(delay + 200_000)) == nil)
        }
    }

    @Test("arming again moves a deadline, disarming takes it away")
    func moves() {
        var wheel = TimerWheel(now: Self.start)
        wheel.arm(1, at: at(100))
        wheel.arm(2, at: at(100))
        wheel.arm(1, at: at(300))
        wheel.disarm(2)
        wheel.disarm(99)
        let early = wheel.popDue(at(200))
        #expect(early == nil)
        let late = wheel.popDue(at(320))
        #expect(late == 1)
        #expect(!wheel.isArmed(1) && !wheel.isArmed(2))
    }

    @Test("a deadline armed while due ones are worked off waits for a later tick: no endless turn")
    func noEndlessTurn() {
        var wheel = TimerWheel(now: Self.start)
        wheel.arm(0, at: at(10))
        var fired = 0
        while wheel.popDue(at(50)) != nil {
            fired += 1
            guard fired < 100 else { break }
            wheel.arm(0, at: Self.start)
        }
        // One a tick at most.
        #expect(fired >= 1 && fired <= 6)
    }

    @Test("after a stall of many revolutions everything due comes out")
    func stall() {
        var wheel = TimerWheel(now: Self.start)
        for index in 0..<500 as Range<UInt32> { wheel.arm(index, at: at(UInt64(index) * 777)) }
        var fired = Set<UInt32>()
        while let index = wheel.popDue(at(10_000_000)) { fired.insert(index) }
        #expect(fired.count == 500)
        #expect(wheel.armedCount == 0)
    }

    @Test("the far end of time neither fires nor traps")
    func farFuture() {
        var wheel = TimerWheel(now: Self.start)
        wheel.arm(3, at: .distantFuture)
        let fired = wheel.popDue(at(3_600_000))
        #expect(fired == nil)
        #expect(wheel.nextDeadline != nil)
    }

    @Test("random operations agree with a slow twin", arguments: [1, 2, 3, 4, 5, 6] as [UInt64])
    func twin(seed: UInt64) {
        var chance = Chance(seed: seed)
        var wheel = TimerWheel(now: Self.start)
        var twin: [UInt32: UInt64] = [:]
        var time: UInt64 = 0
        let tick = TimerWheel.tickNanoseconds
        /// The tick of a deadline, and what the wheel has worked off.
        func tickOf(_ instant: Instant) -> UInt64 { (instant.nanoseconds + tick - 1) / tick }
        var doneTick = Self.start.nanoseconds / tick
        for _ in 0..<20_000 {
            let index = UInt32(chance.next() % 200)
            switch chance.next() % 8 {
            case 0...3:
                let delay = chance.next() % (chance.next() % 10 == 0 ? 200_000 : 3_000)
                wheel.arm(index, at: at(time + delay))
                twin[index] = max(tickOf(at(time + delay)), doneTick + 1)
            case 4:
                wheel.disarm(index)
                twin[index] = nil
            case 5:
                // Nothing fires before what it says comes next.
                if let next = wheel.nextDeadline, let first = twin.values.min() {
                    #expect(next.nanoseconds / tick <= first)
                } else {
                    #expect(twin.isEmpty)
                }
            default:
                time += chance.next() % (chance.next() % 50 == 0 ? 100_000 : 60)
                let nowTick = at(time).nanoseconds / tick
                var fired = Set<UInt32>()
                while let due = wheel.popDue(at(time)) {
                    let isNew = fired.insert(due).inserted
                    #expect(isNew)
                }
                let expected = Set(twin.filter { $0.value <= nowTick }.keys)
                #expect(fired == expected)
                for due in fired { twin[due] = nil }
                doneTick = max(doneTick, nowTick)
            }
            #expect(wheel.armedCount == twin.count)
        }
    }
}

@Suite struct TimerSlabTests {
    private let start = Instant(nanoseconds: 5_000_000_000)

    @Test("a timer fires once, with what was given to it")
    func fires() {
        var slab = TimerSlab(now: start)
        _ = slab.schedule(at: start + .milliseconds(20), owner: .handler, kind: 3, value: 99)
        let early = slab.popDue(start + .milliseconds(19))
        let fired = slab.popDue(start + .milliseconds(40))
        let again = slab.popDue(start + .milliseconds(400))
        #expect(early == nil)
        #expect(fired == TimerSlab.Fired(owner: .handler, kind: 3, value: 99))
        #expect(again == nil)
    }

    @Test("an old id doesn't cancel the timer that has taken its place")
    func staleID() {
        var slab = TimerSlab(now: start)
        let old = slab.schedule(at: start + .milliseconds(20), owner: .handler, kind: 1, value: 1)
        slab.cancel(old)
        let new = slab.schedule(at: start + .milliseconds(20), owner: .handler, kind: 2, value: 2)
        slab.cancel(old)
        #expect(new.index == old.index && new != old)
        let fired = slab.popDue(start + .milliseconds(60))
        #expect(fired?.kind == 2)
        slab.cancel(new)
        #expect(slab.count == 0)
    }
}
