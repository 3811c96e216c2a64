import Glibc
import HubBase
import HubNet
import Testing

/// Many clients at once before TLS: their handshakes begin at the node's pace, first come, first served.
@Suite struct HerdTests {
    private static func limits(perSecond: Int, deadline: Span = .seconds(10)) -> NetLimits {
        var limits = NetLimits()
        limits.admissionsPerSecond = perSecond
        limits.tlsDeadline = deadline
        return limits
    }

    private static func now() -> Double {
        var time = timespec()
        clock_gettime(CLOCK_MONOTONIC, &time)
        return Double(time.tv_sec) + Double(time.tv_nsec) / 1e9
    }

    @Test("beyond the pace a handshake waits for its turn, and is then like any other")
    func pace() throws {
        let fixture = try TLSTests.fixture(Self.limits(perSecond: 4))
        let began = Self.now()
        // A burst of four, then one each quarter of a second: six of ten have to wait.
        let clients = (0..<10).map { _ in RawClient(port: fixture.port) }
        let layers = clients.map { _ in TLSLayer(TLSLayer.Offer()) }
        for (client, layer) in zip(clients, layers) {
            #expect(try !layer.shakeHands())
            client.sendRaw(layer.takeOutput())
        }
        for (client, layer) in zip(clients, layers) {
            while try !layer.shakeHands() { layer.offer(try client.receive()) }
            client.sendRaw(layer.takeOutput())
            client.take(layer)
            try client.upgrade()
            client.sendText("in")
            #expect(try client.readFrame().text == "in")
        }
        // Never earlier than the pace allows, however fast the machine is.
        #expect(Self.now() - began >= 1.5)
        let counters = fixture.counters
        #expect(counters.tlsHandshakes == 10 && counters.tlsWaited == 6 && counters.tlsTurnedAway == 0 && counters.arrivalsFailed == 0)
    }

    @Test("whoever waits longer than the deadline is turned away without a handshake; who was let in stays")
    func deadline() throws {
        let fixture = try TLSTests.fixture(Self.limits(perSecond: 1, deadline: .milliseconds(300)))
        let (first, _) = try fixture.joinSecurely()
        let second = RawClient(port: fixture.port)
        let layer = TLSLayer(TLSLayer.Offer())
        #expect(try !layer.shakeHands())
        second.sendRaw(layer.takeOutput())
        let end = second.readEnd()
        #expect(end == .endOfStream || end == .reset)
        let counters = fixture.counters
        #expect(counters.tlsHandshakes == 1 && counters.tlsWaited == 1 && counters.tlsTurnedAway == 1 && counters.arrivalsFailed == 1)
        first.sendText("still here")
        #expect(try first.readFrame().text == "still here")
    }

    @Test("who waits costs no session and isn't read from; who goes away meanwhile costs nobody else's turn")
    func leaving() throws {
        let fixture = try TLSTests.fixture(Self.limits(perSecond: 2))
        var first: [RawClient] = []
        for _ in 0..<2 { first.append(try fixture.joinSecurely().0) }
        // Ten come and are reset while they wait; the one behind them is let in all the same.
        do {
            let gone = (0..<10).map { _ in RawClient(port: fixture.port) }
            for client in gone {
                let layer = TLSLayer(TLSLayer.Offer())
                #expect(try !layer.shakeHands())
                client.sendRaw(layer.takeOutput())
            }
            let isWaiting = fixture.eventually { $0.counters.tlsWaited >= 9 }
            #expect(isWaiting)
            for client in gone { client.reset() }
        }
        let (last, _) = try fixture.joinSecurely()
        last.sendText("in")
        #expect(try last.readFrame().text == "in")
        withExtendedLifetime(first) {}
    }

    @Test("what came behind a PROXY header waits with it")
    func behindProxy() throws {
        let proxies = TrustedProxies(ranges: [AddressRange("127.0.0.1")].compactMap { $0 }, sendsHeader: true)
        let fixture = try LoopFixture(Self.limits(perSecond: 2), tls: TLSTests.context(), proxies: proxies)
        let header = ArrivalTests.header
        let clients = (0..<4).map { _ in RawClient(port: fixture.port) }
        let layers = clients.map { _ in TLSLayer(TLSLayer.Offer()) }
        for (client, layer) in zip(clients, layers) {
            #expect(try !layer.shakeHands())
            client.sendRaw(header + layer.takeOutput())
        }
        for (client, layer) in zip(clients, layers) {
            while try !layer.shakeHands() { layer.offer(try client.receive()) }
            client.sendRaw(layer.takeOutput())
            client.take(layer)
            client.send("GET /in HTTP/1.1\r\nHost: a\r\n\r\n")
            #expect(try client.readResponse().body == "/in")
        }
        #expect(fixture.counters.tlsWaited == 2)
    }

    @Test("200 at once, all within the pace: none is lost, in however many turns their handshakes begin")
    func turns() throws {
        let fixture = try TLSTests.fixture(Self.limits(perSecond: 1_000_000))
        let clients = (0..<200).map { _ in RawClient(port: fixture.port) }
        let layers = clients.map { _ in TLSLayer(TLSLayer.Offer()) }
        fixture.perform { _, _ in StallClock.pass(milliseconds: 1) }
        for (client, layer) in zip(clients, layers) {
            #expect(try !layer.shakeHands())
            client.sendRaw(layer.takeOutput())
        }
        for (client, layer) in zip(clients, layers) {
            while try !layer.shakeHands() { layer.offer(try client.receive()) }
            client.sendRaw(layer.takeOutput())
        }
        let isDone = fixture.eventually { $0.counters.tlsHandshakes == 200 }
        #expect(isDone)
    }
}
