import Foundation
import HubBase
import HubFetch
import HubNet
import Testing

/// What outgoing requests believe over https: names and authorities.
@Suite struct FetchTLSTests {
    private static func fetch(_ port: Int, host: String = "localhost", authority: TestCertificate?) throws -> Result<
        FetchAnswer, FetchFailure
    > {
        let folder = FileManager.default.temporaryDirectory.appendingPathComponent("hub-fetch-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(at: folder) }
        var options = Fetcher.Options(name: "test fetch", agent: "test/1")
        options.connectDeadline = .seconds(30)
        if let authority {
            let file = folder.appendingPathComponent("ca.pem")
            try Data(authority.certificate).write(to: file)
            options.authorities = file.path
        }
        let fetcher = try Fetcher(options)
        let results = Watch<Result<FetchAnswer, FetchFailure>>()
        let request = FetchRequest(
            method: .post, url: try FetchURL("https://\(host):\(port)/told"), body: Array("body".utf8), deadline: .seconds(60),
            answerBytesMax: 1000)
        fetcher.send(request) { results.note($0) }
        let result = results.wait(for: 1)[0]
        fetcher.stop()
        return result
    }

    @Test("a server that the file's authority vouches for is believed, by host and by address")
    func believed() throws {
        let server = try TLSClientTests.server()
        for host in ["localhost", "127.0.0.1"] {
            let answer = try Self.fetch(server.port, host: host, authority: TLSClientTests.authority).get()
            #expect(answer.status == 200)
            #expect(String(decoding: answer.body, as: UTF8.self) == "/toldbody")
        }
    }

    @Test("nobody else is: another authority's, one of the system's only, another name, one that has expired; the words say what to do")
    func notBelieved() throws {
        let server = try TLSClientTests.server()
        let stranger = TestCertificate.make([], commonName: "somebody", isAuthority: true)
        let expired = TestCertificate.make(["localhost"], days: -3, by: TLSClientTests.authority)
        let elsewhere = TestCertificate.make(["hub.example"], by: TLSClientTests.authority)
        let cases: [(LoopFixture, TestCertificate?, String)] = [
            (server, stranger, "outgoing.ca"),
            (server, nil, "outgoing.ca"),
            (try TLSClientTests.server(elsewhere), TLSClientTests.authority, "use a name that it stands for"),
            (try TLSClientTests.server(expired), TLSClientTests.authority, "it needs a new one"),
        ]
        for (server, authority, words) in cases {
            guard case .failure(.untrusted(let text)) = try Self.fetch(server.port, authority: authority) else {
                Issue.record("believed: \(words)")
                continue
            }
            #expect(text.contains(words), "\(text)")
        }
    }

    @Test("https where http is spoken is told as such")
    func plainPort() throws {
        let server = try LoopFixture()
        #expect(
            try Self.fetch(server.port, authority: nil) == .failure(.untrusted("TLS: this port doesn't speak TLS: use http")))
    }
}
