import HubBase
import HubSwarm
import Testing

/// The search against a played hub: one server with a queue, whose tail grows without bound near its capacity, with noise.
@Suite("Finding the knee")
struct KneeTests {
    /// p99 of M/M/1 in milliseconds, times a noise that is now and then a hiccup.
    private static func p99(load: Double, capacity: Double, noise: Double, _ chance: inout Chance) -> Double {
        guard load < capacity else { return .infinity }
        let uniform = Double(chance.next() >> 11) / Double(1 << 53 as UInt64)
        let hiccup = chance.next() % 20 == 0 && noise > 0 ? 3.0 : 1
        return 4.6 / (capacity - load) * 1000 * (1 + noise * (2 * uniform - 1)) * hiccup
    }

    private static func search(
        _ limits: Knee.Limits, target: Double, capacity: Double, noise: Double = 0, seed: UInt64 = 1
    ) -> (answer: Knee.Answer, steps: [Double]) {
        var knee = Knee(limits)
        var chance = Chance(seed: seed)
        var steps: [Double] = []
        while true {
            switch knee.next() {
            case .measure(let load):
                steps.append(load)
                knee.record(held: p99(load: load, capacity: capacity, noise: noise, &chance) < target)
                if steps.count > 1000 { return (.unsettled(nil), steps) }
            case .finished(let answer): return (answer, steps)
            }
        }
    }

    @Test("without noise the answer is within the precision of the truth, and was confirmed", arguments: [300.0, 1000, 12_345, 90_000])
    func exact(capacity: Double) throws {
        // Held while 4600 / (capacity - load) < 200, so up to capacity - 23.
        let (answer, steps) = Self.search(Knee.Limits(least: 100, most: 100_000), target: 200, capacity: capacity)
        guard case .held(let load, broke: .some(let broke)) = answer else {
            Issue.record("\(answer)")
            return
        }
        let truth = capacity - 23
        #expect(load <= truth && broke >= truth && broke / load <= 1.1)
        #expect(steps.count { $0 == load } == 3, "confirmed by repeats")
        #expect(steps.count <= 30)
    }

    @Test("with noise and hiccups it still ends near the truth, from any seed", arguments: 1...40)
    func noisy(seed: UInt64) throws {
        let (answer, steps) = Self.search(
            Knee.Limits(least: 100, most: 100_000), target: 200, capacity: 5000, noise: 0.3, seed: seed)
        #expect(steps.count <= 40)
        switch answer {
        case .held(let load, _): #expect(load > 3800 && load < 5000, "\(load)")
        case .unsettled(let load): #expect(load ?? 0 > 3000 && load ?? 0 < 5000)
        case .nothing: Issue.record("nothing held")
        }
    }

    @Test("one hiccup doesn't end the raising: a first break is asked again")
    func hiccup() {
        var knee = Knee(Knee.Limits(least: 100, most: 800))
        #expect(knee.next() == .measure(100))
        knee.record(held: false)
        #expect(knee.next() == .measure(100))
        knee.record(held: true)
        #expect(knee.next() == .measure(100), "one each: a third decides")
        knee.record(held: true)
        #expect(knee.next() == .measure(200))
    }

    @Test("even the least breaks: nothing held")
    func nothing() {
        #expect(Self.search(Knee.Limits(least: 100, most: 1000), target: 200, capacity: 50).answer == .nothing)
    }

    @Test("the most that's allowed holds: said so, with nothing that broke")
    func most() {
        #expect(Self.search(Knee.Limits(least: 100, most: 1000), target: 200, capacity: 1e6).answer == .held(1000, broke: nil))
        #expect(Self.search(Knee.Limits(least: 100, most: 100), target: 200, capacity: 1e6).answer == .held(100, broke: nil))
    }

    @Test("an answer that doesn't hold when it's asked again goes on below it")
    func unconfirmed() {
        var knee = Knee(Knee.Limits(least: 100, most: 200))
        var results = [100.0: [true], 200.0: [true, false, false, false]]
        var last: Knee.Step
        while true {
            last = knee.next()
            guard case .measure(let load) = last else { break }
            var left = results[load] ?? []
            let held = left.isEmpty ? load < 150 : left.removeFirst()
            results[load] = left
            knee.record(held: held)
        }
        guard case .finished(.held(let load, broke: .some(let broke))) = last else {
            Issue.record("\(last)")
            return
        }
        #expect(load < 150 && broke >= 150 && broke <= 200)
    }

    @Test("it always ends, however the system behaves", arguments: 1...20)
    func ends(seed: UInt64) {
        var knee = Knee(Knee.Limits(least: 1, most: 1_000_000))
        var chance = Chance(seed: seed)
        var steps = 0
        while case .measure = knee.next() {
            knee.record(held: chance.next() % 2 == 0)
            steps += 1
            if steps > 40 { break }
        }
        #expect(steps <= 40)
    }

    @Test("loads are whole where people are counted, and fractions where rates are")
    func fractions() {
        let whole = Self.search(Knee.Limits(least: 1, most: 50), target: 1000, capacity: 30).steps
        #expect(whole.allSatisfy { $0 == $0.rounded() })
        var limits = Knee.Limits(least: 0.1, most: 50)
        limits.isWhole = false
        #expect(Self.search(limits, target: 1000, capacity: 30).steps.contains { $0 != $0.rounded() })
    }

    @Test("people who were refused at the door aren't held, unless the target names that")
    func refusals() throws {
        var measures = Measures()
        #expect(Knee.refusals(in: measures, unless: try Expectation.parse("loss=0")).isEmpty)
        measures.counters["notLetIn"] = 9
        #expect(
            Knee.refusals(in: measures, unless: try Expectation.parse("loss=0,joined=100%")) == ["9 attempts to connect weren't let in"])
        #expect(Knee.refusals(in: measures, unless: try Expectation.parse("notLetIn<10")).isEmpty)
        #expect(Knee.refusals(in: measures, unless: try Expectation.parse("ends<10%")).isEmpty)
    }

    @Test(
        "what was asked for is checked",
        arguments: [
            ("", "--target is missing"), ("--target p99<200", "compared with a time"),
            ("--target p99<1s --raise user", "did you mean users"),
            ("--target p99<1s --from 0", "--from"), ("--target p99<1s --from 10.5", "whole"),
            ("--target p99<1s --from 10 --to 5", "more than"),
            ("--target p99<1s --precision 0.1", "--precision"), ("--target p99<1s --repeats 0", "--repeats"),
            ("--target p99<1s --raise rate chat", "of a scenario"),
            ("--target p99<1s --bots 20", "--raise rate"), ("--target p99<1s --raise rate --bots 0", "--bots"),
            ("--target p99<1s --raise rate --rate 2", "--from"),
        ])
    func options(line: String, why: String) throws {
        let parser = CommandLineParser(
            program: "find", summary: "", flags: KneeOptions.flags + [CommandLineParser.Flag("rate", value: "R", help: "")],
            operands: [CommandLineParser.Operand("SCENARIO", .optional, help: "")])
        let arguments = try parser.parse(line.split(separator: " ").map(String.init))
        let error = #expect(throws: CommandLineError.self) { try KneeOptions(arguments) }
        #expect(error?.description.contains(why) == true, "\(error?.description ?? "")")
    }
}
