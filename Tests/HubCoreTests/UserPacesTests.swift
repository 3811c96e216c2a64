import HubBase
import HubCore
import HubWire
import Testing

@Suite("Rates of users: many loops, one budget")
struct UserPacesTests {
    private static let start = Instant(nanoseconds: 1_000_000_000_000)

    /// Loops that share a store whose answers take a while: what a cluster of so many lessees does.
    private final class World: RateStoreDelegate {
        var now = UserPacesTests.start
        var lessees: [UserPaces]
        private var places: [UserPaces.Place] = []
        private let store = MemoryRateStore()
        private let delay: Span
        private var wires: [(due: Instant, lessee: Int, number: UInt64, report: RateReport)] = []
        private var answers: [(due: Instant, lessee: Int, number: UInt64, overdrafts: [Span])] = []
        private(set) var calls = 0
        var isCut = false

        init(lessees count: Int, perSecond: Int, burst: Span = .seconds(1), delay: Span = .milliseconds(5)) {
            var limits = Configuration.Limits()
            limits.user.messages = perSecond
            limits.burst = burst
            lessees = (0..<count).map { _ in UserPaces(limits) }
            self.delay = delay
            store.delegate = self
            for index in lessees.indices { places.append(lessees[index].hold("alice", at: now)) }
        }

        func settled(_ result: Result<[Span], WireError>, tag: RequestTag) {
            guard case .success(let overdrafts) = result else { return }
            answers.append((now + delay, Int(tag.high), tag.low, overdrafts))
        }

        /// One message on one lessee; nil when it was let through.
        func send(_ lessee: Int) -> Refusal? {
            let refusal = lessees[lessee].take(1, .messages, of: places[lessee], at: now)
            collect(lessee)
            return refusal
        }

        private func collect(_ lessee: Int) {
            for (report, number) in lessees[lessee].takeReports() {
                calls += 1
                wires.append((now + delay, lessee, number, report))
            }
        }

        func step(_ span: Span) {
            now = now + span
            let due = wires.filter { $0.due <= now }
            wires.removeAll { $0.due <= now }
            for wire in due where !isCut {
                store.settle(wire.report, tag: RequestTag(high: UInt64(wire.lessee), low: wire.number), at: now)
            }
            store.advance(at: now)
            let back = answers.filter { $0.due <= now }
            answers.removeAll { $0.due <= now }
            for answer in back {
                lessees[answer.lessee].settled(.success(answer.overdrafts), number: answer.number, at: now)
                collect(answer.lessee)
            }
        }
    }

    @Test(
        "whoever floods on several loops at once gets the rate and one burst, within 10 %, at five calls a second",
        arguments: [(1, 100), (2, 100), (2, 10), (2, 1000), (4, 50), (8, 100)])
    func flood(lessees: Int, perSecond: Int) {
        let world = World(lessees: lessees, perSecond: perSecond)
        var passed = 0
        let seconds = 30
        // Each loop gets four times the whole rate.
        let messagesPerStep = max(perSecond * 4 / 1000, 1)
        let stepMilliseconds = max(1000 / (perSecond * 4), 1)
        for step in 0..<(seconds * 1000) {
            if step % stepMilliseconds == 0 {
                for lessee in 0..<lessees { for _ in 0..<messagesPerStep where world.send(lessee) == nil { passed += 1 } }
            }
            world.step(.milliseconds(1))
        }
        let allowed = perSecond * seconds + perSecond
        #expect(Double(passed) <= Double(allowed) * 1.1)
        #expect(Double(passed) >= Double(perSecond * seconds) * 0.9)
        #expect(world.calls <= min(5 * (seconds + 1 + lessees), allowed + perSecond * lessees) + lessees)
    }

