import HubBase
import HubSwarm
import Testing

@Suite("The arrival schedule")
struct ArrivalScheduleTests {
    private static func all(_ schedule: ArrivalSchedule) -> [ArrivalSchedule.Arrival] {
        var schedule = schedule
        var all: [ArrivalSchedule.Arrival] = []
        while let arrival = schedule.next() { all.append(arrival) }
        return all
    }

    @Test("the same seed gives the same schedule, another one another")
    func seed() {
        let one = Self.all(ArrivalSchedule(bots: 10, rate: 5, end: .seconds(10), seed: 1))
        #expect(one == Self.all(ArrivalSchedule(bots: 10, rate: 5, end: .seconds(10), seed: 1)))
        #expect(one != Self.all(ArrivalSchedule(bots: 10, rate: 5, end: .seconds(10), seed: 2)))
    }

    @Test("it never goes back, ends before the end, and every bot has its share")
    func shape() {
        let arrivals = Self.all(ArrivalSchedule(bots: 20, rate: 5, end: .seconds(100), seed: 3))
        // Poisson with mean 10,000: ± 100; six deviations.
        #expect((9400...10_600).contains(arrivals.count))
        #expect(zip(arrivals, arrivals.dropFirst()).allSatisfy { $0.at <= $1.at })
        #expect(arrivals.allSatisfy { $0.at < .seconds(100) })
        var shares = Array(repeating: 0, count: 20)
        for arrival in arrivals { shares[arrival.bot] += 1 }
        // Mean 500: ± 22.4; six deviations.
        for share in shares { #expect((366...634).contains(share)) }
    }

    @Test("waiting times are exponential: the share above the mean is 1/e")
    func exponential() {
        let arrivals = Self.all(ArrivalSchedule(bots: 1, rate: 1000, end: .seconds(20), seed: 4))
        let gaps = zip(arrivals, arrivals.dropFirst()).map { $1.at.since($0.at) }
        let above = Double(gaps.filter { $0 > 1_000_000 }.count) / Double(gaps.count)
        // Binomial, 20,000 draws at 0.3679: ± 0.0034; six deviations.
        #expect(abs(above - 0.3679) < 0.0205)
    }

    @Test("without bots, rate or time there are no arrivals", arguments: [(0, 1, 10), (1, 0, 10), (1, 1, 0)] as [(Int, Double, UInt64)])
    func nothing(_ bots: Int, _ rate: Double, _ seconds: UInt64) {
        #expect(Self.all(ArrivalSchedule(bots: bots, rate: rate, end: .seconds(seconds), seed: 1)).isEmpty)
    }
}

extension Span {
    fileprivate func since(_ earlier: Span) -> UInt64 { nanoseconds - earlier.nanoseconds }
}
