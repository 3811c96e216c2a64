import HubBase
import Testing

@Suite("The command line")
struct CommandLineParserTests {
    private static let server = CommandLineParser(
        program: "served", summary: "Serves.",
        flags: [
            .init("config", letter: "c", value: "FILE", help: "Reads FILE."),
            .init("listen", value: "HOST:PORT", isRepeatable: true, help: "Listens."),
            .init("dev", help: "Development."),
        ],
        examples: [.init("served --dev", "on this machine only")])

    private static let tool = CommandLineParser(
        program: "tool", summary: "Asks.",
        flags: [.init("url", value: "URL", help: "Which node.")],
        commands: [
            .init(
                "presence", summary: "Who is there.", flags: [.init("watch", help: "Goes on.")],
                operands: [.init("USER", .oneOrMore, help: "A user.")]),
            .init("nodes", summary: "Lists nodes."),
            .init(
                "publish", summary: "Says something.",
                operands: [.init("CHANNEL", help: "Where."), .init("TEXT", .optional, help: "What.")]),
        ])

    @Test("a value stands after its flag or behind an equals sign, and may hold equals signs itself")
    func values() throws {
        let parsed = try Self.server.parse(["--config", "a.json5", "--listen=h:1", "--listen", "h:2", "--dev"])
        #expect(parsed.value("config") == "a.json5")
        #expect(parsed.values("listen") == ["h:1", "h:2"])
        #expect(parsed.has("dev"))
        #expect(try Self.server.parse(["--config=a=b"]).value("config") == "a=b")
        #expect(try Self.server.parse(["-c", "x"]).value("config") == "x")
        #expect(try Self.server.parse(["--config", "-"]).value("config") == "-")
        #expect(try Self.server.parse(["--config=--dev"]).value("config") == "--dev")
    }

    @Test(
        "what isn't accepted is named, with what was probably meant",
        arguments: [
            (["--conf"], "unknown flag \"--conf\"; did you mean --config?"),
            (["--lisetn", "h:1"], "unknown flag \"--lisetn\"; did you mean --listen?"),
            (["--zebra"], "unknown flag \"--zebra\""),
            (["-x"], "unknown flag \"-x\""),
            (["--config"], "--config needs a value: --config FILE"),
            (["--config", "--dev"], "--config needs a value: --config FILE"),
            (["--dev=yes"], "--dev takes no value"),
            (["--config=a", "-c", "b"], "-c is given twice"),
            (["stray"], "unexpected argument \"stray\""),
            (["--dev", "--", "--dev"], "unexpected argument \"--dev\""),
            (["--a\u{1B}[2J\n"], "unknown flag \"--a\u{FFFD}[2J\u{FFFD}\""),
        ])
    func refusals(arguments: [String], message: String) {
        let error = #expect(throws: CommandLineError.self) { try Self.server.parse(arguments) }
        #expect(error?.description == message)
    }

    @Test(
        "a subcommand takes its own flags and the program's, its operands are counted",
        arguments: [
            ([], "a command is missing: one of presence, nodes, publish"),
            (["presense", "alice"], "unknown command \"presense\"; did you mean presence?"),
            (["presence"], "USER is missing"),
            (["nodes", "x"], "unexpected argument \"x\""),
            (["publish", "room", "text", "more", "again"], "unexpected argument \"more\""),
            (["nodes", "--watch"], "--watch is a flag of presence and isn't one of nodes"),
            (["--watch", "presence", "a"], "--watch is a flag of presence and must stand after it"),
        ])
    func subcommands(arguments: [String], message: String) {
        let error = #expect(throws: CommandLineError.self) { try Self.tool.parse(arguments) }
        #expect(error?.description == message)
    }

    @Test("operands keep their order, and after two dashes nothing is a flag")
    func operands() throws {
        let parsed = try Self.tool.parse(["--url=u", "presence", "--watch", "alice", "--", "--bob"])
        #expect(parsed.command == "presence")
        #expect(parsed.operands == ["alice", "--bob"])
        #expect(parsed.has("watch"))
        #expect(try Self.tool.parse(["publish", "room"]).operands == ["room"])
    }

    @Test("help is there for the program and for each subcommand, and complains of nothing that is missing")
    func help() throws {
        let parsed = try Self.tool.parse(["presence", "--help"])
        #expect(parsed.wantsHelp && parsed.command == "presence")
        #expect(try Self.tool.parse(["-h"]).wantsHelp)
        #expect(
            Self.tool.helpText(command: "presence") == """
                Who is there.

                Usage: tool presence [FLAGS] USER…

                Arguments:
                  USER  A user.

                Flags:
                  --watch     Goes on.
                  --url URL   Which node.
                  -h, --help  Show this help.

                """)
        #expect(
            Self.server.helpText() == """
                Serves.

                Usage: served [FLAGS]

                Flags:
                  -c, --config FILE     Reads FILE.
                  --listen HOST:PORT …  Listens.
                  --dev                 Development.
                  -h, --help            Show this help.

                Examples:
                  served --dev  on this machine only

                """)
    }
}

@Suite("The nearest known word")
struct NearestTests {
    @Test(
        "a slip of the finger finds its word, a different word finds none",
        arguments: [
            ("heartbaet", "heartbeat"), ("hartbeat", "heartbeat"), ("HEARTBEAT", "heartbeat"), ("leese", "lease"),
            ("usertl", "userTTL"), ("x", nil), ("", nil), ("completelyElse", nil),
        ] as [(String, String?)])
    func nearest(word: String, expected: String?) {
        #expect(Nearest.to(word, in: ["heartbeat", "lease", "userTTL"]) == expected)
    }

    @Test("a very long word costs no more than its first 64 bytes")
    func long() {
        #expect(Nearest.to(String(repeating: "a", count: 100_000), in: ["heartbeat"]) == nil)
    }
}
