import COpenSSL
import HubBase
import HubNet
import Testing

/// Our client's side of TLS against our server's: whom it believes, and what it says when it doesn't.
@Suite struct TLSClientTests {
    static let authority = TestCertificate.make([], commonName: "our authority", isAuthority: true)
    static let good = TestCertificate.make(["localhost", "*.hub.example", "127.0.0.1"], commonName: "good", by: authority)

    static func server(_ certificate: TestCertificate = good) throws -> LoopFixture {
        // The check at load is the server's own; a test's certificate may be over already.
        try LoopFixture(tls: TLSContext([certificate.load(now: 0)], tickets: TicketKeys()))
    }

    static func trusting(_ certificate: TestCertificate = authority) throws -> TLSClientContext {
        try TLSClientContext(trust: .only(certificate.certificate), protocols: ["http/1.1"])
    }

    private static func connect(
        _ client: LoopFixture, _ port: Int, to peer: TLSPeer, deadline: Span = .seconds(10)
    ) {
        let endpoint = SocketAddress("127.0.0.1:\(port)")!
        let opening = ClientOpening(host: "localhost", target: "/ws", subprotocols: [], deadline: deadline, tls: peer)
        _ = client.perform { loop, _ in loop.connect(endpoint, opening) }
    }

    /// How the connection ended; nil when it opened.
    private static func end(
        _ server: LoopFixture, _ context: TLSClientContext, name: String, deadline: Span = .seconds(10)
    ) throws -> ConnectionEnd? {
        let client = try LoopFixture()
        connect(client, server.port, to: TLSPeer(context, name: name), deadline: deadline)
        for _ in 0..<10_000 where client.ends.all.isEmpty && client.opens.all.isEmpty { StallClock.pass(milliseconds: 1) }
        return client.ends.all.first
    }

    private static func reason(_ end: ConnectionEnd?) -> String {
        if case .lost(let reason)? = end { reason } else { "\(String(describing: end))" }
    }

    // MARK: WebSockets

    @Test("a client of ours and a server of ours talk over TLS, messages of every size")
    func talks() throws {
        let server = try Self.server()
        let said = Watch<Int>()
        let client = try LoopFixture { handler in
            let loop = handler.loop
            handler.onOpened = { id in
                for count in [0, 1, 125, 126, 16_384, 65_536] {
                    loop.sendMessage(.binary, to: id, as: .reply) { $0.append([UInt8](repeating: 7, count: count)) }
                }
            }
            handler.onMessage = { bytes, _, id in
                said.note(bytes.allSatisfy { $0 == 7 } ? bytes.count : -1)
                if said.all.count == 6 { loop.close(id, code: 1000, reason: "done") }
            }
        }
        Self.connect(client, server.port, to: TLSPeer(try Self.trusting(), name: "localhost"))
        #expect(said.wait(for: 6) == [0, 1, 125, 126, 16_384, 65_536])
        #expect(client.ends.wait(for: 1) == [.us(code: 1000)])
        #expect(server.ends.wait(for: 1) == [.peer(code: 1000)])
        for fixture in [server, client] { #expect(fixture.eventually { $0.connectionCount == 0 }) }
    }

    @Test(
        "a name that the certificate stands for is believed: a host, one of a wildcard, an address, RFC 9525 §6",
        arguments: ["localhost", "LOCALHOST", "localhost.", "a.hub.example", "127.0.0.1"])
    func goodNames(name: String) throws {
        let server = try Self.server()
        #expect(try Self.end(server, Self.trusting(), name: name) == nil)
    }

    @Test(
        "another name isn't, and the message tells both",
        arguments: ["hub.example", "a.b.hub.example", "localhost.example.org", "127.0.0.2", "::1"])
    func wrongNames(name: String) throws {
        let server = try Self.server()
        let end = try Self.end(server, Self.trusting(), name: name)
        let expected = name == "::1" ? "0:0:0:0:0:0:0:1" : name
        #expect(
            end
                == .lost(
                    "TLS: the server's certificate stands for localhost, *.hub.example, not for \(expected): use a name that it stands for")
        )
        // It never got as far as a request.
        #expect(server.counters.tlsHandshakes == 0 && server.opens.all.isEmpty)
    }

