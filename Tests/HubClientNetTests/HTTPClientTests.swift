import HubClientNet
import HubNet
import Testing

@Suite("The tools' HTTP client")
struct HTTPClientTests {
    private static func send(_ port: Int, _ path: String, headers: [String] = [], body: String? = nil) throws -> HTTPClient.Answer {
        try HTTPClient(agent: "test/1").send(
            url: "http://127.0.0.1:\(port)\(path)", headers: headers, body: body.map { Array($0.utf8) }, isLoopback: true)
    }

    @Test("GET and POST carry headers and body")
    func exchange() throws {
        let hub = try PlayedHub()
        let get = try Self.send(hub.port, "/ok", headers: ["Authorization: Bearer k"])
        #expect(get == HTTPClient.Answer(status: 200, body: Array("GET Bearer k ".utf8)))
        let post = try Self.send(hub.port, "/ok", body: "{\"a\":1}")
        #expect(String(decoding: post.body, as: UTF8.self) == "POST none {\"a\":1}")
        #expect(String(decoding: try Self.send(hub.port, "/ok", body: "").body, as: UTF8.self) == "POST none ")
        #expect(try Self.send(hub.port, "/nowhere").status == 404)
        withExtendedLifetime(hub) {}
    }

    @Test("an answer has a largest size")
    func tooLarge() throws {
        let hub = try PlayedHub()
        #expect(throws: HTTPClient.Failure.tooLarge(limit: HTTPClient.bodyMax)) { try Self.send(hub.port, "/large") }
        withExtendedLifetime(hub) {}
    }

    @Test("nobody there is unreachable; another scheme than HTTP is none of ours")
    func unreachable() throws {
        let port: Int
        do {
            let closed = try ListenSocket.open(SocketAddress("127.0.0.1:0")!, count: 1)
            port = closed[0].address.port
            _ = closed[0].take()
        }
        #expect {
            try Self.send(port, "/ok")
        } throws: { error in
            if case .unreachable? = error as? HTTPClient.Failure { true } else { false }
        }
        #expect(throws: HTTPClient.Failure.self) {
            try HTTPClient(agent: "test/1").send(url: "file:///etc/hostname", headers: [], body: nil, isLoopback: true)
        }
    }
}
