import HubBase
import HubCore
import HubWire
import Testing

/// Several channels in one request: one message answers them all, so they're joined at one moment.
@Suite struct RecoveryCompanyTests {
    private static let quick: Name = "room:quick"
    private static let slow: Name = "room:slow"
    private static let epoch = Mark("x7c2mq4a")!
    private static let now = Instant(nanoseconds: 1_000_000_000)

    private static func publication(_ offset: UInt64) -> PositionedPublication {
        PositionedPublication(
            position: position(offset), previous: position(offset - 1).tag,
            publication: Publication(messageClass: .chat, user: "alice", device: .empty, messageId: "m", time: 0, payload: [49]))
    }

    private static func position(_ offset: UInt64) -> Position {
        offset == 0 ? .origin(Mark(chance: 0)) : Position(epoch: epoch, offset: offset, tag: Mark(chance: offset))
    }

    /// Both channels are carried and stand at 10; the quick one remembers all of its publications, the slow one none.
    private static func carried() -> RecoveryMachine {
        let machine = RecoveryMachine()
        for channel in [quick, slow] {
            join(machine, [(channel, nil)], from: 90)
            for case .subscribe(_, let serial) in take(machine) {
                machine.subscribed(channel, .success(position(channel == quick ? 0 : 10)), serial: serial)
            }
        }
        for offset in 1...10 { deliver(UInt64(offset), machine) }
        _ = take(machine)
        return machine
    }

    private static func deliver(_ offset: UInt64, _ machine: RecoveryMachine) {
        guard let (slot, _) = machine.carried(quick) else { return }
        machine.delivered(DurableDelivery(channel: quick, publication: publication(offset)), at: slot)
    }

    private static func join(_ machine: RecoveryMachine, _ wanted: [(Name, Position?)], from tag: UInt64 = 1) {
        let items = wanted.enumerated().map { JoinBatch.Item(channel: $1.0, position: $1.1, tag: tag + UInt64($0)) }
        machine.join(JoinBatch(loop: 0, items: items, user: "bob", wantsMarks: false, limit: 100, bytes: 1 << 20), at: now)
    }

    private static func take(_ machine: RecoveryMachine) -> [RecoveryMachine.Action] {
        defer { machine.actions = [] }
        return machine.actions
    }

    private static func answers(_ machine: RecoveryMachine) -> [UInt64: Result<JoinAnswer, WireError>] {
        var found: [UInt64: Result<JoinAnswer, WireError>] = [:]
        for case .answer(let result, _, let tag) in take(machine) { found[tag] = result }
        return found
    }

    @Test("a channel that could be answered waits for the one whose history is read, and is answered as it stands then")
    func together() throws {
        let machine = Self.carried()
        Self.join(machine, [(Self.quick, Self.position(8)), (Self.slow, Self.position(7))])
        let asked = Self.take(machine)
        #expect(asked.count == 1)
        guard case .read(Self.slow, _, let key)? = asked.first else { throw Unexpected() }
        Self.deliver(11, machine)
        #expect(machine.actions.isEmpty, "nobody is joined while the request isn't answered")
        let page = HistoryPage(
            publications: [Self.publication(8), Self.publication(9), Self.publication(10)], tip: Self.position(10), hasMore: false,
            continuity: .whole)
        machine.historyRead(.success(page), key: key)
        let answers = Self.answers(machine)
        #expect(try answers[1]?.get().publications.map(\.position.offset) == [9, 10, 11])
        #expect(try answers[1]?.get().position == Self.position(11))
        #expect(try answers[2]?.get().publications.map(\.position.offset) == [8, 9, 10])
        #expect(machine.waitingCount == 0)
    }

    @Test("without positions too: they join when all are confirmed")
    func confirmed() throws {
        let machine = Self.carried()
        Self.join(machine, [(Self.quick, nil), ("room:new", nil)])
        guard case .subscribe("room:new", let serial)? = Self.take(machine).first else { throw Unexpected() }
        Self.deliver(11, machine)
        #expect(machine.actions.isEmpty)
        machine.subscribed("room:new", .success(.origin(Mark(chance: 5))), serial: serial)
        let answers = Self.answers(machine)
        #expect(try answers[1]?.get().position == Self.position(11))
        #expect(try answers[2]?.get().position == .origin(Mark(chance: 5)))
    }

    @Test("a request of many channels costs a few looks at each, in whatever order they're confirmed", arguments: [false, true])
    func many(isBackwards: Bool) {
        let count = 3_000
        let machine = RecoveryMachine()
        Self.join(machine, (0..<count).map { (Name(validating: "room:\($0)")!, $0 % 3 == 0 ? Self.position(10) : nil) })
        var serials: [(Name, UInt64)] = []
        for case .subscribe(let channel, let serial) in Self.take(machine) { serials.append((channel, serial)) }
        if isBackwards { serials.reverse() }
        for (channel, serial) in serials { machine.subscribed(channel, .success(Self.position(10)), serial: serial) }
        for case .read(_, _, let key) in Self.take(machine) {
            let page = HistoryPage(publications: [], tip: Self.position(10), hasMore: false, continuity: .whole)
            machine.historyRead(.success(page), key: key)
        }
        #expect(machine.waitingCount == 0 && machine.numbers.failed == 0)
        #expect(machine.numbers.looks < UInt64(20 * count), "\(machine.numbers.looks)")
    }

    @Test("one that fails doesn't keep the others waiting, at once or when time is up")
    func failing() throws {
        let machine = Self.carried()
        Self.join(machine, [(Self.quick, Self.position(8)), (Self.slow, Self.position(7))])
        guard case .read(_, _, let key)? = Self.take(machine).first else { throw Unexpected() }
        machine.historyRead(.failure(WireError(.unavailable, "the link to Redis is down")), key: key)
        var answers = Self.answers(machine)
        #expect(try answers[1]?.get().recovered == true)
        #expect(throws: WireError.self) { try answers[2]?.get() }

        Self.join(machine, [(Self.quick, Self.position(8)), (Self.slow, Self.position(7))])
        _ = Self.take(machine)
        machine.tick(at: Self.now + .seconds(9))
        answers = Self.answers(machine)
        #expect(try answers[1]?.get().recovered == true)
        #expect(throws: WireError.self) { try answers[2]?.get() }
        #expect(machine.waitingCount == 0)
    }
}

private struct Unexpected: Error {}