    @Test("nobody that the client trusts vouches for the certificate: refused, and told what to do")
    func unknownIssuer() throws {
        let server = try Self.server()
        let expected = ConnectionEnd.lost(
            "TLS: nobody trusted vouches for the server's certificate (issuer /CN=our authority): "
                + "if it's yours, give the certificate of its authority (--ca FILE)")
        #expect(try Self.end(server, TLSClientContext(authorityPlace: "--ca FILE"), name: "localhost") == expected)
        let reason = try Self.reason(Self.end(server, TLSClientContext(), name: "localhost"))
        #expect(reason.hasSuffix("give the certificate of its authority"))
        #expect(
            try Self.reason(
                Self.end(server, Self.trusting(.make([], commonName: "another authority", isAuthority: true)), name: "localhost")) == reason
        )
        // By the same name, with another key.
        let end = try Self.end(server, Self.trusting(.make([], commonName: "our authority", isAuthority: true)), name: "localhost")
        #expect(end == .lost("TLS: the server's certificate isn't accepted: certificate signature failure"))
    }

    @Test("whatever becomes of one handshake, those beside it on the loop have their own outcome")
    func sideBySide() throws {
        let good = try Self.server()
        let bad = try Self.server(.make(["localhost"], commonName: "bad"))
        let client = try LoopFixture()
        let peer = TLSPeer(try Self.trusting(), name: "localhost")
        for _ in 0..<20 {
            for port in [good.port, bad.port] { Self.connect(client, port, to: peer) }
        }
        #expect(client.opens.wait(for: 20).count == 20)
        let ends = client.ends.wait(for: 20)
        #expect(ends.count == 20)
        for end in ends { #expect(Self.reason(end).contains("nobody trusted vouches for the server's certificate (issuer /CN=bad)")) }
    }

    @Test("a certificate that is over, or not yet valid, is refused with its time")
    func times() throws {
        let over = try Self.end(Self.server(.make(["localhost"], days: -2, by: Self.authority)), Self.trusting(), name: "localhost")
        #expect(Self.reason(over).hasPrefix("TLS: the server's certificate has expired: it was valid until "))
        let early = try Self.end(Self.server(.make(["localhost"], begins: 2, by: Self.authority)), Self.trusting(), name: "localhost")
        #expect(Self.reason(early).hasPrefix("TLS: the server's certificate isn't valid before "))
        #expect(Self.reason(early).hasSuffix("is this machine's clock right?"))
    }

    @Test("a certificate that signs itself is believed by whoever named it, and by nobody else")
    func pinned() throws {
        let alone = TestCertificate.make(["localhost"], commonName: "alone")
        let server = try Self.server(alone)
        #expect(try Self.end(server, Self.trusting(alone), name: "localhost") == nil)
        #expect(try Self.end(server, Self.trusting(), name: "localhost") != nil)
        // Named it may be, but not for another name.
        #expect(try Self.end(server, Self.trusting(alone), name: "other.example") != nil)
    }

    @Test("who trusts anyone trusts anyone")
    func insecure() throws {
        let server = try Self.server(.make(["other.example"], days: -2))
        #expect(try Self.end(server, TLSClientContext(trust: .anyone), name: "localhost") == nil)
    }

    @Test("a name that can't stand in a handshake is an error, not a handshake without a name", arguments: ["", "."])
    func unusableNames(name: String) throws {
        let server = try Self.server()
        let end = try Self.end(server, Self.trusting(), name: name)
        #expect(end == .lost("no TLS to \(name) is possible: the name or the memory is bad"))
    }

    @Test("authorities that aren't certificates are refused with what's wrong")
    func badAuthorities() {
        for text in ["", "no PEM", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"] {
            #expect(throws: TLSCertificate.Problem.self) { try TLSClientContext(trust: .only(Array(text.utf8))) }
        }
    }

    @Test("a server that says nothing is given up at the deadline; one that doesn't speak TLS at once")
    func noTLS() throws {
        let silent = try ListenSocket.open(SocketAddress("127.0.0.1:0")!, count: 1)
        let client = try LoopFixture()
        let peer = TLSPeer(try Self.trusting(), name: "localhost")
        Self.connect(client, silent[0].address.port, to: peer, deadline: .milliseconds(100))
        #expect(client.ends.wait(for: 1) == [.lost("TLS: no TLS handshake within the deadline")])
        let plain = try LoopFixture()
        Self.connect(client, plain.port, to: peer)
        #expect(client.ends.wait(for: 2).last == .lost("TLS: the other end doesn't speak TLS there"))
        withExtendedLifetime(silent) {}
    }

    @Test("the server's name is asked for by SNI, an address isn't; http/1.1 is offered, RFC 6066 §3, RFC 7301")
    func offers() throws {
        // The server chooses by the name: only SNI leads to the second certificate.
        let second = TestCertificate.make(["second.example"], by: Self.authority)
        let server = try LoopFixture(
            tls: TLSContext([Self.good.load(), second.load()], tickets: TicketKeys()))
        #expect(try Self.end(server, Self.trusting(), name: "second.example") == nil)
        #expect(try Self.end(server, Self.trusting(), name: "127.0.0.1") == nil)
        // A server of ours refuses whoever offers only something else (RFC 7301 §3.2).
        let end = try Self.end(server, TLSClientContext(trust: .anyone, protocols: ["h2"]), name: "localhost")
        #expect(end == .lost("TLS: tlsv1 alert no application protocol"))
    }
}
