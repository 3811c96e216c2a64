import HubBase
import HubSwarm
import Testing

@Suite("hub-swarm: where it goes and how it speaks")
struct SwarmTargetTests {
    private static func target(_ line: String) throws -> SwarmTarget {
        let parser = CommandLineParser(program: "p", summary: "s", flags: SwarmTarget.flags)
        return try SwarmTarget(parser.parse(line.split(separator: " ").map(String.init)), defaultURL: "http://127.0.0.1:8080")
    }

    @Test("defaults, and everything")
    func all() throws {
        let plain = try Self.target("")
        #expect(
            plain.urls.map(\.port) == [8080] && plain.format == .json && !plain.offersDeflate && plain.sources.isEmpty && plain.key == nil)
        let full = try Self.target("--url ws://a:1,wss://b --format short --deflate --token-key-file F --kid K --insecure")
        #expect(full.urls.map(\.host) == ["a", "b"] && full.format == .short && full.offersDeflate)
        #expect(full.key == .file("F") && full.kid == "K" && full.isInsecure)
    }

    @Test("source addresses: one, several, ranges over a border, IPv6")
    func sources() throws {
        let target = try Self.target("--source-addresses 127.0.0.254-127.0.1.1,10.0.0.1 --source-addresses ::1")
        #expect(target.sources == ["127.0.0.254", "127.0.0.255", "127.0.1.0", "127.0.1.1", "10.0.0.1", "::1"])
    }

    @Test(
        "mistakes are named",
        arguments: [
            "--format xml", "--source-addresses 127.0.0", "--source-addresses 127.0.0.9-127.0.0.2", "--source-addresses 1-2-3",
            "--source-addresses 0.0.0.0-255.255.255.255", "--source-addresses 127.0.0.256", "--source-addresses a,,b", "--kid K",
            "--token-key-env A --token-key-file B", "--url ftp://x",
        ])
    func mistakes(line: String) {
        do {
            _ = try Self.target(line)
            Issue.record("it was taken: \(line)")
        } catch { #expect("\(error)".contains(line.split(separator: " ")[0])) }
    }
}
