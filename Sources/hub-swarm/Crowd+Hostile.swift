import HubBase
import HubClient
import HubClientNet
import HubSwarm
import HubWire

/// What a hostile connection does.
enum HostileKind {
    /// Follows a room and what a flood says, and reads one buffer's worth twice a second.
    case slow
    /// Reads nothing any more once it's in: it never answers a ping, and never hangs up. When the hub has ended it, it reads why.
    case halfOpen
    /// Publishes and pings as fast as it can.
    case flood
    /// Sends what means nothing.
    case garbage

    static func list(_ hostile: Scenario.Hostile) -> [HostileKind] {
        [HostileKind](repeating: .slow, count: hostile.slow) + [HostileKind](repeating: .halfOpen, count: hostile.halfOpen)
            + [HostileKind](repeating: .flood, count: hostile.floods) + [HostileKind](repeating: .garbage, count: hostile.garbage)
    }

    /// Bytes of a slow one's buffer (`ClientOpening.receiveBuffer`): with what the kernel makes of it some 30 KB a second.
    static let slowBuffer: Int32 = 8192
    /// As over an Ethernet: then little more waits in the hub's kernel, and the close that ends the connection is read before the hub gives up.
    static let slowSegment: Int32 = 1400

    /// Between two doings of one connection.
    var period: Span {
        switch self {
        case .slow: .milliseconds(500)
        case .halfOpen: .seconds(1)
        case .flood: .milliseconds(20)
        case .garbage: .milliseconds(200)
        }
    }
}

/// The hostile ones: connected when the ramp begins, at it until the end. Nothing of theirs is in the normal bots' figures.
extension Crowd {
    /// Each has a timer of its own from the beginning on.
    func startHostile() {
        for index in hostile.indices {
            let client = bots.count + index
            if hostile[index] == .slow { follow(client, index) }
            fleet.start(client)
            scheduleHostile(client)
        }
        mutes.start(fleet.loop)
        scheduleMutes()
    }

    /// A slow one needs something to be slow about: rooms may be quiet.
    private func follow(_ client: Int, _ index: Int) {
        fleet.change(client) { machine in
            machine.subscribe(rooms[index % rooms.count].name)
            let floods = hostile.indices.filter { hostile[$0] == .flood }
            if !floods.isEmpty { machine.subscribe(names.flood(floods[index % floods.count], of: share.index)) }
        }
    }

    private func scheduleMutes() {
        guard !mutes.isEmpty else { return }
        _ = fleet.loop.schedule(after: .seconds(1), kind: Self.muteTimer, value: 0)
    }

    func tendMutes() {
        guard case .running = phase else { return }
        mutes.comeBack()
        scheduleMutes()
    }

    private func scheduleHostile(_ client: Int) {
        _ = fleet.loop.schedule(after: hostile[client - bots.count].period, kind: Self.hostileTimer, value: UInt64(client))
    }

    func misbehave(_ client: Int) {
        guard case .running = phase else { return }
        scheduleHostile(client)
        guard case .open = fleet.state(client) else { return }
        let index = client - bots.count
        switch hostile[index] {
        // Until something was read (`heardByHostile`).
        case .slow: fleet.setReading(true, client)
        case .halfOpen: fleet.setReading(fleet.hasPeerEnded(client), client)
        case .flood: flood(client, index)
        case .garbage:
            let nonsense = Self.nonsense[Int(tally.hostileSent % UInt64(Self.nonsense.count))]
            fleet.sendRaw(client, nonsense.isBinary ? .binary : .text, nonsense.bytes)
            tally.hostileSent += 1
        }
    }

    private func flood(_ client: Int, _ index: Int) {
        let channel = names.flood(index, of: share.index)
        let count = Int(scenario.hostile.rate * Double(HostileKind.flood.period.nanoseconds) / 1e9) + 1
        for _ in 0..<count {
            payload.removeAll()
            payload.append("\"as fast as it goes\"")
            guard fleet.tell(client, .chat, channel: channel, payload: payload.bytes) else { return }
            tally.hostileSent += 1
        }
    }

    func heardByHostile(_ received: ClientMachine.Received, _ client: Int) {
        let index = client - bots.count
        if hostile[index] == .slow, case .publication = received { fleet.setReading(false, client) }
        switch received {
        case .welcome: tally.hostileWelcomes += 1
        case .refused, .refusedUnasked: tally.hostileErrors += 1
        default: break
        }
    }

    func hostileEnded(_ end: TransportEnd, wasOpen: Bool) {
        tally.hostileEnds += 1
        Measures.add([EndText.text(end): 1], to: &hostileEnds)
    }

    /// All legal WebSocket messages; what the frames themselves can do wrong is the fuzzers' matter.
    private static let nonsense: [(bytes: [UInt8], isBinary: Bool)] = [
        (Array("not JSON".utf8), false),
        (Array("{}".utf8), false),
        (Array("{\"type\":\"nonsense\",\"id\":1}".utf8), false),
        (Array("{\"type\":\"chat\",\"id\":2}".utf8), false),
        (Array("{\"type\":\"subscribe\",\"id\":3,\"channel\":\"\\u0000\"}".utf8), false),
        (Array("{\"type\":\"subscribe\",\"id\":-1e400,\"channel\":7}".utf8), false),
        (Array(("{\"type\":\"chat\",\"channel\":\"a\",\"payload\":" + String(repeating: "[", count: 500)).utf8), false),
        (Array(("{\"type\":\"watch\",\"id\":4,\"users\":[" + String(repeating: "\"x\",", count: 2000) + "\"x\"]}").utf8), false),
        (Array("{\"type\":\"history\",\"id\":5,\"channel\":\"a\",\"since\":\"....\"}".utf8), false),
        ([0xDF, 0xFF, 0xFF, 0xFF, 0xFF], true),
    ]
}