    @Test("who stays below a hundredth of the rate is never reported, and who stays below the whole of it is never refused")
    func quiet() {
        let world = World(lessees: 2, perSecond: 100)
        for _ in 0..<600 {
            #expect(world.send(0) == nil)
            world.step(.milliseconds(1100))
        }
        #expect(world.calls == 0)
        for step in 0..<20_000 {
            // 45 a second on each of two loops.
            if step % 22 == 0 { for lessee in 0...1 { #expect(world.send(lessee) == nil) } }
            world.step(.milliseconds(1))
        }
        #expect(world.calls > 0)
    }

    @Test("a refusal names the limit and the time to wait, after which it will do")
    func refusal() {
        let world = World(lessees: 1, perSecond: 10)
        for _ in 0..<10 { #expect(world.send(0) == nil) }
        let refusal = world.send(0)
        #expect(refusal?.limit == .userMessages)
        #expect(refusal?.error.code == .rateLimited)
        #expect(refusal?.error.message == "more than 10 messages of one user a second (limits.user.messagesPerSecond)")
        #expect(refusal?.error.retryAfter == 100)
        world.step(.milliseconds(100))
        #expect(world.send(0) == nil)
    }

    @Test("while the store is away each node allows its share, and nothing is reported; afterwards the sum holds again")
    func away() {
        let world = World(lessees: 2, perSecond: 100)
        for lessee in 0...1 {
            world.lessees[lessee].change(nodes: 2)
            world.lessees[lessee].change(isAway: true)
        }
        world.isCut = true
        var passed = 0
        for _ in 0..<10_000 {
            for lessee in 0...1 where world.send(lessee) == nil { passed += 1 }
            world.step(.milliseconds(1))
        }
        // A burst of each one's share, and the shares.
        #expect((990...1110).contains(passed))
        #expect(world.calls == 0)
        world.isCut = false
        for lessee in 0...1 { world.lessees[lessee].change(isAway: false) }
        passed = 0
        for _ in 0..<20_000 {
            for lessee in 0...1 where world.send(lessee) == nil { passed += 1 }
            world.step(.milliseconds(1))
        }
        #expect((1800...2310).contains(passed))
    }

    @Test("coming back doesn't refill a bucket; who left long ago is forgotten as others come")
    func forgetting() {
        var limits = Configuration.Limits()
        limits.user.messages = 10
        limits.burst = .seconds(1)
        var paces = UserPaces(limits)
        let now = Self.start
        let first = paces.hold("alice", at: now)
        for _ in 0..<10 { #expect(paces.take(1, .messages, of: first, at: now) == nil) }
        for (_, number) in paces.takeReports() { paces.settled(.success([.zero]), number: number, at: now) }
        _ = paces.takeReports()
        paces.release(first)
        let again = paces.hold("alice", at: now)
        #expect(paces.take(1, .messages, of: again, at: now) != nil)
        paces.release(again)
        for number in 0..<1000 {
            let place = paces.hold(Name(trusted: Array("user\(number)".utf8)), at: now + .seconds(60))
            paces.release(place)
        }
        #expect(paces.count < 10)
    }

    @Test("an answer to a report of one who was forgotten meanwhile touches nobody else")
    func late() {
        var limits = Configuration.Limits()
        limits.user.messages = 5
        var paces = UserPaces(limits)
        let place = paces.hold("alice", at: Self.start)
        _ = paces.take(1, .messages, of: place, at: Self.start)
        let number = paces.takeReports()[0].number
        paces.settled(.success([.seconds(1000)]), number: number &+ (1 << 32), at: Self.start)
        paces.settled(.success([.seconds(1000)]), number: number | 0xFFFF, at: Self.start)
        #expect(paces.take(1, .messages, of: place, at: Self.start) == nil)
        // And no answer locks out for longer than a minute.
        paces.settled(.success([.seconds(1000)]), number: number, at: Self.start)
        let refusal = paces.take(1, .messages, of: place, at: Self.start)
        #expect(refusal?.error.retryAfter == 60_000)
    }

    @Test("a report that failed isn't repeated, and its user goes on")
    func failed() {
        var limits = Configuration.Limits()
        limits.user.messages = 5
        var paces = UserPaces(limits)
        let place = paces.hold("alice", at: Self.start)
        _ = paces.take(1, .messages, of: place, at: Self.start)
        let reports = paces.takeReports()
        #expect(reports.count == 1)
        paces.settled(.failure(WireError(.unavailable, "")), number: reports[0].number, at: Self.start)
        #expect(paces.hasReports == false)
        #expect(paces.take(1, .messages, of: place, at: Self.start) == nil)
        #expect(paces.takeReports().map(\.report.charges) == reports.map(\.report.charges))
    }
}
