import HubBase
import HubClient
import HubClientNet
import HubNet
import HubWire
import Testing

@Suite("The fleet: machines on a loop, over real sockets")
struct ClientFleetTests {
    /// One client that follows one channel; the story of what happened, until `isOver` says so or 10 s have passed.
    private final class Story: FleetHandler {
        let fleet: ClientFleet
        let query: String
        var lines: [String] = []
        var chats: Bool
        var isOver: (String) -> Bool

        init(_ port: Int, channel: String, query: String = "?user=u", chats: Bool = false, isOver: @escaping (String) -> Bool) throws {
            let url = try HubURL("ws://127.0.0.1:\(port)")
            fleet = try ClientFleet(routes: ClientFleet.routes(to: [url]), seed: 1)
            self.query = query
            self.chats = chats
            self.isOver = isOver
            fleet.handler = self
            let client = fleet.add(ClientMachine.Options(), route: 0)
            fleet.change(client) { $0.subscribe(Name(trusted: Array(channel.utf8))) }
        }

        func run() -> [String] {
            fleet.start(0)
            _ = fleet.loop.schedule(after: .seconds(10), kind: 1, value: 0)
            fleet.run()
            return lines
        }

        private func note(_ line: String) {
            lines.append(line)
            if isOver(line) { fleet.loop.stop() }
        }

        func opening(for client: Int, to url: HubURL) -> ClientOpening {
            ClientOpening(host: url.authority, target: "/v1/ws" + query, subprotocols: ["hub.v1.json"])
        }

        func renewToken(for client: Int) -> Bool { false }

        func received(_ received: ClientMachine.Received, _ message: UnsafeRawBufferPointer, client: Int) {
            switch received {
            case .welcome(let welcome): note("welcome \(welcome.connection?.description ?? "?")")
            case .acknowledged(let request, let envelope):
                note("ack \(request.kind) \(request.context) at \(envelope.offset ?? 0)")
                if request.kind == .subscribe, chats {
                    chats = false
                    let channel = fleet.followed(0)[0].channel
                    let isSent = Array("{}".utf8).withUnsafeBytes {
                        fleet.publish(0, .chat, channel: channel, messageId: nil, payload: $0, context: 77)
                    }
                    note("sent \(isSent)")
                }
            case .publication(let envelope, let subscription, let order):
                note("chat \(envelope.offset ?? 0) of \(subscription ?? -1) \(order)")
            case .violation: note("violation")
            default: note("other")
            }
        }

        func unanswered(_ request: PendingRequest, isTimeout: Bool, client: Int) { note("unanswered \(request.kind)") }

        func ended(_ end: TransportEnd, _ after: ClientMachine.AfterEnd, wasOpen: Bool, client: Int) {
            // Waits are drawn by chance.
            let outcome = if case .wait = after { "wait" } else { "\(after)" }
            note("ended \(EndText.text(end)), \(wasOpen ? "was open" : "never open"), \(outcome)")
        }

        func timerFired(kind: UInt32, value: UInt64) { fleet.loop.stop() }
        func woken() {}
        func turnEnding() {}
    }

    @Test("welcome, subscribe, publish: the answer comes back with the caller's number, the publication with its order")
    func dialogue() throws {
        let hub = try PlayedHub()
        let story = try Story(hub.port, channel: "room:1", chats: true) { $0.hasPrefix("ack publish") }
        #expect(story.run().prefix(5) == ["welcome c1", "ack subscribe 0 at 0", "sent true", "chat 1 of 0 next", "ack publish 77 at 1"])
        withExtendedLifetime(hub) {}
    }

    @Test("after 4008 it comes back and asks for what came after its last position")
    func resume() throws {
        let hub = try PlayedHub()
        var acks = 0
        let story = try Story(hub.port, channel: "slow", chats: true) { line in
            if line.hasPrefix("ack subscribe") { acks += 1 }
            return acks == 2
        }
        let lines = story.run()
        #expect(lines.contains("ended close 4008, was open, wait"))
        #expect(lines.contains("welcome c2"))
        #expect(lines.contains("ack subscribe 0 at 1"), "resubscribed without its position: \(lines)")
        withExtendedLifetime(hub) {}
    }

    @Test("a close frame's reason reaches the rules; what was in flight is unanswered")
    func reason() throws {
        let hub = try PlayedHub()
        let story = try Story(hub.port, channel: "drained") { $0.hasPrefix("ack subscribe") }
        let lines = story.run()
        #expect(lines.prefix(4) == ["welcome c1", "ended close 1012, 40, was open, wait", "unanswered subscribe", "welcome c2"])
        withExtendedLifetime(hub) {}
    }

    @Test("a refused handshake is an end with its status")
    func refused() throws {
        let hub = try PlayedHub()
        let story = try Story(hub.port, channel: "room:1", query: "") { $0.hasPrefix("ended") }
        #expect(story.run().first == "ended HTTP 401, never open, fetchToken")
        #expect(story.fleet.state(0) == .closed(.noToken))
        withExtendedLifetime(hub) {}
    }

    @Test("a peer that sends no envelopes is left")
    func violation() throws {
        let hub = try PlayedHub()
        let story = try Story(hub.port, channel: "nonsense") { $0.hasPrefix("ended") }
        #expect(story.run().dropFirst().prefix(2) == ["violation", "ended close 1002, was open, wait"])
        withExtendedLifetime(hub) {}
    }

    @Test("nobody there: an end that names the address")
    func unreachable() throws {
        let port: Int
        do {
            let closed = try ListenSocket.open(SocketAddress("127.0.0.1:0")!, count: 1)
            port = closed[0].address.port
            _ = closed[0].take()
        }
        let story = try Story(port, channel: "room:1") { $0.hasPrefix("ended") }
        #expect(story.run().first == "ended connect 127.0.0.1:\(port): Connection refused, never open, wait")
    }

    @Test("a route over TLS expects the URL's host; one without asks for none")
    func secureRoutes() throws {
        let routes = try ClientFleet.routes(to: [HubURL("wss://localhost:1"), HubURL("https://127.0.0.1"), HubURL("ws://127.0.0.1:3")])
        #expect(Set(routes.map { "\($0.url.port) \($0.tls?.name ?? "none")" }) == ["1 localhost", "443 127.0.0.1", "3 none"])
    }

    @Test("authorities that can't be read, or aren't certificates, are an error that names the file")
    func authorities() throws {
        let url = try HubURL("wss://127.0.0.1:1")
        for (file, reason) in [
            ("/nonexistent.pem", "can't read /nonexistent.pem: No such file or directory"),
            ("/dev/null", "/dev/null holds no certificate in PEM form"),
            ("/dev/zero", "/dev/zero has more than 4194304 bytes"),
        ] {
            let error = #expect(throws: NetError.self) { try ClientFleet.routes(to: [url], trust: .only(file: file)) }
            #expect(error?.description.hasPrefix("--ca: \(reason)") == true, "\(String(describing: error))")
        }
        #expect(throws: CommandLineError.self) { try ServerTrust(file: "a.pem", isInsecure: true) }
    }
}
