import HubBase
import HubClient
import HubSwarm
import Testing

@Suite("hub-swarm's command line")
struct SwarmOptionsTests {
    private static func options(_ line: String) throws -> SwarmOptions {
        let arguments = try SwarmOptions.parser.parse(line.split(separator: " ").map(String.init))
        return try SwarmOptions(arguments, defaultURL: "http://127.0.0.1:8080", defaultSeed: 7)
    }

    @Test("defaults")
    func defaults() throws {
        let options = try Self.options("")
        #expect(options.target.urls == [try HubURL("http://127.0.0.1:8080")])
        #expect(options.bots == 100 && options.rooms == 10 && options.seconds == 10 && options.rate == 0.1 && options.seed == 7)
        #expect(options.target.key == nil && !options.isJSON)
    }

    @Test("URLs by repetition and by commas, all schemes")
    func urls() throws {
        let options = try Self.options("--url ws://a:1,http://b:2 --url wss://c")
        #expect(options.target.urls.map(\.host) == ["a", "b", "c"])
    }

    @Test("everything else")
    func all() throws {
        let options = try Self.options(
            "--bots 2000 --rooms 200 --seconds 30 --rate 0.5 --size 300 --connect-rate 900 --seed 18446744073709551615 --token-key-env K --kid one --json"
        )
        #expect(options.bots == 2000 && options.rooms == 200 && options.seconds == 30 && options.rate == 0.5)
        #expect(options.size == 300 && options.connectRate == 900 && options.seed == .max && options.isJSON)
        #expect(options.target.key == .environment("K") && options.target.kid == "one")
        #expect(try Self.options("--token-key-file f").target.key == .file("f"))
        #expect(try Self.options("--ca a.pem").target.authorities == "a.pem" && !Self.options("--ca a.pem").target.isInsecure)
        #expect(try Self.options("--insecure").target.isInsecure && Self.options("").target.authorities == nil)
    }

    @Test("where it goes is read as every swarm reads it")
    func target() throws {
        let line = "--url wss://a:1 --token-key-file f --kid one --ca a.pem --insecure"
        let parser = CommandLineParser(program: "p", summary: "s", flags: SwarmTarget.flags)
        let target = try SwarmTarget(parser.parse(line.split(separator: " ").map(String.init)), defaultURL: "http://127.0.0.1:8080")
        #expect(try Self.options(line).target == target)
    }

    @Test("fewer bots than the default number of rooms is no mistake of the caller")
    func fewBots() throws { #expect(try Self.options("--bots 3").rooms == 3) }

    @Test(
        "what is refused names its flag",
        arguments: [
            ("--bots 0", "--bots"), ("--bots 1e3", "--bots"), ("--bots 99999999999999999999", "--bots"), ("--bots -1", "--bots"),
            ("--rooms 0", "--rooms"), ("--bots 5 --rooms 6", "--rooms"), ("--seconds 30s", "--seconds"), ("--rate nan", "--rate"),
            ("--rate inf", "--rate"), ("--rate -1", "--rate"), ("--size 1048577", "--size"), ("--connect-rate 0", "--connect-rate"),
            ("--seed x", "--seed"), ("--url hub", "--url"), ("--url http://a,", "--url"),
            ("--token-key-env A --token-key-file B", "--token-key"),
            ("--kid one", "--kid"), ("--botz 5", "--botz"),
        ])
    func refused(_ line: String, _ flag: String) {
        do {
            _ = try Self.options(line)
            Issue.record("accepted: \(line)")
        } catch {
            #expect("\(error)".contains(flag))
        }
    }

    @Test("too few descriptors or ports is said beforehand, with the number that is possible")
    func shortage() throws {
        let options = try Self.options("--bots 20000")
        #expect(options.shortage(descriptors: 20_016, ports: 28_232, destinations: 1) == nil)
        #expect(options.shortage(descriptors: 20_015, ports: 28_232, destinations: 1)?.contains("19999 bots are possible") == true)
        #expect(options.shortage(descriptors: 100_000, ports: 9_000, destinations: 2)?.contains("18000 bots are possible") == true)
        #expect(options.shortage(descriptors: 0, ports: 28_232, destinations: 1)?.contains("0 bots are possible") == true)
    }
}
