import HubBase
import HubClientNet
import HubNet
import HubSwarm

/// Sockets that never come to a request: they say nothing, or half a head, and wait for the hub to end them. What was ended comes back.
///
/// A hub that has no deadline for these runs out of descriptors by them. They have none of the swarm's machines: 200 bytes each.
final class MuteSockets: StreamHandler {
    private struct Socket {
        let says: StaticString
        let route: Int
        var stream: ByteStream?
        /// When its connection was there.
        var since: Instant?
        /// "HTTP/1.1 408": the answer's beginning.
        var answer: [UInt8] = []
    }

    private static let half: StaticString = "GET /v1/ws HTTP/1.1\r\nHost: hub.example\r\nUpgrade: web"
    private static let connectDeadline: Span = .seconds(10)
    private static let answerMax = 12

    private let routes: [ClientFleet.Route]
    private var sockets: [Socket] = []
    private var places: [ObjectIdentifier: Int] = [:]
    private unowned(unsafe) var loop: NetLoop?
    private var opened: UInt64 = 0
    private var ends: [String: UInt64] = [:]
    private var longest = Span.zero

    init(_ hostile: Scenario.Hostile, _ routes: [ClientFleet.Route]) {
        self.routes = routes
        for index in 0..<hostile.silent { sockets.append(Socket(says: "", route: index % routes.count)) }
        for index in 0..<hostile.halfHead { sockets.append(Socket(says: Self.half, route: index % routes.count)) }
    }

    var isEmpty: Bool { sockets.isEmpty }

    /// On the loop's thread, as all else.
    func start(_ loop: NetLoop) {
        self.loop = loop
        comeBack()
    }

    /// Whoever was ended tries again.
    func comeBack() {
        guard let loop else { return }
        for index in sockets.indices where sockets[index].stream == nil {
            let route = routes[sockets[index].route]
            // Who says nothing doesn't say a TLS hello either.
            let peer = isSilent(index) ? nil : route.tls
            let stream = loop.openStream(to: route.address, connectDeadline: Self.connectDeadline, tls: peer, handler: self)
            sockets[index].stream = stream
            sockets[index].since = nil
            sockets[index].answer = []
            places[ObjectIdentifier(stream)] = index
        }
    }

    /// The run is over.
    func close() {
        for index in sockets.indices {
            if let since = sockets[index].since { longest = max(longest, Clock.now().since(since)) }
            sockets[index].stream?.close()
            sockets[index].stream = nil
        }
        loop = nil
    }

    /// For the report: how many were opened, how they ended, and how long the hub had patience with one, in milliseconds.
    func counters(_ now: Instant) -> [String: UInt64] {
        guard !isEmpty else { return [:] }
        let standing = sockets.compactMap(\.since).map { now.since($0) }.max() ?? .zero
        var counters = [
            Measures.Counter.muteOpened: opened, Measures.Counter.muteEnds: ends.values.reduce(0, +),
            Measures.Counter.muteLongest: max(longest, standing).milliseconds,
        ]
        for (why, count) in ends { counters[Measures.Counter.hostileEnd(why)] = count }
        return counters
    }

    private func isSilent(_ index: Int) -> Bool { sockets[index].says.utf8CodeUnitCount == 0 }

    // MARK: StreamHandler

    func streamOpened(_ stream: ByteStream) {
        guard let index = places[ObjectIdentifier(stream)] else { return }
        opened += 1
        sockets[index].since = Clock.now()
        let text = sockets[index].says
        if !isSilent(index) { stream.write(UnsafeRawBufferPointer(start: text.utf8Start, count: text.utf8CodeUnitCount)) }
    }

    func streamReceived(_ stream: ByteStream, _ bytes: UnsafeRawBufferPointer) {
        guard let index = places[ObjectIdentifier(stream)] else { return }
        sockets[index].answer += bytes.prefix(Self.answerMax - sockets[index].answer.count)
    }

    func streamEnded(_ stream: ByteStream, _ reason: NetError) {
        guard let index = places.removeValue(forKey: ObjectIdentifier(stream)), sockets[index].stream != nil else { return }
        let what = isSilent(index) ? "a silent socket" : "half a head"
        let status = String(decoding: sockets[index].answer.dropFirst("HTTP/1.1 ".utf8.count), as: UTF8.self)
        let how = sockets[index].since == nil ? "not connected" : Int(status).map { "HTTP \($0)" } ?? "closed without an answer"
        Measures.add(["\(what): \(how)": 1], to: &ends)
        if let since = sockets[index].since { longest = max(longest, Clock.now().since(since)) }
        sockets[index].stream = nil
        sockets[index].since = nil
    }
}
