import HubBase
import HubClient
import HubClientNet
import HubNet
import HubSwarm
import HubWire

/// One connection to a URL before anything is started: what would keep a thousand bots out keeps this one out too, and says why.
final class Preflight: FleetHandler {
    private static let patience: Span = .seconds(6)
    private let settings: Crowd.Settings
    private let user: Name
    private let fleet: ClientFleet
    private var isWelcome = false
    private var failures = 0
    private var reason: String?
    /// It lets us in, but every message would be refused.
    private var tooLarge: String?
    /// Of a welcome: its goodbye is waited for so long.
    private var leaveBy: Instant?
    private var until = Instant.distantFuture
    /// The loop was told to stop: what ends now ends because of that, and is no word of the hub.
    private var isStopping = false

    /// nil: each of the URLs welcomed it. Else which doesn't, and why.
    static func problem(_ settings: Crowd.Settings, run: UInt64) throws(NetError) -> String? {
        var urls: [HubURL] = []
        for route in settings.routes where !urls.contains(route.url) { urls.append(route.url) }
        for (number, url) in urls.enumerated() {
            let reason = try Preflight(settings, url, user: CrowdNames(run: run).hostile(number, of: 0)).execute()
            if let reason { return "\(url): \(reason)" }
        }
        return nil
    }

    /// Ends the process with the reason when one of the URLs doesn't welcome us, or when it's interrupted meanwhile.
    static func orEnd(_ settings: Crowd.Settings, run: UInt64) throws(NetError) {
        if let problem = try problem(settings, run: run) { fail("the hub isn't there for us: \(problem)", code: 3) }
        guard settings.interrupts.received == 0 else { fail("interrupted before the start", code: 1) }
    }

    private init(_ settings: Crowd.Settings, _ url: HubURL, user: Name) throws(NetError) {
        self.settings = settings
        self.user = user
        // Only this one's addresses: a failure moves on to the next.
        let routes = settings.routes.filter { $0.url == url }
        fleet = try ClientFleet(routes: routes, format: settings.format, tick: .milliseconds(20), seed: UInt64(user.bytes.count))
        var options = ClientMachine.Options()
        options.welcomeDeadline = .seconds(4)
        options.backoff.first = .milliseconds(500)
        options.backoff.cap = .seconds(1)
        _ = fleet.add(options, route: 0)
    }

    private func execute() -> String? {
        fleet.handler = self
        settings.interrupts.wake(fleet.loop.signal)
        until = Clock.now() + Self.patience
        fleet.start(0)
        fleet.run()
        if let tooLarge { return tooLarge }
        return isWelcome || settings.interrupts.received > 0 ? nil : reason ?? "no answer within \(Self.patience)"
    }

    func opening(for client: Int, to url: HubURL) -> ClientOpening {
        var opening = CrowdOpening.make(url, user: user, device: "probe", settings)
        opening.source = settings.sources.first
        return opening
    }

    func renewToken(for client: Int) -> Bool { false }

    func received(_ received: ClientMachine.Received, _ message: UnsafeRawBufferPointer, client: Int) {
        switch received {
        case .welcome:
            isWelcome = true
            if let most = Self.messageBytes(in: message), UInt64(settings.payloadBytes) > most {
                tooLarge =
                    "it takes messages of up to \(most) bytes (limits.messageBytes), and payloads of \(settings.payloadBytes) were asked for"
            }
            fleet.stop(0)
        case .violation(let error): reason = "it speaks no \(settings.format.subprotocol): \(error.message)"
        default: break
        }
    }

    func ended(_ end: TransportEnd, _ after: ClientMachine.AfterEnd, wasOpen: Bool, client: Int) {
        guard !isWelcome, !isStopping else { return }
        var text = EndText.text(end)
        if case .unwelcomed = end, settings.tokens == nil {
            text += "; outside development mode a hub wants tokens (--token-key-env, --token-key-file)"
        }
        if case .refused(let status, _) = end, status == 401 {
            text += settings.tokens == nil ? "; it wants tokens (--token-key-env, --token-key-file)" : "; it doesn't take this key's tokens"
        }
        reason = reason ?? text
        failures += 1
        // A hub that is starting, or full for a moment, is waited for; one that doesn't want us isn't.
        if case .wait = after, failures < 4 { return }
        until = Clock.now()
    }

    func turnEnding() {
        let isOver = if case .closed = fleet.state(0) { true } else { false }
        if isWelcome, leaveBy == nil { leaveBy = Clock.now() + .seconds(1) }
        if isOver || Clock.now() >= min(until, leaveBy ?? until) { stop() }
    }

    /// `limits.messageBytes` of a welcome; nil where it says nothing of it.
    private static func messageBytes(in message: UnsafeRawBufferPointer) -> UInt64? {
        func value(_ name: StaticString, in object: ByteRange) -> JSONValue? {
            var fields = JSONFields(message, range: object, depthMax: 64)
            while let (key, value) = try? fields.next() {
                if key.range.bytes(in: message).elementsEqual(UnsafeRawBufferPointer(start: name.utf8Start, count: name.utf8CodeUnitCount))
                {
                    return value
                }
            }
            return nil
        }
        guard let limits = value("limits", in: ByteRange(offset: 0, count: message.count)), limits.kind == .object,
            let most = value("messageBytes", in: limits.range)
        else { return nil }
        return JSONText.unsigned(most.range.bytes(in: message))
    }

    func woken() { if settings.interrupts.received > 0 { stop() } }

    private func stop() {
        isStopping = true
        fleet.loop.stop()
    }

    func unanswered(_ request: PendingRequest, isTimeout: Bool, client: Int) {}
    func timerFired(kind: UInt32, value: UInt64) {}
}
