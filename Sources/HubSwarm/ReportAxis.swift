import Glibc

/// One direction of a plot: where a value lies between 0 and 1, and at which values there are words.
struct ReportAxis {
    struct Tick: Equatable {
        var place: Double
        var text: String
    }

    private let isLogarithmic: Bool
    let least: Double
    let greatest: Double
    private(set) var ticks: [Tick] = []

    /// nil for what has no place: not finite; outside is moved to the edge.
    func place(_ value: Double) -> Double? {
        guard value.isFinite else { return nil }
        let share =
            isLogarithmic
            ? (log10(max(value, least)) - log10(least)) / (log10(greatest) - log10(least)) : (value - least) / (greatest - least)
        return min(max(share, 0), 1)
    }

    mutating func keepTicks(where isKept: (Int) -> Bool) { ticks = ticks.enumerated().filter { isKept($0.offset) }.map(\.element) }

    private init(isLogarithmic: Bool, least: Double, greatest: Double) {
        self.isLogarithmic = isLogarithmic
        self.least = least
        self.greatest = greatest
    }

    /// From zero to a round number that `greatest` doesn't pass, with about `count` words.
    static func linear(to greatest: Double, count: Int, text: (Double) -> String) -> ReportAxis {
        let highest = greatest.isFinite && greatest > 0 ? greatest : 1
        let rough = highest / Double(max(count, 1))
        let size = pow(10, floor(log10(rough)))
        let step = size * ([1, 2, 2.5, 5, 10].first { $0 * size >= rough * 0.999 } ?? 10)
        let steps = max((highest / step * 0.9999).rounded(.up), 1)
        var axis = ReportAxis(isLogarithmic: false, least: 0, greatest: step * steps)
        for index in 0...Int(steps) { axis.ticks.append(Tick(place: Double(index) / steps, text: text(step * Double(index)))) }
        return axis
    }

    /// Seconds of a run: its end is the axis's, words at round times.
    static func time(seconds: Double, count: Int) -> ReportAxis {
        let length = max(seconds.isFinite ? seconds : 1, 1)
        var axis = ReportAxis(isLogarithmic: false, least: 0, greatest: length)
        let steps: [Double] = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14_400, 21_600, 43_200]
        let step = steps.first { length / $0 <= Double(max(count, 1)) } ?? 86_400
        var at = 0.0
        while at <= length {
            let text = at < 120 || step < 60 ? "\(Int(at)) s" : at < 7200 || step < 3600 ? "\(Int(at / 60)) min" : "\(Int(at / 3600)) h"
            axis.ticks.append(Tick(place: at / length, text: text))
            at += step
        }
        return axis
    }

    /// Of times in nanoseconds, whole decades or their 1-2-5 parts around what there is.
    static func times(from least: Double, to greatest: Double) -> ReportAxis {
        let low = max(least.isFinite ? least : 1000, 1)
        let high = max(greatest.isFinite ? greatest : low, low * 1.01)
        var bottom = pow(10, floor(log10(low)))
        for part in [5.0, 2.0] where bottom * part <= low {
            bottom *= part
            break
        }
        let decade = pow(10, floor(log10(high)))
        let top = [1, 2, 5, 10].map { $0 * decade }.first { $0 >= high * 0.999 } ?? decade * 10
        var axis = ReportAxis(isLogarithmic: true, least: bottom, greatest: max(top, bottom * 2))
        let decades = log10(axis.greatest / axis.least)
        let parts: [Double] = decades <= 2.2 ? [1, 2, 5] : [1]
        var at = pow(10, floor(log10(bottom)))
        while at <= axis.greatest * 1.001 {
            for part in parts where at * part >= axis.least * 0.999 && at * part <= axis.greatest * 1.001 {
                guard let place = axis.place(at * part) else { continue }
                axis.ticks.append(Tick(place: place, text: roundTime(at * part)))
            }
            at *= 10
        }
        return axis
    }

    /// "50 ms" for a value that is round.
    private static func roundTime(_ nanoseconds: Double) -> String {
        let units: [(Double, String)] = [(1e9, "s"), (1e6, "ms"), (1e3, "µs")]
        for (unit, name) in units where nanoseconds >= unit * 0.999 {
            return ReportNumbers.count(UInt64((nanoseconds / unit).rounded())) + " " + name
        }
        return "\(UInt64(nanoseconds.rounded())) ns"
    }

    /// Percentiles, each decade of what's left out as wide as the last (HdrHistogram's plot): 0, 90, 99, 99.9 per cent …; `nines`: how many.
    static func percentiles(nines: Int) -> ReportAxis {
        let count = min(max(nines, 1), 7)
        var axis = ReportAxis(isLogarithmic: false, least: 0, greatest: Double(count))
        let words = ["0 %", "90 %", "99 %", "99.9 %", "99.99 %", "99.999 %", "99.9999 %", "99.99999 %"]
        for index in 0...count { axis.ticks.append(Tick(place: Double(index) / Double(count), text: words[index])) }
        return axis
    }
}
