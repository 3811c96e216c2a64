import HubBase
import HubCheck
import HubClient

/// One thing that a run must keep to: `p99<50ms`, `loss=0`, `errors<=0.1%`. Parsed from words, judged against `Measures`.
///
/// A measure about which the run can say nothing (the latency of nothing, the loss of nothing sent) isn't kept: an empty run proves nothing.
package struct Expectation: Sendable, Equatable {
    package enum Comparison: String, Sendable, CaseIterable {
        // Longer ones first: the first that fits is taken.
        case atMost = "<=", atLeast = ">=", equal = "==", not = "!=", less = "<", more = ">", same = "="
    }

    /// What is looked at.
    package enum Measure: Sendable, Equatable {
        /// 0 to 100; of one lane, or of all deliveries to normal bots.
        case percentile(Double, Measures.Lane?)
        case maximum(Measures.Lane?)
        /// Of the checker's and the tallies' findings; nil: all of them.
        case violations(String?)
        /// By code; nil: all of them.
        case errors(String?)
        case ends
        case counter(String)
        /// A second of the measured time.
        case rate(String)
    }

    /// What it's compared with.
    package enum Bound: Sendable, Equatable {
        case nanoseconds(Double)
        case number(Double)
        /// 0 to 1 and more: of what it could have been.
        case share(Double)
    }

    package var text: String
    package var measure: Measure
    package var comparison: Comparison
    package var bound: Bound

    package struct Judgement: Sendable, Equatable {
        package var expectation: String
        package var measured: String
        package var isKept: Bool

        package init(expectation: String, measured: String, isKept: Bool) {
            self.expectation = expectation
            self.measured = measured
            self.isKept = isKept
        }
    }

    private static let expectationsMax = 64

    /// Several, with commas between them.
    package static func parse(_ text: String) throws(CommandLineError) -> [Expectation] {
        let parts = text.split(separator: ",", omittingEmptySubsequences: false)
        guard parts.count <= expectationsMax else { throw CommandLineError("--expect: more than \(expectationsMax) expectations") }
        var all: [Expectation] = []
        for part in parts {
            let trimmed = Self.trimmed(part)
            guard !trimmed.isEmpty else { throw CommandLineError("--expect: an empty expectation in \(CommandLineError.quoted(text))") }
            all.append(try Expectation(trimmed))
        }
        return all
    }

    package init(_ text: String) throws(CommandLineError) {
        self.text = text
        var found: (name: Substring, comparison: Comparison, value: Substring)?
        for place in text.indices where found == nil && "<>=!".contains(text[place]) {
            guard let comparison = Comparison.allCases.first(where: { text[place...].hasPrefix($0.rawValue) }) else { break }
            found = (text[..<place], comparison, text[text.index(place, offsetBy: comparison.rawValue.count)...])
        }
        guard let found else {
            throw CommandLineError(
                "--expect: \(CommandLineError.quoted(text)) isn't a comparison such as p99<50ms; one of <, <=, =, !=, >=, > must be in it")
        }
        comparison = found.comparison
        measure = try Self.measure(Self.trimmed(found.name), in: text)
        bound = try Self.bound(Self.trimmed(found.value), in: text)
        try checkUnits()
    }

    static func trimmed(_ text: Substring) -> String {
        var text = text
        while let first = text.first, first == " " || first == "\t" { text.removeFirst() }
        while let last = text.last, last == " " || last == "\t" { text.removeLast() }
        return String(text)
    }

    // MARK: Words

    static let counters: [String: String] = [
        "sent": Measures.Counter.sent, "acknowledged": Measures.Counter.acknowledged, "delivered": Measures.Counter.delivered,
        "expected": Measures.Counter.expected, "joined": Measures.Counter.joined, "reconnects": Measures.Counter.reconnects,
        "recovered": Measures.Counter.recovered, "restarts": Measures.Counter.restarts, "checked": Measures.Counter.checked,
        "requests": Measures.Counter.requests, "cutOff": Measures.Counter.cutOff, "notLetIn": Measures.Counter.notLetIn,
    ]
    /// Errors that have a name of their own: they say that a run proves less than its other figures seem to.
    private static let gaps = ["unsent", "unanswered"]
    /// Of `violations.KIND`: what the checkers find, as the swarm calls it.
    static let violationKinds: [String] = {
        let renamed: [CheckReport.Fault] = [.lost, .gap, .twice]
        var names = ["lost", "duplicated"]
        names += CheckReport.Fault.allCases.filter { !renamed.contains($0) }.map(\.rawValue)
        names += EphemeralChecker.Fault.allCases.map(\.rawValue)
        names += PresenceChecker.Fault.allCases.map(\.rawValue)
        return names
    }()
    /// Of `errors.CODE`: what a hub says, and what the swarm counts itself.
    static let errorCodes: [String] =
        RefusalCodes.all + gaps + [
            "timeout", "disconnected", "unsubscribed", "resync", "violation", "ackWithoutOffset", "ackWithoutPosition", "other",
        ]
    private static let kinds = ["chat", "event", "read", "typing", "presence", "system", "ack", "connect", "recover"]
    private static let names =
        ["loss", "duplicated", "outOfOrder", "violations", "errors", "ends", "max", "p50", "p90", "p99", "p99.9", "p99.99"]
        + gaps + counters.keys.sorted() + ["sent/s", "acknowledged/s", "delivered/s"]

    /// `[hostile.][class.]p99`, `errors.CODE`, `violations.KIND`, a counter, a counter a second.
    private static func measure(_ name: String, in text: String) throws(CommandLineError) -> Measure {
        if name == "loss" || name == "lost" { return .violations("lost") }
        if name == "duplicated" || name == "outOfOrder" { return .violations(name) }
        if name == "violations" { return .violations(nil) }
        if name == "errors" { return .errors(nil) }
        if name == "ends" { return .ends }
        if gaps.contains(name) { return .errors(name) }
        if let counter = counters[name] { return .counter(counter) }
        if name.hasSuffix("/s"), let counter = counters[String(name.dropLast(2))] { return .rate(counter) }
        var parts = name.split(separator: ".", omittingEmptySubsequences: false).map(String.init)
        if parts.count == 2, parts[0] == "errors" { return .errors(try known(parts[1], "an error's code", in: errorCodes)) }
        if parts.count == 2, parts[0] == "violations" {
            return .violations(try known(parts[1], "a kind of violation", in: violationKinds))
        }
        var population = Measures.Population.normal
        if parts.count > 1, let named = Measures.Population(rawValue: parts[0]) {
            population = named
            parts.removeFirst()
        }
        var lane: Measures.Lane?
        if parts.count > 1, kinds.contains(parts[0]) { lane = Measures.Lane(parts.removeFirst(), population) }
        if lane == nil, population == .hostile {
            throw CommandLineError("--expect: \(CommandLineError.quoted(text)): name the class too: hostile.chat.p99")
        }
        let last = parts.joined(separator: ".")
        if last == "max" { return .maximum(lane) }
        if last.hasPrefix("p"), let percent = Double(last.dropFirst()), percent > 0, percent <= 100 { return .percentile(percent, lane) }
        throw CommandLineError(
            "--expect: \(CommandLineError.quoted(name)) is nothing that's measured", nearest: Nearest.to(name, in: names))
    }

    /// A misspelt name has no count, and none is what's wanted of most: it would always be kept.
    private static func known(_ name: String, _ what: String, in names: [String]) throws(CommandLineError) -> String {
        if names.contains(name) { return name }
        let nearest = Nearest.to(name, in: names)
        let others = nearest == nil ? "; there are \(names.sorted().joined(separator: ", "))" : ""
        throw CommandLineError("--expect: \(CommandLineError.quoted(name)) isn't \(what)\(others)", nearest: nearest)
    }

    private static func bound(_ value: String, in text: String) throws(CommandLineError) -> Bound {
        let units: [(String, (Double) -> Bound)] = [
            ("ns", { .nanoseconds($0) }), ("us", { .nanoseconds($0 * 1e3) }), ("µs", { .nanoseconds($0 * 1e3) }),
            ("ms", { .nanoseconds($0 * 1e6) }), ("s", { .nanoseconds($0 * 1e9) }), ("%", { .share($0 / 100) }),
        ]
        for (unit, make) in units where value.hasSuffix(unit) {
            if let number = Self.number(value.dropLast(unit.count)) { return make(number) }
            break
        }
        if let number = Self.number(value[...]) { return .number(number) }
        throw CommandLineError(
            "--expect: \(CommandLineError.quoted(value)) in \(CommandLineError.quoted(text)) isn't a number such as 50ms, 1.5s, 0.1% or 0")
    }

    private static func number(_ text: Substring) -> Double? {
        let digits = trimmed(text)
        // Double takes "inf", "0x1p3" and "-1" too.
        guard !digits.isEmpty, digits.allSatisfy({ $0.isASCII && ($0.isNumber || $0 == ".") }), let value = Double(digits), value < 1e15
        else {
            return nil
        }
        return value
    }

    private func checkUnits() throws(CommandLineError) {
        func wrong(_ wants: String) -> CommandLineError {
            CommandLineError("--expect: \(CommandLineError.quoted(text)): \(wants)")
        }
        switch (measure, bound) {
        case (.percentile, .nanoseconds), (.maximum, .nanoseconds): break
        case (.percentile, _), (.maximum, _): throw wrong("a latency is compared with a time: 50ms, 1.5s")
        case (_, .nanoseconds): throw wrong("a count is compared with a number or a percentage, not a time")
        case (.rate, .share): throw wrong("a rate is compared with a number")
        case (.counter(let name), .share):
            guard [Measures.Counter.joined, Measures.Counter.delivered, Measures.Counter.acknowledged].contains(name) else {
                throw wrong("there is nothing that \(name) could be a percentage of")
            }
        default: break
        }
    }
}
