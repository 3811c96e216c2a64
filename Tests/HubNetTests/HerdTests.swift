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

    /// Clients that are connected and have their first bytes ready; sent in one go they come together, however slow the machine.
    private struct Comer {
        let client: RawClient
        let layer = TLSLayer(TLSLayer.Offer())
        let hello: [UInt8]

        init(_ fixture: LoopFixture) throws {
            client = RawClient(port: fixture.port)
            #expect(try !layer.shakeHands())
            hello = layer.takeOutput()
        }

        func comeIn() throws {
            while try !layer.shakeHands() { layer.offer(try client.receive()) }
            client.sendRaw(layer.takeOutput())
            client.take(layer)
        }

        func expectEcho() throws {
            try client.upgrade()
            client.sendText("in")
            #expect(try client.readFrame().text == "in")
        }
    }

    @Test("beyond the pace a handshake waits for its turn, and is then like any other")
    func pace() throws {
        let fixture = try TLSTests.fixture(Self.limits(perSecond: 4))
        let comers = try (0..<10).map { _ in try Comer(fixture) }
        let began = Self.now()
        for comer in comers { comer.client.sendRaw(comer.hello) }
        for comer in comers {
            try comer.comeIn()
            try comer.expectEcho()
        }
        // A burst of four, then one each quarter of a second: never earlier, however fast the machine is.
        #expect(Self.now() - began >= 1.5)
        let counters = fixture.counters
        #expect(counters.tlsHandshakes == 10 && counters.tlsTurnedAway == 0 && counters.arrivalsFailed == 0)
        #expect((1...6).contains(counters.tlsWaited))
    }

    @Test("whoever waits longer than the deadline is turned away without a handshake; who was let in stays")
    func deadline() throws {
        let fixture = try TLSTests.fixture(Self.limits(perSecond: 1, deadline: .milliseconds(800)))
        let first = try Comer(fixture)
        let second = try Comer(fixture)
        first.client.sendRaw(first.hello)
        second.client.sendRaw(second.hello)
        try first.comeIn()
        let end = second.client.readEnd()
        #expect(end == .endOfStream || end == .reset)
        let counters = fixture.counters
        #expect(counters.tlsHandshakes == 1 && counters.tlsWaited == 1 && counters.tlsTurnedAway == 1 && counters.arrivalsFailed == 1)
        try first.expectEcho()
    }

    @Test("who has waited has the whole time for its handshake then, and no more")
    func deadlineAfterWait() throws {
        let fixture = try TLSTests.fixture(Self.limits(perSecond: 1, deadline: .milliseconds(1500)))
        let first = try Comer(fixture)
        let second = try Comer(fixture)
        let began = Self.now()
        first.client.sendRaw(first.hello)
        // Half of it now, which waits for a second, and the rest never.
        second.client.sendRaw([UInt8](second.hello.prefix(second.hello.count / 2)))
        try first.comeIn()
        let end = second.client.readEnd()
        #expect(end == .endOfStream || end == .reset)
        // One second of waiting and the deadline after it.
        #expect(Self.now() - began >= 2.4)
        #expect(fixture.counters.tlsWaited == 1 && fixture.counters.tlsTurnedAway == 0 && fixture.counters.arrivalsFailed == 1)
    }

    @Test("who waits costs no session and isn't read from; who goes away meanwhile costs nobody else's turn")
    func leaving() throws {
        let fixture = try TLSTests.fixture(Self.limits(perSecond: 2))
        do {
            let comers = try (0..<12).map { _ in try Comer(fixture) }
            for comer in comers { comer.client.sendRaw(comer.hello) }
            for comer in comers[..<2] { try comer.comeIn() }
            let isWaiting = fixture.eventually { $0.counters.tlsWaited >= 5 }
            #expect(isWaiting)
            for comer in comers { comer.client.reset() }
        }
        let (last, _) = try fixture.joinSecurely()
        last.sendText("in")
        #expect(try last.readFrame().text == "in")
    }

    @Test("what came behind a PROXY header waits with it")
    func behindProxy() throws {
        let proxies = TrustedProxies(ranges: [AddressRange("127.0.0.1")].compactMap { $0 }, sendsHeader: true)
        let fixture = try LoopFixture(Self.limits(perSecond: 2), tls: TLSTests.context(), proxies: proxies)
        let header = ArrivalTests.header
        let comers = try (0..<4).map { _ in try Comer(fixture) }
        for comer in comers { comer.client.sendRaw(header + comer.hello) }
        for comer in comers {
            try comer.comeIn()
            comer.client.send("GET /in HTTP/1.1\r\nHost: a\r\n\r\n")
            #expect(try comer.client.readResponse().body == "/in")
        }
        #expect((1...2).contains(fixture.counters.tlsWaited))
    }

    @Test("200 at once, all within the pace: none is lost, in however many turns their handshakes begin")
    func turns() throws {
        let fixture = try TLSTests.fixture(Self.limits(perSecond: 1_000_000))
        let comers = try (0..<200).map { _ in try Comer(fixture) }
        for comer in comers { comer.client.sendRaw(comer.hello) }
        for comer in comers { try comer.comeIn() }
        let isDone = fixture.eventually { $0.counters.tlsHandshakes == 200 }
        #expect(isDone)
    }
}
