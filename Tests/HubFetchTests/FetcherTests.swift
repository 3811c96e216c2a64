import Glibc
import HubBase
import HubFetch
import Synchronization
import Testing

/// What comes back of outgoing requests, by servers that behave and by those that don't. Deadlines here are the requests' own: a test waits as
/// long as it takes.
@Suite struct FetcherTests {
    typealias Outcome = Result<FetchAnswer, FetchFailure>

    /// Results in the order of the requests; every one arrives once, or the precondition says so.
    final class Results: Sendable {
        private let state: Mutex<[Outcome?]>

        init(count: Int) { state = Mutex([Outcome?](repeating: nil, count: count)) }

        func note(_ result: Outcome, _ place: Int) {
            state.withLock {
                precondition($0[place] == nil, "told twice")
                $0[place] = result
            }
        }

        func wait() -> [Outcome] {
            while true {
                let all = state.withLock { $0 }
                let come = all.compactMap { $0 }
                if come.count == all.count { return come }
                usleep(2000)
            }
        }
    }

    static func fetcher(inFlight: Int = 8, waiting: Int = 256) throws -> Fetcher {
        var options = Fetcher.Options(name: "test fetch", agent: "test/1")
        options.inFlightMax = inFlight
        options.waitingMax = waiting
        options.connectDeadline = .seconds(30)
        return try Fetcher(options)
    }

    static func request(
        _ server: RudeServer, _ path: String, _ method: FetchRequest.Method = .get, body: String = "", headers: [String] = [],
        deadline: Span = .seconds(60), limit: Int = 100_000
    ) throws -> FetchRequest {
        FetchRequest(
            method: method, url: try FetchURL("http://127.0.0.1:\(server.port)\(path)"), headers: headers, body: Array(body.utf8),
            deadline: deadline, answerBytesMax: limit)
    }

    static func fetch(_ fetcher: Fetcher, _ requests: [FetchRequest]) -> [Outcome] {
        let results = Results(count: requests.count)
        for (place, request) in requests.enumerated() { fetcher.send(request) { results.note($0, place) } }
        return results.wait()
    }

    static func one(_ path: String, deadline: Span = .seconds(60), limit: Int = 100_000) throws -> Outcome {
        let server = try RudeServer()
        defer { server.stop() }
        let fetcher = try fetcher()
        defer { fetcher.stop() }
        return fetch(fetcher, [try request(server, path, deadline: deadline, limit: limit)])[0]
    }

    @Test("a POST carries its headers and body, an answer its status, fields and body; one connection serves many")
    func exchanges() throws {
        let server = try RudeServer()
        defer { server.stop() }
        let fetcher = try Self.fetcher()
        defer { fetcher.stop() }
        for text in ["one", "", String(repeating: "long ", count: 400_000)] {
            let request = try Self.request(server, "/ok", .post, body: text, headers: ["X-Key: value"], limit: 4_000_000)
            let answer = try Self.fetch(fetcher, [request])[0].get()
            #expect(answer.status == 200)
            #expect(answer.body == Array(text.utf8))
            #expect(answer.field("x-one") == "a b")
        }
        #expect(server.connections == 1)
        #expect(server.requests.allSatisfy { $0.hasPrefix("POST /ok HTTP/1.1\r\n") && $0.contains("X-Key: value\r\n") })
        #expect(!server.requests.contains { $0.lowercased().contains("expect:") })
    }

    @Test("chunks are joined; of several heads the last one counts; a redirect is an answer and isn't followed")
    func forms() throws {
        #expect(try Self.one("/chunked").get().body == Array("abcde".utf8))
        let interim = try Self.one("/interim").get()
        #expect(interim.status == 200 && interim.field("x-early") == nil && interim.field("x-late") == "2")
        let redirect = try Self.one("/redirect").get()
        #expect(redirect.status == 301)
        #expect(try Self.one("/busy").get().retryAfter == .seconds(7))
    }

    @Test(
        "no answer within the deadline: a server that says nothing, half an answer, or a byte at a time",
        arguments: ["/silent", "/half", "/drip"])
    func late(path: String) throws {
        guard case .failure(.timedOut) = try Self.one(path, deadline: .milliseconds(300)) else {
            Issue.record("\(path) has an answer")
            return
        }
    }

    @Test("an answer that is too large is cut where the limit is, announced or not", arguments: ["/announced", "/huge"])
    func tooLarge(path: String) throws {
        #expect(try Self.one(path, limit: 5000) == .failure(.tooLarge(limit: 5000)))
    }

    @Test(
        "a connection that ends early and what isn't HTTP are told as broken",
        arguments: ["/cut", "/close", "/reset", "/nonsense", "/heads"])
    func broken(path: String) throws {
        let outcome = try Self.one(path)
        guard case .failure(.broken(let text)) = outcome else {
            Issue.record("\(path): \(outcome)")
            return
        }
        #expect(!text.isEmpty)
    }

    @Test("nobody there is unreachable, and the words name neither path nor query")
    func unreachable() throws {
        let server = try RudeServer()
        server.stop()
        let fetcher = try Self.fetcher()
        defer { fetcher.stop() }
        let outcome = Self.fetch(
            fetcher, [try Self.request(server, "/secret-path?key=secret-key", headers: ["Authorization: secret-token"])])[0]
        guard case .failure(.unreachable(let text)) = outcome else {
            Issue.record("\(outcome)")
            return
        }
        #expect(text.contains("127.0.0.1") && !text.contains("secret"))
    }

