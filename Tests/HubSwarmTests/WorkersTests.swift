import HubBase
import HubSwarm
import Testing

@Suite("Workers and their coordinator")
struct WorkersTests {
    @Test("frames come out as they went in, cut anywhere")
    func frames() throws {
        let frames = [
            WorkersFrame(.point, Array("{}".utf8)), WorkersFrame(.measures, []), WorkersFrame(.point, Array("{\"a\":\"\\n\"}\n".utf8)),
        ]
        let bytes = frames.flatMap(\.encoded)
        for size in [1, 2, 7, bytes.count] {
            var reader = WorkersFrame.Reader()
            var read: [WorkersFrame] = []
            for start in stride(from: 0, to: bytes.count, by: size) {
                reader.append(bytes[start..<min(start + size, bytes.count)])
                while let frame = try reader.next() { read.append(frame) }
            }
            #expect(read == frames)
            #expect(reader.isEmpty)
        }
    }

    @Test(
        "another version, another program, unknown kinds and lengths past the bound are refused before anything is kept",
        arguments: [
            "hub-swarm/2 point 2\n{}", "hello\n", "hub-swarm/1 rumour 2\n{}", "hub-swarm/1 point 4194305\n", "hub-swarm/1 point -1\n",
            "hub-swarm/1 point 99999999999999999999\n", "hub-swarm/1 point\n", String(repeating: "x", count: 64),
        ])
    func refused(text: String) {
        var reader = WorkersFrame.Reader()
        reader.append(Array(text.utf8))
        #expect(throws: WorkersFrame.Reader.Malformed.self) { try reader.next() }
    }

    @Test("every thing is some part's, and none is two parts'", arguments: [1, 2, 3, 7])
    func parts(count: Int) throws {
        var all: [Int] = []
        for index in 0..<count {
            let arguments = try CommandLineParser(program: "", summary: "", flags: WorkersPart.flags).parse([
                "--share=\(index + 1)/\(count)"
            ])
            all += Array(try WorkersPart(arguments).part(of: 20))
        }
        #expect(all == Array(0..<20))
    }

    @Test("a share that can't be is refused", arguments: ["0/2", "3/2", "1", "1/0", "1/1001", "a/b", "1/2/3", "-1/2"])
    func shares(text: String) throws {
        let arguments = try CommandLineParser(program: "", summary: "", flags: WorkersPart.flags).parse(["--share=\(text)"])
        #expect(throws: CommandLineError.self) { try WorkersPart(arguments) }
    }

    @Test("a worker has its part of bots, rooms and connections; more workers than rooms is a mistake")
    func options() throws {
        func options(_ share: String) throws -> SwarmOptions {
            let parser = CommandLineParser(program: "", summary: "", flags: SwarmOptions.parser.flags + WorkersPart.flags)
            let arguments = try parser.parse(["--bots=101", "--rooms=10", "--connect-rate=600", "--share=\(share)"])
            var options = try SwarmOptions(arguments, defaultURL: "http://127.0.0.1:8080", defaultSeed: 1)
            try options.take(WorkersPart(arguments))
            return options
        }
        let first = try options("1/3")
        #expect(first.bots == 34 && first.rooms == 4 && first.connectRate == 200)
        let last = try options("3/3")
        #expect(last.bots == 33 && last.rooms == 3)
        #expect(throws: CommandLineError.self) { try options("1/11") }
    }
}
