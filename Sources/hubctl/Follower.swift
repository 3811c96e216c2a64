import HubBase
import HubClient
import HubClientNet
import HubConsole
import HubNet
import HubWire

/// Follows channels or users over one WebSocket and prints what comes, until Ctrl-C, until nobody reads any more, or until the hub says
/// never. A connection that is lost later is made again, from the last positions on.
final class Follower: FleetHandler {
    enum Wish {
        /// `from`: where the first one begins.
        case channels([Name], from: Position? = nil)
        case presence([Name])
    }

    private static let readerTimer: UInt32 = 1

    private let hub: Hub
    private let wish: Wish
    private let isJSON: Bool
    private var output: Output
    private let fleet: ClientFleet
    private let interrupts: Interrupts
    private var wasWelcomed = false
    /// Subscribe acks; beyond the number of channels they're of a connection that was made again.
    private var acknowledged = 0
    private var failure: Failure?
    /// The loop was told to stop: what ends now ends because of that.
    private var isFinished = false

    static func run(_ hub: Hub, wish: Wish, isJSON: Bool, _ output: Output) throws(Failure) -> Output {
        let follower: Follower
        do throws(NetError) {
            follower = try Follower(hub, wish, isJSON, output)
        } catch {
            throw .unreachable(Hub.unreachable(hub.url, error.description))
        }
        follower.follow()
        if let failure = follower.failure { throw failure }
        return follower.output
    }

    private init(_ hub: Hub, _ wish: Wish, _ isJSON: Bool, _ output: Output) throws(NetError) {
        self.hub = hub
        self.wish = wish
        self.isJSON = isJSON
        self.output = output
        interrupts = try Interrupts()
        var limits = NetLimits()
        // A tool reads whatever its hub is configured to send.
        limits.messageBytes = 16 * 1024 * 1024
        var system = SystemRandomNumberGenerator()
        fleet = try ClientFleet(routes: ClientFleet.routes(to: [hub.url], trust: hub.trust), limits: limits, seed: system.next())
    }

    private func follow() {
        fleet.handler = self
        interrupts.wake(fleet.loop.signal)
        var options = ClientMachine.Options()
        // A hub in development mode welcomes at once; any other waits for a token that won't come.
        if hub.authorization == nil { options.welcomeDeadline = .seconds(3) }
        let client = fleet.add(options, route: 0)
        fleet.change(client) { machine in
            switch wish {
            case .channels(let channels, let from):
                for (place, channel) in channels.enumerated() { machine.subscribe(channel, from: place == 0 ? from : nil) }
            case .presence(let users): machine.watch(users)
            }
        }
        fleet.start(client)
        _ = fleet.loop.schedule(after: .milliseconds(200), kind: Self.readerTimer, value: 0)
        fleet.run()
    }

    private func finish(_ failure: Failure?) {
        guard !isFinished else { return }
        isFinished = true
        self.failure = failure
        fleet.loop.stop()
    }

    // MARK: The fleet's calls

    func opening(for client: Int, to url: HubURL) -> ClientOpening {
        let headers = hub.authorization.map { [(name: "Authorization", value: $0)] } ?? []
        // Without a key it's a hub in development mode, which takes the name from the URL. Who looks on is nobody's peer: no event, no webhook.
        let target = url.prefix + "/v1/ws" + (headers.isEmpty ? "?user=hubctl&status=invisible" : "")
        return ClientOpening(host: url.authority, target: target, subprotocols: ["hub.v1.json"], headers: headers)
    }

    func renewToken(for client: Int) -> Bool { false }

    func received(_ received: ClientMachine.Received, _ message: UnsafeRawBufferPointer, client: Int) {
        switch received {
        case .welcome:
            if wasWelcomed { output.note("connected again") }
            wasWelcomed = true
        case .publication, .missed:
            if case .channels = wish { printPublication([UInt8](message)) }
        case .presence(let envelope): printChanges(envelope.changes, message)
        case .acknowledged(let request, let envelope):
            if request.kind == .watch { printChanges(envelope.users, message) }
            if request.kind == .subscribe { sayThatItFollows(1) }
            if envelope.recovered == false {
                sayThatSomethingIsMissing(String(decoding: envelope.channel.bytes(in: message), as: UTF8.self))
            }
        case .subscribed(_, let outcomes):
            for outcome in outcomes {
                if outcome.recovered == false { sayThatSomethingIsMissing(outcome.channel.description) }
                if let error = outcome.error { refused(error) }
            }
            sayThatItFollows(outcomes.count { $0.error == nil })
        case .refused(_, _, let error): refused(error)
        case .refusedUnasked(let envelope):
            let error = envelope.wireError(in: message)
            output.note(RefusalText.text(code: error.code.rawValue, message: error.message, retryAfter: error.retryAfter))
        case .unsubscribed(_, let subscription):
            finish(.refused("the hub ended the subscription of \(subscription.channel)"))
        case .system, .resync:
            if let line = EnvelopeText.system([UInt8](message)) { output.note(line) }
        case .violation(let error): finish(.refused("\(hub.url) sends something that is no envelope (\(error.message)); is it a hub?"))
        case .members, .early, .ignored: break
        }
        if output.isGone { finish(nil) }
    }

