import Foundation
import HubBase
import HubCore
import HubGateway
import Testing

@Suite("The log")
struct LogTests {
    @Test("text: time, level, event, fields; quotes only where they're needed")
    func text() throws {
        let pipe = try TestPipe()
        let log = Log(level: .debug, format: .text, descriptor: pipe.writer)
        log.info(
            "node.started", ["address": "127.0.0.1:8080", "loops": 2, "dev": true, "node": "my node", "none": "", "ping": Span.seconds(20)])
        let line = pipe.readAll()
        #expect(line.wholeMatch(of: #/\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z INFO    node\.started .*\n/#) != nil)
        #expect(line.hasSuffix(" INFO    node.started address=127.0.0.1:8080 loops=2 dev=true node=\"my node\" none=\"\" ping=20s\n"))
    }

    @Test("JSON: one object a line, numbers and booleans as such")
    func json() throws {
        let pipe = try TestPipe()
        let log = Log(level: .debug, format: .json, descriptor: pipe.writer)
        log.warning("redis.down", ["attempt": 3, "reason": "refused \"twice\"", "big": UInt64.max, "user": Name("zoë"), "ok": false])
        let object = try #require(try JSONSerialization.jsonObject(with: Data(pipe.readAll().utf8)) as? [String: Any])
        #expect(object["level"] as? String == "warning")
        #expect(object["event"] as? String == "redis.down")
        #expect(object["attempt"] as? Int == 3)
        #expect(object["reason"] as? String == "refused \"twice\"")
        #expect(object["big"] as? String == "18446744073709551615")
        #expect(object["user"] as? String == "zoë")
        #expect(object["ok"] as? Bool == false)
    }

    @Test(
        "no value breaks the line or moves a cursor: control characters, line separators and direction marks are escaped",
        arguments: [Configuration.LogFormat.text, .json])
    func injection(format: Configuration.LogFormat) throws {
        let pipe = try TestPipe()
        let log = Log(level: .debug, format: format, descriptor: pipe.writer)
        let hostile = "a\nINFO faked\r\u{1B}[2J\u{0}\u{7F}\u{9B}2J\u{2028}\u{202E}\"\\"
        log.info("x", ["value": hostile])
        let line = pipe.readAll()
        #expect(line.hasSuffix("\n") && line.unicodeScalars.filter { $0.value < 0x20 || (0x7F...0x9F).contains($0.value) }.count == 1)
        #expect(!line.unicodeScalars.contains { $0 == "\u{2028}" || $0 == "\u{202E}" })
        #expect(line.contains(#"a\nINFO faked\r\u001b[2J\u0000\u007f\u009b2J\u2028\u202e\"\\"#))
        if format == .json {
            let object = try JSONSerialization.jsonObject(with: Data(line.utf8)) as? [String: Any]
            #expect(object?["value"] as? String == hostile)
        }
    }

    @Test("a line stays within one piece of a pipe, pipe(7), and stays JSON", arguments: [Configuration.LogFormat.text, .json])
    func length(format: Configuration.LogFormat) throws {
        let pipe = try TestPipe()
        let log = Log(level: .debug, format: format, descriptor: pipe.writer)
        let long = String(repeating: "é\u{1}", count: 5000)
        log.info("x", ["a": long, "b": long, "c": long, "d": long, "e": 5])
        let line = pipe.readAll()
        #expect(line.utf8.count <= 4096 && line.utf8.count > 1000 && line.hasSuffix("\n"))
        #expect(!line.contains("\u{FFFD}"))
        if format == .json {
            let object = try JSONSerialization.jsonObject(with: Data(line.utf8)) as? [String: Any]
            #expect(object?["cut"] as? Bool == true)
            #expect(object?["e"] as? Int == 5)
        }
    }

    @Test("a secret shows as redacted, in a field and in a sentence")
    func secrets() throws {
        let pipe = try TestPipe()
        let log = Log(level: .debug, format: .text, descriptor: pipe.writer)
        let secret = Secret(Array("m4rker".utf8))
        log.info("x", ["key": secret, "text": "the key is \(secret)"])
        let line = pipe.readAll()
        #expect(!line.contains("m4rker") && line.contains("key=<redacted> text=\"the key is <redacted>\""))
    }

