import HubBase

/// One value that a scenario has: its place, its bounds, what it's for. The one list that files, `--set` and docs/swarm.md share.
package struct ScenarioField {
    package enum Kind {
        case text(atMost: Int, WritableKeyPath<Scenario, String>)
        case whole(ClosedRange<Int>, WritableKeyPath<Scenario, Int>)
        case wholeOrNone(ClosedRange<Int>, WritableKeyPath<Scenario, Int?>)
        case number(ClosedRange<Double>, WritableKeyPath<Scenario, Double>)
        case span(ClosedRange<Span>, WritableKeyPath<Scenario, Span>)
        case spanOrNone(ClosedRange<Span>, WritableKeyPath<Scenario, Span?>)
        case shape(WritableKeyPath<Scenario, Scenario.Session.Shape>)
        case messageClass(WritableKeyPath<Scenario, Scenario.Talk.Class>)
        case shares(WritableKeyPath<Scenario, [Double]>)
    }

    /// "rooms.count": the section's key and its own.
    package var path: String
    package var kind: Kind

    package static let usersMax = 1_000_000
    package static let devicesMax = 8
    private static let day: Span = .seconds(86_400)
    private static let gap: ClosedRange<Span> = .milliseconds(10)...day
    private static let length: ClosedRange<Span> = .zero...day

    /// In the order of the page.
    package static var all: [ScenarioField] {
        [
            ScenarioField(path: "name", kind: .text(atMost: 60, \.name)),
            ScenarioField(path: "about", kind: .text(atMost: 400, \.about)),
            ScenarioField(path: "users", kind: .whole(1...usersMax, \.users)),
            ScenarioField(path: "devices", kind: .shares(\.devices)),
            ScenarioField(path: "rampUp", kind: .span(length, \.rampUp)),
            ScenarioField(path: "warmUp", kind: .span(length, \.warmUp)),
            ScenarioField(path: "steady", kind: .span(.milliseconds(100)...day, \.steady)),
            ScenarioField(path: "coolDown", kind: .span(length, \.coolDown)),
            ScenarioField(path: "rooms.count", kind: .whole(1...usersMax, \.rooms.count)),
            ScenarioField(path: "rooms.popularity", kind: .number(0...3, \.rooms.popularity)),
            ScenarioField(path: "rooms.joined", kind: .whole(0...100, \.rooms.joined)),
            ScenarioField(path: "session.length", kind: .spanOrNone(.milliseconds(100)...day, \.session.length)),
            ScenarioField(path: "session.shape", kind: .shape(\.session.shape)),
            ScenarioField(path: "session.spread", kind: .number(0...3, \.session.spread)),
            ScenarioField(path: "session.pause", kind: .span(gap, \.session.pause)),
            ScenarioField(path: "talk.every", kind: .spanOrNone(gap, \.talk.every)),
            ScenarioField(path: "talk.class", kind: .messageClass(\.talk.kind)),
            ScenarioField(path: "talk.size", kind: .whole(0...1_048_576, \.talk.size)),
            ScenarioField(path: "talk.speakers", kind: .wholeOrNone(1...usersMax, \.talk.speakers)),
            ScenarioField(path: "talk.typing", kind: .spanOrNone(.zero ... .seconds(600), \.talk.typing)),
            ScenarioField(path: "talk.stopsWithin", kind: .span(.milliseconds(100) ... .seconds(3600), \.talk.stopsWithin)),
            ScenarioField(path: "read.every", kind: .spanOrNone(gap, \.readEvery)),
            ScenarioField(path: "away.every", kind: .spanOrNone(gap, \.away.every)),
            ScenarioField(path: "away.for", kind: .span(gap, \.away.lasts)),
            ScenarioField(path: "roster.users", kind: .whole(0...10_000, \.roster.users)),
            ScenarioField(path: "roster.onlineWithin", kind: .span(.milliseconds(100) ... .seconds(3600), \.roster.onlineWithin)),
            ScenarioField(path: "roster.offlineWithin", kind: .span(.milliseconds(100) ... .seconds(3600), \.roster.offlineWithin)),
            ScenarioField(path: "loss.every", kind: .spanOrNone(gap, \.loss.every)),
            ScenarioField(path: "loss.for", kind: .span(length, \.loss.lasts)),
            ScenarioField(path: "sleep.every", kind: .spanOrNone(gap, \.sleep.every)),
            ScenarioField(path: "sleep.for", kind: .span(length, \.sleep.lasts)),
            ScenarioField(path: "herd.at", kind: .spanOrNone(length, \.herd.at)),
            ScenarioField(path: "herd.every", kind: .spanOrNone(.seconds(1)...day, \.herd.every)),
            ScenarioField(path: "herd.share", kind: .number(0...1, \.herd.share)),
            ScenarioField(path: "herd.for", kind: .span(length, \.herd.lasts)),
            ScenarioField(path: "hostile.slow", kind: .whole(0...usersMax, \.hostile.slow)),
            ScenarioField(path: "hostile.halfOpen", kind: .whole(0...usersMax, \.hostile.halfOpen)),
            ScenarioField(path: "hostile.silent", kind: .whole(0...usersMax, \.hostile.silent)),
            ScenarioField(path: "hostile.halfHead", kind: .whole(0...usersMax, \.hostile.halfHead)),
            ScenarioField(path: "hostile.floods", kind: .whole(0...usersMax, \.hostile.floods)),
            ScenarioField(path: "hostile.garbage", kind: .whole(0...usersMax, \.hostile.garbage)),
            ScenarioField(path: "hostile.rate", kind: .number(0.1...100_000, \.hostile.rate)),
        ]
    }

    /// Puts a value where it belongs. Throws what is wrong with it, as the end of a sentence that begins with the field's name.
    package func set(_ value: ConfigurationValue, in scenario: inout Scenario) throws(ScenarioProblem) {
        switch kind {
        case .text(let limit, let path):
            guard case .text(let text) = value, text.utf8.count <= limit, !text.unicodeScalars.contains(where: { $0.value < 0x20 }) else {
                throw problem("is a text of at most \(limit) bytes in one line", value)
            }
            scenario[keyPath: path] = text
        case .whole(let range, let path): scenario[keyPath: path] = try whole(value, range)
        case .wholeOrNone(let range, let path): scenario[keyPath: path] = value == .null ? nil : try whole(value, range)
        case .number(let range, let path): scenario[keyPath: path] = try number(value, range)
        case .span(let range, let path): scenario[keyPath: path] = try span(value, range)
        case .spanOrNone(let range, let path): scenario[keyPath: path] = value == .null ? nil : try span(value, range)
        case .shape(let path): scenario[keyPath: path] = try word(value)
        case .messageClass(let path): scenario[keyPath: path] = try word(value)
        case .shares(let path):
            guard case .list(let elements) = value, (1...Self.devicesMax).contains(elements.count) else {
                throw problem("is a list of 1 to \(Self.devicesMax) numbers: how many users have one device, two, …", value)
            }
            var shares: [Double] = []
            for element in elements { shares.append(try number(element, 0...1_000_000)) }
            guard shares.reduce(0, +) > 0 else { throw problem("must have a number above 0", value) }
            scenario[keyPath: path] = shares
        }
    }

    private func problem(_ rule: String, _ value: ConfigurationValue) -> ScenarioProblem {
        ScenarioProblem("\(path) \(rule), not \(value.shown)")
    }

    private func whole(_ value: ConfigurationValue, _ range: ClosedRange<Int>) throws(ScenarioProblem) -> Int {
        guard case .integer(let number) = value, range.contains(number) else {
            throw problem("is a whole number from \(range.lowerBound) to \(range.upperBound)", value)
        }
        return number
    }

    private func number(_ value: ConfigurationValue, _ range: ClosedRange<Double>) throws(ScenarioProblem) -> Double {
        let number: Double? =
            switch value {
            case .integer(let number): Double(number)
            case .number(let written): Double(written)
            default: nil
            }
        guard let number, range.contains(number) else {
            throw problem("is a number from \(range.lowerBound) to \(range.upperBound)", value)
        }
        return number
    }

    private func span(_ value: ConfigurationValue, _ range: ClosedRange<Span>) throws(ScenarioProblem) -> Span {
        guard case .text(let text) = value, let span = QuantityText.span(text), range.contains(span) else {
            throw problem(
                "is a time from \(QuantityText.text(range.lowerBound)) to \(QuantityText.text(range.upperBound)), such as \"30s\"", value)
        }
        return span
    }

    private func word<Word: RawRepresentable & CaseIterable>(_ value: ConfigurationValue) throws(ScenarioProblem) -> Word
    where Word.RawValue == String {
        guard case .text(let text) = value, let word = Word(rawValue: text) else {
            throw problem("is one of \(Word.allCases.map(\.rawValue).joined(separator: ", "))", value)
        }
        return word
    }
}

/// Why a scenario can't be run, for people.
package struct ScenarioProblem: Error, Sendable, Equatable, CustomStringConvertible {
    package let description: String

    package init(_ description: String) { self.description = description }
}
