/// Looks for the largest load that still keeps to the target: raises it geometrically until it breaks, halves the span between what held
/// and what broke, then asks the answer again, because one step of a noisy system proves little.
///
/// A machine: `next` says which load to try, `record` is told how it went. It always ends: every load is tried at most `repeats` times,
/// and there are at most `stepsMax` steps. A step counts as broken when the load is, by most of its tries: a first break is tried once
/// more before it's believed (a hiccup must not end the raising), a first success isn't, because the confirmation comes at the end.
package struct Knee: Sendable {
    package struct Limits: Sendable, Equatable {
        package var least: Double
        package var most: Double
        /// The next load while raising; 2 doubles.
        package var factor = 2.0
        /// The answer is within this share of the truth, if the system has one.
        package var precision = 0.1
        /// Times that the answer must hold in all.
        package var repeats = 3
        package var stepsMax = 40
        /// Loads are whole numbers (bots), or any (rates).
        package var isWhole = true

        package init(least: Double, most: Double) {
            self.least = least
            self.most = most
        }
    }

    package enum Step: Sendable, Equatable {
        case measure(Double)
        case finished(Answer)
    }

    package enum Answer: Sendable, Equatable {
        /// `broke`: the lowest load that broke; nil when the most that was allowed held.
        case held(Double, broke: Double?)
        /// Even the least broke.
        case nothing
        /// `stepsMax` was used up: the best there is.
        case unsettled(Double?)
    }

    private struct Load: Sendable {
        var held = 0
        var broken = 0
    }

    /// Why a load didn't hold although its figures may keep the targets: who was refused at the door and came in when others had left isn't
    /// held, unless a target names it (`notLetIn`, `ends`).
    package static func refusals(in measures: Measures, unless targets: [Expectation]) -> [String] {
        let count = measures.counter(Measures.Counter.notLetIn)
        let isNamed = targets.contains { $0.measure == .counter(Measures.Counter.notLetIn) || $0.measure == .ends }
        return count == 0 || isNamed ? [] : ["\(ReportNumbers.count(count)) attempts to connect weren't let in"]
    }

    private let limits: Limits
    private var tries: [(load: Double, counts: Load)] = []
    private var steps = 0
    private var current: Double

    package init(_ limits: Limits) {
        precondition(limits.least > 0 && limits.most >= limits.least && limits.factor > 1, "limits of a search that can't be")
        self.limits = limits
        current = limits.least
    }

    package mutating func record(held: Bool) {
        steps += 1
        let place = tries.firstIndex { $0.load == current } ?? tries.count
        if place == tries.count { tries.append((current, Load())) }
        if held { tries[place].counts.held += 1 } else { tries[place].counts.broken += 1 }
    }

    package mutating func next() -> Step {
        guard steps < limits.stepsMax else { return .finished(.unsettled(best)) }
        if tries.isEmpty { return measure(limits.least) }
        // A first break is asked again; a tie once more.
        for (load, counts) in tries where verdict(counts) == nil { return measure(load) }
        let broken = tries.filter { verdict($0.counts) == false }.map(\.load).min()
        // What holds above a load that broke was luck.
        guard let held = tries.filter({ verdict($0.counts) == true && $0.load < broken ?? .infinity }).map(\.load).max() else {
            guard let broken, broken > limits.least else { return .finished(.nothing) }
            return measure(between(limits.least, broken))
        }
        if let broken {
            let middle = between(held, broken)
            if broken / held > 1 + limits.precision, middle > held, middle < broken { return measure(middle) }
        } else if held < limits.most {
            return measure(min(rounded(held * limits.factor, above: held), limits.most))
        }
        // Confirmed by enough tries, or broken by them, which goes on below it.
        if let counts = tries.first(where: { $0.load == held })?.counts, counts.held < limits.repeats { return measure(held) }
        return .finished(.held(held, broke: broken))
    }

    /// true held, false broke, nil not settled. Two breaks more than it held are a break at once; one break is asked again.
    private func verdict(_ counts: Load) -> Bool? {
        if counts.broken == 0 { return true }
        if counts.broken > counts.held + 1 || counts.broken >= limits.repeats { return false }
        if counts.held > counts.broken { return true }
        return nil
    }

    private var best: Double? {
        let broken = tries.filter { verdict($0.counts) == false }.map(\.load).min() ?? .infinity
        return tries.filter { verdict($0.counts) == true && $0.load < broken }.map(\.load).max()
    }

    private mutating func measure(_ load: Double) -> Step {
        current = load
        return .measure(load)
    }

    private func between(_ low: Double, _ high: Double) -> Double { rounded((low * high).squareRoot(), above: low) }

    private func rounded(_ load: Double, above low: Double) -> Double {
        guard limits.isWhole else { return load }
        return max(load.rounded(), low + 1)
    }
}
