import HubBase
import HubToken
import Testing

@Suite("When a key set is read")
struct KeySetWatchTests {
    private let start = Instant(nanoseconds: 1_000_000_000_000)

    private static let new = Array("new".utf8)

    private func times() -> KeySetWatch.Times {
        var times = KeySetWatch.Times()
        times.refresh = .seconds(600)
        times.interval = .seconds(30)
        times.keep = .seconds(3600)
        return times
    }

    @Test("at once, then every refresh; one reading at a time")
    func refresh() {
        var watch = KeySetWatch(times(), seed: 1)
        #expect(watch.patience(at: start) == .zero)
        #expect(watch.tick(at: start) == .read)
        #expect(watch.tick(at: start + .seconds(700)) == .none, "the first one isn't over")
        watch.ended(well: true, at: start + .seconds(1))
        #expect(watch.tick(at: start + .seconds(599)) == .none && watch.patience(at: start + .seconds(500)) == .seconds(100))
        #expect(watch.tick(at: start + .seconds(600)) == .read)
    }

    @Test("a key that isn't known makes it read sooner, once an interval however often it's named")
    func unknownKey() {
        var watch = KeySetWatch(times(), seed: 1)
        _ = watch.tick(at: start)
        #expect(watch.lacksKey(Self.new, at: start) == .zero, "it's being read")
        watch.ended(well: true, at: start + .seconds(1))
        #expect(watch.lacksKey(Self.new, at: start + .seconds(2)) == .seconds(28), "that reading had begun before")
        #expect(watch.tick(at: start + .seconds(29)) == .none)
        #expect(watch.tick(at: start + .seconds(30)) == .read)
        watch.ended(well: true, at: start + .seconds(31))
        #expect(watch.lacksKey(Self.new, at: start + .seconds(32)) == nil, "looked for, and not there")
        #expect(watch.lacksKey(Array("another".utf8), at: start + .seconds(32)) == .seconds(28))
        #expect(watch.tick(at: start + .seconds(60)) == .read)
        watch.ended(well: true, at: start + .seconds(60))
        #expect(watch.tick(at: start + .seconds(200)) == .none, "nobody named one since")
    }

    @Test("a key that was looked for in vain is looked for again after an interval, whoever named it before")
    func namedBefore() {
        var watch = KeySetWatch(times(), seed: 1)
        _ = watch.tick(at: start)
        watch.ended(well: true, at: start)
        #expect(watch.lacksKey(Self.new, at: start + .seconds(39)) == .zero, "a forger guesses the next name")
        #expect(watch.tick(at: start + .seconds(40)) == .read)
        watch.ended(well: true, at: start + .seconds(41))
        #expect(watch.lacksKey(Self.new, at: start + .seconds(69)) == nil, "not there, for an interval")
        #expect(watch.tick(at: start + .seconds(69)) == .none)
        #expect(watch.lacksKey(Self.new, at: start + .seconds(70)) == .zero, "and who has it now is let in after the next reading")
        #expect(watch.tick(at: start + .seconds(71)) == .read)
        watch.ended(well: true, at: start + .seconds(72))
        #expect(watch.lacksKey(Self.new, at: start + .seconds(73)) == nil)
    }

    @Test("what couldn't be read is read again after an interval, and who names a key meanwhile isn't told that there's none")
    func failing() {
        var watch = KeySetWatch(times(), seed: 1)
        _ = watch.tick(at: start)
        watch.ended(well: false, at: start + .seconds(10))
        #expect(watch.lacksKey(Self.new, at: start + .seconds(11)) == .seconds(19))
        #expect(watch.tick(at: start + .seconds(29)) == .none && watch.tick(at: start + .seconds(30)) == .read)
        watch.ended(well: false, at: start + .seconds(31))
        #expect(watch.lacksKey(Self.new, at: start + .seconds(32)) != nil)
    }

    @Test("thousands of names are no more to remember than a few hundred, and none of them is believed to be missing without a look")
    func many() {
        var watch = KeySetWatch(times(), seed: 1)
        _ = watch.tick(at: start)
        watch.ended(well: true, at: start)
        for number in 0..<5000 { #expect(watch.lacksKey(Array("\(number)".utf8), at: start + .seconds(1)) == .seconds(29)) }
        #expect(watch.tick(at: start + .seconds(30)) == .read)
        watch.ended(well: true, at: start + .seconds(31))
        #expect(watch.lacksKey(Array("0".utf8), at: start + .seconds(32)) == nil)
        #expect(watch.lacksKey(Array("4999".utf8), at: start + .seconds(32)) != nil)
    }

    @Test("keys count on for the time that they're kept, and then no more")
    func stale() {
        var watch = KeySetWatch(times(), seed: 1)
        _ = watch.tick(at: start)
        watch.ended(well: true, at: start)
        var now = start + .seconds(600)
        var readings = 0
        while now < start + .seconds(3600) {
            if watch.tick(at: now) == .read {
                readings += 1
                watch.ended(well: false, at: now)
            }
            now = now + .seconds(10)
        }
        #expect(readings == 100)
        #expect(watch.tick(at: start + .seconds(3600)) == .forget && watch.tick(at: start + .seconds(3601)) == .read)
        watch.ended(well: true, at: start + .seconds(3602))
        #expect(watch.tick(at: start + .seconds(3603)) == .none)
    }
}