    @Test("what weighs less than the level isn't logged, and the level can change")
    func level() throws {
        let pipe = try TestPipe()
        let log = Log(level: .warning, format: .text, descriptor: pipe.writer)
        log.info("hidden")
        log.error("shown")
        log.level = .debug
        log.debug("shown.too")
        let lines = pipe.readAll().split(separator: "\n")
        #expect(lines.count == 2 && lines[0].hasSuffix("ERROR   shown") && lines[1].hasSuffix("DEBUG   shown.too"))
    }

    @Test("a full pipe costs lines, not time; what was lost is told with the next line")
    func fullPipe() throws {
        let pipe = try TestPipe()
        let log = Log(level: .debug, format: .text, descriptor: pipe.writer)
        let filler = String(repeating: "x", count: 1000)
        for _ in 0..<2000 { log.info("filler", ["text": filler]) }
        #expect(log.dropped > 1000)
        let dropped = log.dropped
        _ = pipe.readAll()
        log.info("after")
        let lines = pipe.readAll().split(separator: "\n")
        #expect(lines.count == 2)
        #expect(lines.first?.hasSuffix("WARNING log.dropped lines=\(dropped)") == true)
        #expect(lines.last?.hasSuffix("INFO    after") == true)
    }

    @Test("a closed pipe ends nothing, field-faults B70")
    func closedPipe() throws {
        let pipe = try TestPipe()
        let log = Log(level: .debug, format: .text, descriptor: pipe.writer)
        pipe.closeReader()
        for _ in 0..<10 { log.error("x") }
        #expect(log.dropped == 10)
    }

    @Test("what a peer can cause at will is held back and counted: so many a second, then how many weren't shown")
    func limited() throws {
        let pipe = try TestPipe()
        let log = Log(level: .debug, format: .text, descriptor: pipe.writer)
        let start = Instant(nanoseconds: 5_000_000_000)
        for _ in 0..<7 { log.limited(.warning, "accept.refused", perSecond: 2, at: start) }
        log.limited(.warning, "other", perSecond: 2, at: start)
        log.limited(.warning, "accept.refused", perSecond: 2, at: start + .milliseconds(999))
        log.limited(.warning, "accept.refused", perSecond: 2, at: start + .seconds(1))
        let lines = pipe.readAll().split(separator: "\n").map { $0.dropFirst(33) }
        #expect(lines == ["accept.refused", "accept.refused", "other", "accept.refused suppressed=6"])
        #expect(log.suppressed == 6)
    }

    @Test("the time is UTC, RFC 3339, with milliseconds")
    func time() throws {
        let pipe = try TestPipe()
        let before = Date()
        Log(level: .debug, format: .text, descriptor: pipe.writer).info("x")
        let text = String(pipe.readAll().prefix(24))
        let parser = ISO8601DateFormatter()
        parser.formatOptions = [.withInternetDateTime, .withFractionalSeconds]
        let time = try #require(parser.date(from: text))
        // Whatever the machine's load, it isn't before the call (less the part of a millisecond that isn't shown) nor after now.
        #expect(time >= before.addingTimeInterval(-0.002) && time <= Date())
    }

    @Test("lines of several threads don't mix")
    func threads() async throws {
        let pipe = try TestPipe()
        let log = Log(level: .debug, format: .text, descriptor: pipe.writer)
        await withTaskGroup(of: Void.self) { group in
            for number in 0..<4 {
                group.addTask { for _ in 0..<50 { log.info("line", ["text": String(repeating: "\(number)", count: 100)]) } }
            }
        }
        let lines = pipe.readAll().split(separator: "\n")
        #expect(lines.count == 200)
        for line in lines { #expect(Set(line.suffix(100)).count == 1) }
    }
}

/// A pipe whose reading end doesn't block.
final class TestPipe {
    let writer: Int32
    private var reader: Int32

    init() throws {
        var ends: [Int32] = [0, 0]
        guard pipe(&ends) == 0 else { throw POSIXError(.EMFILE) }
        reader = ends[0]
        writer = ends[1]
        _ = fcntl(reader, F_SETFL, O_NONBLOCK)
    }

    deinit {
        close(writer)
        closeReader()
    }

    func closeReader() {
        if reader >= 0 { close(reader) }
        reader = -1
    }

    /// What is in it now.
    func readAll() -> String {
        var bytes: [UInt8] = []
        var chunk = [UInt8](repeating: 0, count: 65536)
        while true {
            let count = read(reader, &chunk, chunk.count)
            guard count > 0 else { return String(decoding: bytes, as: UTF8.self) }
            bytes += chunk[..<count]
        }
    }
}