    @Test("a server that was stopped before it accepted anybody takes no other server's connections")
    func stoppedServers() throws {
        let fetcher = try Self.fetcher()
        defer { fetcher.stop() }
        for _ in 0..<100 {
            try RudeServer().stop()
            let server = try RudeServer()
            defer { server.stop() }
            #expect(try Self.fetch(fetcher, [Self.request(server, "/ok", .post)])[0].get().status == 200)
            #expect(server.connections == 1)
        }
    }

    @Test("a hundred at once are all answered, eight under way at a time")
    func manyAtOnce() throws {
        let server = try RudeServer()
        defer { server.stop() }
        let fetcher = try Self.fetcher()
        defer { fetcher.stop() }
        let outcomes = Self.fetch(fetcher, try (0..<100).map { try Self.request(server, "/ok", .post, body: "\($0)") })
        for (number, outcome) in outcomes.enumerated() { #expect(try outcome.get().body == Array("\(number)".utf8)) }
        #expect(server.connections <= 8)
    }

    @Test("what finds no place to wait is refused at once; what waits too long is told so; both are counted off again")
    func bounded() throws {
        let server = try RudeServer()
        defer { server.stop() }
        let fetcher = try Self.fetcher(inFlight: 1, waiting: 1)
        defer { fetcher.stop() }
        let requests = try [("/silent", 700), ("/ok", 200), ("/ok", 60_000)].map {
            try Self.request(server, $0.0, deadline: .milliseconds(UInt64($0.1)))
        }
        let outcomes = Self.fetch(fetcher, requests)
        guard case .failure(.timedOut) = outcomes[0], case .failure(.timedOut(let text)) = outcomes[1] else {
            Issue.record("\(outcomes)")
            return
        }
        #expect(text.contains("1 requests were under way"))
        #expect(outcomes[2] == .failure(.busy(limit: 2)))
        #expect(try Self.fetch(fetcher, [try Self.request(server, "/ok")])[0].get().status == 200)
    }

    @Test("stopping ends what waits and what is under way, once each; later ones fail at once")
    func stopping() throws {
        let server = try RudeServer()
        defer { server.stop() }
        let fetcher = try Self.fetcher(inFlight: 2)
        let results = Results(count: 5)
        for place in 0..<5 { fetcher.send(try Self.request(server, "/silent")) { results.note($0, place) } }
        fetcher.stop()
        #expect(results.wait() == [Outcome](repeating: .failure(.stopped), count: 5))
        #expect(Self.fetch(fetcher, [try Self.request(server, "/ok")]) == [.failure(.stopped)])
    }

    @Test("a header with a line break is refused before anything is sent")
    func headers() throws {
        let server = try RudeServer()
        defer { server.stop() }
        let fetcher = try Self.fetcher()
        defer { fetcher.stop() }
        #expect(
            Self.fetch(fetcher, [try Self.request(server, "/ok", headers: ["X: a\r\nY: b"])]) == [
                .failure(.unusable("a header holds a line break"))
            ])
        #expect(server.requests.isEmpty)
    }

    @Test(
        "an address must be http or https with a host, without user, fragment, spaces or endless length",
        arguments: [
            "", "example.com", "/path", "ftp://example.com/", "file:///etc/passwd", "http://", "http:///x", "http://u:p@example.com/",
            "http://u@example.com", "http://example.com/#part", "http://example.com/a b", "http://exämple.com/",
            "http://example.com:99999/",
            "http://example.com/\n", "gopher://example.com", "http://example.com/" + String(repeating: "x", count: 2048),
        ])
    func badAddresses(text: String) {
        #expect(throws: FetchURL.Problem.self) { try FetchURL(text) }
    }

    @Test("what an address shows of itself is where it leads, not its path")
    func places() throws {
        #expect(try FetchURL("https://example.com/secret?key=1").place == "https://example.com")
        #expect(try FetchURL("http://[::1]:8080/secret").place == "http://[::1]:8080")
        #expect("\(try FetchURL("https://example.com/secret"))" == "https://example.com")
    }

    static let retryAfters: [(String, String?, Span?)] = [
        ("5", nil, .seconds(5)), ("0", nil, .zero), ("99999999999999999999", nil, .seconds(366 * 86_400)), ("-1", nil, nil),
        ("1.5", nil, nil), ("", nil, nil), ("soon", nil, nil), ("Sun, 06 Nov 1994 08:50:00 GMT", nil, nil),
        ("Sun, 06 Nov 1994 08:50:00 GMT", "Sun, 06 Nov 1994 08:49:37 GMT", .seconds(23)),
        ("Sun, 06 Nov 1994 08:49:00 GMT", "Sun, 06 Nov 1994 08:49:37 GMT", .zero),
    ]

    @Test("Retry-After is seconds, or a date by the answer's own clock; nonsense counts for nothing, RFC 9110 §10.2.3")
    func retryAfter() {
        for (text, date, expected) in Self.retryAfters {
            var answer = FetchAnswer(status: 503, fields: [FetchAnswer.Field(name: "retry-after", value: text)])
            if let date { answer.fields.append(FetchAnswer.Field(name: "date", value: date)) }
            #expect(answer.retryAfter == expected, "\(text)")
        }
    }

    static let maxAges: [(String, Span?)] = [
        ("max-age=60", .seconds(60)), ("public, Max-Age=\"60\"", .seconds(60)), ("no-store, max-age=60", .zero), ("no-cache", .zero),
        ("max-age=-1", nil), ("max-age=x", nil), ("private", nil), ("max-age=5, max-age=9", .seconds(5)),
    ]

    @Test("an answer may be kept as long as Cache-Control says, RFC 9111 §5.2.2")
    func maxAge() {
        for (text, expected) in Self.maxAges {
            let answer = FetchAnswer(status: 200, fields: [FetchAnswer.Field(name: "cache-control", value: text)])
            #expect(answer.maxAge == expected, "\(text)")
        }
    }
}
