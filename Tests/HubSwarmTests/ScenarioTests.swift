import Foundation
import HubBase
import HubSwarm
import Testing

@Suite("Scenarios: reading")
struct ScenarioTests {
    private func read(_ text: String, _ overrides: [String] = []) throws -> Scenario {
        try ScenarioReader.read(Array(text.utf8), place: "x.json5", overrides: overrides)
    }

    private func problem(_ text: String, _ overrides: [String] = []) -> String {
        do {
            _ = try read(text, overrides)
            return "none"
        } catch {
            return "\(error)"
        }
    }

    private static var top: URL {
        URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent().deletingLastPathComponent()
    }

    @Test(
        "each of the five that come with the program can be read, and is called as its file is",
        arguments: ["chat", "presence", "broadcast", "herd", "hostile"])
    func shipped(name: String) throws {
        let bytes = try Data(contentsOf: Self.top.appending(path: "config/swarm/\(name).json5"))
        let scenario = try ScenarioReader.read([UInt8](bytes), place: name)
        #expect(scenario.name == name)
        #expect(!scenario.about.isEmpty)
    }

    @Test("the page has every key that there is")
    func documented() throws {
        let page = try String(contentsOf: Self.top.appending(path: "docs/swarm.md"), encoding: .utf8)
        for field in ScenarioField.all { #expect(page.contains("| `\(field.path)` |"), "docs/swarm.md has no row for \(field.path)") }
    }

    @Test("values are read, --set comes after the file, and a text needs no quotes there")
    func values() throws {
        let scenario = try read(
            "{ users: 5, devices: [1, 1], talk: { every: '2s', class: 'event' }, session: { length: '1m', spread: .5 } }",
            ["users=7", "talk.every=10s", "rooms.count=3", "session.length=null"])
        #expect(scenario.users == 7)
        #expect(scenario.devices == [1, 1])
        #expect(scenario.talk.every == .seconds(10))
        #expect(scenario.talk.kind == .event)
        #expect(scenario.rooms.count == 3)
        #expect(scenario.session.length == nil)
        #expect(scenario.session.spread == 0.5)
    }

    @Test(
        "what is wrong is named with its line, its key and what it may be",
        arguments: [
            ("{ users: 5,\n roms: {} }", "x.json5, line 2: the key \"roms\" isn't known; did you mean rooms?"),
            ("{ talk: { evry: '1s' } }", "x.json5, line 1: the key \"talk.evry\" isn't known; did you mean talk.every?"),
            ("{ users: 0 }", "x.json5, line 1: users is a whole number from 1 to 1000000, not the number 0"),
            ("{ users: 1e9 }", "x.json5, line 1: users is a whole number from 1 to 1000000, not the number 1e9"),
            ("{ steady: 30 }", "x.json5, line 1: steady is a time from 100ms to 1d, such as \"30s\", not the number 30"),
            ("{ rooms: 3 }", "x.json5, line 1: rooms is an object, not the number 3"),
            ("{ rooms: { popularity: NaN } }", "x.json5, line 1: rooms.popularity is a number from 0.0 to 3.0, not the number NaN"),
            ("{ session: { shape: 'round' } }", "x.json5, line 1: session.shape is one of exponential, logNormal, not \"round\""),
            ("{ devices: [] }", "x.json5, line 1: devices is a list of 1 to 8 numbers: how many users have one device, two, …, not a list"),
            ("{ devices: [0] }", "x.json5, line 1: devices must have a number above 0, not a list"),
            ("{ users: }", "x.json5, line 1, column 10: a value is expected, not \"}\""),
            ("[]", "x.json5 must be one object, not a list"),
            ("{ rooms: { count: 2, joined: 3 } }", "x.json5: rooms.joined 3 is more than rooms.count 2"),
            ("{ users: 5, roster: { users: 5 } }", "x.json5: roster.users 5 must be below users 5: nobody watches themselves"),
            ("{ herd: { at: '30s' } }", "x.json5: herd.at 30s is not before the steady time's end, 30s"),
        ])
    func mistakes(text: String, expected: String) { #expect(problem(text) == expected) }

    @Test("so is a mistake of --set")
    func overrides() {
        #expect(problem("{}", ["users"]) == "--set \"users\" must be KEY=VALUE, such as --set users=5000")
        #expect(problem("{}", ["user=5"]) == "--set: the key \"user\" isn't known; did you mean users?")
        #expect(problem("{}", ["users=many"]) == "--set: users is a whole number from 1 to 1000000, not \"many\"")
    }

    @Test("a file that's no scenario is refused before it's read")
    func large() {
        #expect(problem(String(repeating: " ", count: 70_000)) == "x.json5 has more than 65536 bytes: that's no scenario")
    }

    @Test("devices are dealt out as the shares say, to the same users whoever asks")
    func devices() {
        var scenario = Scenario()
        scenario.devices = [70, 25, 5]
        let counts = (0..<1000).map { scenario.devices(of: $0) }
        #expect(counts == (0..<1000).map { scenario.devices(of: $0) })
        #expect((690...710).contains(counts.count { $0 == 1 }))
        #expect((240...260).contains(counts.count { $0 == 2 }))
        #expect((40...60).contains(counts.count { $0 == 3 }))
        #expect(scenario.bots(of: 0..<1000) == counts.reduce(0, +))
    }

    @Test("shares of a run cover all users, rooms and hostile connections once", arguments: [1, 2, 3, 6, 7])
    func shares(count: Int) {
        var scenario = Scenario()
        scenario.users = 100
        scenario.rooms.count = 50
        scenario.hostile.slow = 10
        let shares = (0..<count).map { Share(scenario, seed: 1, run: 2, index: $0, of: count, start: Instant(nanoseconds: 0)) }
        #expect(shares.flatMap { Array($0.users) } == Array(0..<100))
        #expect(shares.flatMap { Array($0.rooms) } == Array(0..<50))
        #expect(shares.reduce(0) { $0 + $1.hostile.slow } == 10)
        scenario.rooms.count = 1
        let shared = Share(scenario, seed: 1, run: 2, index: count - 1, of: count, start: Instant(nanoseconds: 0))
        #expect(shared.rooms == 0..<1)
    }
}
