import HubBase

/// Reads scenarios: a file's JSON5, then `--set KEY=VALUE`, then what must hold between them.
package enum ScenarioReader {
    /// A file above this is no scenario.
    package static let bytesMax = 64 * 1024

    /// - Parameters:
    ///   - bytes: the file.
    ///   - place: what the errors call it.
    ///   - overrides: "users=5000", "talk.every=10s": values are JSON5, or plain text where they aren't.
    package static func read(_ bytes: [UInt8], place: String, overrides: [String] = []) throws(ScenarioProblem) -> Scenario {
        guard bytes.count <= bytesMax else { throw ScenarioProblem("\(place) has more than \(bytesMax) bytes: that's no scenario") }
        let value: ConfigurationValue
        do throws(JSON5Reader.Failure) {
            value = try JSON5Reader.read(bytes)
        } catch {
            throw ScenarioProblem("\(place), line \(error.line), column \(error.column): \(error.message)")
        }
        guard case .object(let members) = value else { throw ScenarioProblem("\(place) must be one object, not \(value.shown)") }
        var scenario = Scenario()
        let fields = ScenarioField.all
        try take(members, under: "", into: &scenario, fields, place)
        for override in overrides { try take(override, into: &scenario, fields) }
        try check(scenario, place)
        return scenario
    }

    private static func take(
        _ members: [ConfigurationValue.Member], under prefix: String, into scenario: inout Scenario, _ fields: [ScenarioField],
        _ place: String
    ) throws(ScenarioProblem) {
        for member in members {
            let path = prefix + member.key
            do throws(ScenarioProblem) {
                if let field = fields.first(where: { $0.path == path }) {
                    try field.set(member.value, in: &scenario)
                } else if prefix.isEmpty, fields.contains(where: { $0.path.hasPrefix(path + ".") }) {
                    guard case .object(let inner) = member.value else {
                        throw ScenarioProblem("\(path) is an object, not \(member.value.shown)")
                    }
                    try take(inner, under: path + ".", into: &scenario, fields, place)
                } else {
                    throw unknown(path, fields)
                }
            } catch {
                // What comes from a section within has its line already.
                throw error.description.hasPrefix(place) ? error : ScenarioProblem("\(place), line \(member.line): \(error)")
            }
        }
    }

    private static func take(_ override: String, into scenario: inout Scenario, _ fields: [ScenarioField]) throws(ScenarioProblem) {
        guard let equals = override.firstIndex(of: "=") else {
            throw ScenarioProblem("--set \(shownText(override)) must be KEY=VALUE, such as --set users=5000")
        }
        let path = String(override[..<equals])
        let text = String(override[override.index(after: equals)...])
        do throws(ScenarioProblem) {
            guard let field = fields.first(where: { $0.path == path }) else { throw unknown(path, fields) }
            try field.set((try? JSON5Reader.read(Array(text.utf8))) ?? .text(text), in: &scenario)
        } catch {
            throw ScenarioProblem("--set: \(error)")
        }
    }

    private static func unknown(_ path: String, _ fields: [ScenarioField]) -> ScenarioProblem {
        let sections = Set(fields.compactMap { $0.path.split(separator: ".").count == 2 ? String($0.path.split(separator: ".")[0]) : nil })
        let near = Nearest.to(path, in: fields.map(\.path) + sections.sorted())
        return ScenarioProblem(
            "the key \(shownText(path)) isn't known\(near.map { "; did you mean \($0)?" } ?? " (docs/swarm.md has all)")")
    }

    /// What no single value shows.
    private static func check(_ scenario: Scenario, _ place: String) throws(ScenarioProblem) {
        func fail(_ text: String) -> ScenarioProblem { ScenarioProblem("\(place): \(text)") }
        if scenario.rooms.joined > scenario.rooms.count {
            throw fail("rooms.joined \(scenario.rooms.joined) is more than rooms.count \(scenario.rooms.count)")
        }
        if scenario.talk.every != nil, scenario.rooms.joined == 0 { throw fail("talk.every needs rooms to talk in: rooms.joined is 0") }
        if let speakers = scenario.talk.speakers, speakers > scenario.users {
            throw fail("talk.speakers \(speakers) is more than users \(scenario.users)")
        }
        if scenario.roster.users >= scenario.users {
            throw fail("roster.users \(scenario.roster.users) must be below users \(scenario.users): nobody watches themselves")
        }
        if let at = scenario.herd.at, at >= scenario.steady {
            throw fail("herd.at \(QuantityText.text(at)) is not before the steady time's end, \(QuantityText.text(scenario.steady))")
        }
        if scenario.hostile.slow + scenario.hostile.floods > 0, scenario.rooms.joined == 0 {
            throw fail("hostile.slow and hostile.floods need rooms: rooms.joined is 0")
        }
    }
}
