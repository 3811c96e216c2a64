import HubBase
import HubClient
import HubWire

/// A machine under a clock of its own: milliseconds since the test began.
struct Driven {
    var machine: ClientMachine
    var chance = Chance(seed: 42)
    var milliseconds: UInt64 = 1000

    init(_ options: ClientMachine.Options = ClientMachine.Options()) { machine = ClientMachine(options) }

    var now: Instant { Instant(nanoseconds: milliseconds * 1_000_000) }

    static let welcome =
        #"{"type":"system","event":"welcome","connection":"n1.7","node":"n1","user":"alice","device":"d","ping":20000,"channels":{}}"#

    /// Connected and welcomed.
    static func open(_ options: ClientMachine.Options = ClientMachine.Options()) -> Driven {
        var driven = Driven(options)
        driven.machine.start(now: driven.now)
        driven.machine.transportOpened(now: driven.now)
        _ = driven.receive(welcome)
        return driven
    }

    @discardableResult
    mutating func receive(_ text: String) -> ClientMachine.Received {
        [UInt8](text.utf8).withUnsafeBytes { machine.received($0, now: now) }
    }

    mutating func end(_ end: TransportEnd) -> ClientMachine.AfterEnd {
        machine.transportEnded(end, now: now, chance: &chance)
    }

    /// Everything that the machine wants to send now.
    mutating func requests() -> [ClientRequest] {
        var all: [ClientRequest] = []
        while let request = machine.nextRequest(now: now) { all.append(request) }
        return all
    }

    /// Waits out the backoff and connects again, up to the welcome.
    mutating func comeBack() {
        guard case .waiting(let until, _) = machine.state else { return }
        milliseconds = until.nanoseconds / 1_000_000 + 1
        guard machine.deadlinePassed(now: now) == .connect else { return }
        machine.transportOpened(now: now)
        receive(Self.welcome)
    }
}

extension Position {
    init(_ text: String) {
        guard let position = [UInt8](text.utf8).withUnsafeBytes({ Position(text: $0) }) else { preconditionFailure("no position: \(text)") }
        self = position
    }
}