    private func refused(_ error: WireError) {
        let text = RefusalText.text(code: error.code.rawValue, message: error.message, retryAfter: nil)
        // What may succeed later the machine asks again.
        if error.code.mayRetry { output.note(text + " (trying again)") } else { finish(.refused(text)) }
    }

    private func sayThatSomethingIsMissing(_ channel: String) {
        let name = Terminal.safe(channel)
        output.note("what was said in \(name) meanwhile is missing here; see hubctl history \(name)")
    }

    private func sayThatItFollows(_ count: Int) {
        guard case .channels(let channels, _) = wish else { return }
        let before = acknowledged
        acknowledged += count
        guard before < channels.count, acknowledged >= channels.count else { return }
        output.hint("following \(channels.map { Terminal.safe($0.description) }.joined(separator: ", ")), Ctrl-C ends")
    }

    private func printPublication(_ message: [UInt8]) {
        if isJSON {
            output.line(message)
        } else if let line = EnvelopeText.publication(
            message, clock: Output.clock(of: JSONObject(message)?.number("time")), on: output.terminal)
        {
            output.line(line)
        }
    }

    private func printChanges(_ list: ByteRange, _ message: UnsafeRawBufferPointer) {
        guard case .presence = wish, list.isPresent else { return }
        let array = JSONObject.Value(kind: .array, raw: [UInt8](list.bytes(in: message)), hasEscapes: false)
        for change in array.objects ?? [] {
            if isJSON {
                output.line(change.raw)
            } else if let text = PresenceText.change(change, now: Output.wallMilliseconds(), on: output.terminal) {
                output.line(output.terminal.paint(Output.clock(), .grey) + " " + text)
            }
        }
    }

    func unanswered(_ request: PendingRequest, isTimeout: Bool, client: Int) {
        guard isTimeout else { return }
        output.note("\(hub.url) hasn't answered within 10 s")
        // A subscription is asked for again; nobody asks for a watch list twice on one connection.
        if request.kind == .watch { finish(.refused("the hub doesn't answer the watch request")) }
    }

    func ended(_ end: TransportEnd, _ after: ClientMachine.AfterEnd, wasOpen: Bool, client: Int) {
        guard !isFinished else { return }
        switch after {
        case .finished(.asked): finish(nil)
        case .finished, .fetchToken: finish(refused(end))
        case .wait(let delay):
            guard wasWelcomed else {
                switch end {
                case .refused: return finish(refused(end))
                case .unwelcomed where hub.authorization == nil: return finish(refused(end))
                case .unwelcomed, .closed, .failed: return finish(.unreachable(Hub.unreachable(hub.url, EndText.text(end))))
                }
            }
            output.note("connection lost (\(EndText.text(end))); back in \(delay.milliseconds) ms")
        }
    }

    private func refused(_ end: TransportEnd) -> Failure {
        let advice: String
        switch end {
        case .refused(let status, _):
            // The hub's own words, where it's the hub that answered.
            let body = Array(fleet.loop.closeReason.utf8)
            return .refused("the hub at \(hub.url) didn't let us in: " + RefusalText.http(status: status, body))
        case .closed(CloseCode.tokenInvalid.rawValue, _), .closed(CloseCode.tokenExpired.rawValue, _):
            advice = RefusalText.advice(status: 401)
        case .unwelcomed: advice = RefusalText.advice(status: 401)
        case .closed, .failed: advice = ""
        }
        return .refused("the hub at \(hub.url) didn't let us in: \(EndText.text(end))" + advice)
    }

    func timerFired(kind: UInt32, value: UInt64) {
        output.checkReader()
        if output.isGone { return finish(nil) }
        _ = fleet.loop.schedule(after: .milliseconds(200), kind: Self.readerTimer, value: 0)
    }

    func turnEnding() {}

    /// Ctrl-C: leave in order; a second one at once.
    func woken() {
        guard interrupts.received > 0 else { return }
        if interrupts.received > 1 { return finish(nil) }
        fleet.stop(0)
        if case .closed = fleet.state(0) { finish(nil) }
    }
}
