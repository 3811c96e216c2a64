import HubBase
import HubCore
import HubWire
import Testing

/// A machine under test, with the time, and its actions sorted by kind.
final class PresenceMachineBench {
    var machine: PresenceMachine
    var now = Instant(nanoseconds: 1_000_000_000)
    let timers: PresenceTimers

    init(_ timers: PresenceTimers = PresenceTimers(), isUp: Bool = true) {
        self.timers = timers
        machine = PresenceMachine(timers: timers, node: "nodenodenode", tagSpace: 5, chance: Chance(seed: 3), at: now)
        if isUp { machine.storeHealth(.up, at: now) }
    }

    func connect(_ connection: Name, _ user: Name = "alice") {
        machine.connected(connection: connection, user: user, device: "phone", at: now)
    }

    func request(_ status: Payload.Status, _ connection: Name, tag: UInt64 = 1) {
        machine.requested(connection: connection, status: status, tag: RequestTag(high: 1, low: tag), at: now)
    }

    func actions() -> [PresenceAction] { machine.takeActions(at: now) }

    /// The operations that leave now, and the calls they are in.
    func applies() -> [(operations: [PresenceOperation], tag: RequestTag)] {
        actions().compactMap { if case .apply(let operations, _, let tag) = $0 { (operations, tag) } else { nil } }
    }

    /// Lets everything that waits reach the store and be taken.
    @discardableResult
    func settle(version: UInt64 = 100) -> [PresenceAction] {
        var all: [PresenceAction] = []
        while true {
            let actions = actions()
            if actions.isEmpty { return all }
            all += actions
            for action in actions {
                if case .apply(let operations, _, let tag) = action {
                    machine.applied(.success(operations.map { _ in version }), tag: tag, at: now)
                }
            }
        }
    }

    /// Ticks through `span`; all that came out, answered by `answer`.
    @discardableResult
    func pass(_ span: Span, step: Span = .milliseconds(50), _ answer: (PresenceAction) -> Void = { _ in }) -> [PresenceAction] {
        var all: [PresenceAction] = []
        let end = now + span
        while now < end {
            now = now + step
            machine.tick(at: now)
            let actions = actions()
            all += actions
            for action in actions { answer(action) }
        }
        return all
    }
}

func kindsApplied(_ applies: [(operations: [PresenceOperation], tag: RequestTag)]) -> [PresenceOperation.Kind] {
    applies.flatMap { $0.operations.map(\.kind) }
}

private let refused = WireError(.unavailable, "refused", retryAfter: 2_000)

@Suite("Presence machine: a node's own connections")
struct PresenceMachineTests {
    @Test("a connection goes to the store at once, with all that its record needs")
    func connects() {
        let bench = PresenceMachineBench()
        bench.connect("nodenodenode-1")
        let applies = bench.applies()
        #expect(
            applies.map(\.operations) == [
                [
                    PresenceOperation(
                        kind: .up(.online), user: "alice", connection: "nodenodenode-1", node: "nodenodenode", device: "phone", age: .zero,
                        versionFloor: 0)
                ]
            ])
        let count = bench.machine.connectionCount
        #expect(count == 1)
    }

    @Test("changes of one connection are sent at most every 2 s, the last state only")
    func coalesces() {
        let bench = PresenceMachineBench()
        bench.connect("c-1")
        bench.settle()
        for tag in 1...10 { bench.request(tag % 2 == 0 ? .invisible : .away, "c-1", tag: UInt64(tag)) }
        bench.request(.invisible, "c-1", tag: 11)
        #expect(bench.applies().isEmpty)
        let soon = bench.pass(.milliseconds(1_900))
        #expect(!soon.contains { if case .apply = $0 { true } else { false } })
        var sent: [PresenceOperation.Kind] = []
        let later =
            bench.pass(.milliseconds(4_000)) { action in
                guard case .apply(let operations, _, let tag) = action else { return }
                sent += operations.map(\.kind)
                bench.machine.applied(.success([200]), tag: tag, at: bench.now)
            } + bench.actions()
        #expect(sent == [.up(.invisible)])
        let acks = later.compactMap { action -> UInt64? in
            if case .presenceAck(let tag, .success(200)) = action { tag.low } else { nil }
        }
        #expect(acks == Array(1...11), "each request is answered once")
    }

    @Test("a state that comes back to the stored one before its turn is no operation, and is answered")
    func comesBack() {
        let bench = PresenceMachineBench()
        bench.connect("c-1")
        bench.settle(version: 42)
        bench.request(.away, "c-1", tag: 1)
        bench.request(.online, "c-1", tag: 2)
        let actions = bench.settle()
        #expect(
            actions == [
                .presenceAck(tag: RequestTag(high: 1, low: 1), .success(42)), .presenceAck(tag: RequestTag(high: 1, low: 2), .success(42)),
            ])
    }

    @Test("what the store refuses is sent again every 2 s, as it is by then, until it is taken; nothing old is replayed")
    func retries() {
        let bench = PresenceMachineBench()
        bench.connect("c-1")
        var sent: [PresenceOperation.Kind] = []
        var isFull = true
        let answer = { (action: PresenceAction) in
            guard case .apply(let operations, _, let tag) = action else { return }
            sent += operations.map(\.kind)
            bench.machine.applied(isFull ? .failure(refused) : .success([7]), tag: tag, at: bench.now)
        }
        bench.pass(.milliseconds(3_900), answer)
        #expect(sent == [.up(.online), .up(.online)])
        bench.request(.away, "c-1")
        isFull = false
        bench.pass(.seconds(10), answer)
        #expect(sent == [.up(.online), .up(.online), .up(.away)])
    }

    @Test("a clean close leaves without grace, any other with it; neither waits for the pace")
    func closes() {
        let bench = PresenceMachineBench()
        bench.connect("c-1")
        bench.connect("c-2")
        bench.settle()
        bench.machine.closed(connection: "c-1", clean: true, at: bench.now)
        bench.machine.closed(connection: "c-2", clean: false, at: bench.now)
        #expect(kindsApplied(bench.applies()) == [.down(grace: .zero), .down(grace: .seconds(10))])
        let count = bench.machine.connectionCount
        #expect(count == 0)
    }

    @Test("a clean close while the store is away has grace: the user may be back elsewhere")
    func closesFrozen() {
        let bench = PresenceMachineBench()
        bench.connect("c-1")
        bench.connect("c-2")
        bench.settle()
        bench.machine.closed(connection: "c-2", clean: true, at: bench.now)
        bench.machine.storeHealth(.down("cut"), at: bench.now)
        bench.machine.closed(connection: "c-1", clean: true, at: bench.now)
        #expect(bench.actions().isEmpty)
        bench.machine.storeHealth(.up, at: bench.now)
        #expect(kindsApplied(bench.applies()) == [.down(grace: .seconds(10)), .down(grace: .seconds(10))])
    }

    @Test("a connection that fell silent has ended when it was heard last, and has the whole grace")
    func silent() {
        let bench = PresenceMachineBench()
        bench.connect("c-1")
        bench.settle()
        bench.pass(.seconds(10))
        let lastHeard = bench.now
        bench.pass(.seconds(30))
        bench.machine.closed(connection: "c-1", clean: false, lastHeard: lastHeard, at: bench.now)
        #expect(kindsApplied(bench.applies()) == [.down(grace: bench.timers.grace, ago: .seconds(30))])
    }

    @Test("the store is told how long ago an end was that it couldn't be told, and which was a goodbye; also where it's written again")
    func endsLate() {
        let bench = PresenceMachineBench()
        for number in 1...3 { bench.connect(Name(trusted: [UInt8]("c-\(number)".utf8))) }
        bench.settle()
        bench.pass(.seconds(3))
        // Under way, and never answered; in line behind it; ended while the store is away.
        bench.machine.closed(connection: "c-1", clean: true, at: bench.now)
        let first = bench.applies()
        #expect(kindsApplied(first) == [.down(grace: .zero)])
        bench.machine.closed(connection: "c-2", clean: true, at: bench.now)
        bench.now = bench.now + .seconds(1)
        bench.machine.storeHealth(.down("cut"), at: bench.now)
        bench.machine.applied(.failure(refused), tag: first[0].tag, at: bench.now)
        bench.machine.closed(connection: "c-3", clean: false, at: bench.now)
        bench.pass(.seconds(20))
        bench.machine.storeHealth(.up, at: bench.now)
        let grace = bench.timers.grace
        func told(_ ago: UInt64, _ kind: (Span) -> PresenceOperation.Kind) -> Set<String> {
            [
                "c-1 \(kind(.seconds(ago + 1))) true", "c-2 \(kind(.seconds(ago + 1))) true",
                "c-3 \(kind(.seconds(ago))) false",
            ]
        }
        func spelled(_ operations: [PresenceOperation]) -> Set<String> {
            Set(operations.map { "\($0.connection) \($0.kind) \($0.isAsked)" })
        }
        let late = bench.applies()
        #expect(spelled(late.flatMap(\.operations)) == told(20) { .down(grace: grace, ago: $0) })
        for call in late { bench.machine.applied(.success(call.operations.map { _ in 7 }), tag: call.tag, at: bench.now) }
        bench.machine.storeHealth(.down("restart"), at: bench.now)
        bench.pass(.seconds(5))
        bench.machine.storeHealth(.up, at: bench.now)
        #expect(spelled(bench.applies().flatMap(\.operations)) == told(25) { .down(grace: grace, ago: $0) })
    }

    @Test("a clean close that the store refused has grace the next time: meanwhile the user may be back elsewhere")
    func closesRefused() {
        let bench = PresenceMachineBench()
        bench.connect("c-1")
        bench.settle()
        bench.machine.closed(connection: "c-1", clean: true, at: bench.now)
        var sent: [PresenceOperation.Kind] = []
        let answer = { (action: PresenceAction) in
            guard case .apply(let operations, _, let tag) = action else { return }
            sent += operations.map(\.kind)
            bench.machine.applied(sent.count == 1 ? .failure(refused) : .success([9]), tag: tag, at: bench.now)
        }
        bench.pass(.milliseconds(1_900), answer)
        // The machine passes its time in steps of 50 ms.
        #expect(sent == [.down(grace: .zero, ago: .milliseconds(50))])
        bench.pass(.seconds(4), answer)
        #expect(sent == [.down(grace: .zero, ago: .milliseconds(50)), .down(grace: .seconds(10), ago: .seconds(2))])
    }

    @Test("a connection that came and went while the store was away leaves no trace")
    func neverSeen() {
        let bench = PresenceMachineBench(isUp: false)
        for number in 0..<1_000 {
            let connection = Name(trusted: [UInt8]("c-\(number)".utf8))
            bench.connect(connection)
            bench.machine.closed(connection: connection, clean: false, at: bench.now)
        }
        bench.machine.storeHealth(.up, at: bench.now)
        #expect(bench.applies().isEmpty)
    }

    @Test("a close while the connection's first operation is under way follows it")
    func closesInFlight() {
        let bench = PresenceMachineBench()
        bench.connect("c-1")
        let first = bench.applies()
        bench.machine.closed(connection: "c-1", clean: true, at: bench.now)
        #expect(bench.applies().isEmpty, "one call in flight for a partition")
        bench.machine.applied(.success([5]), tag: first[0].tag, at: bench.now)
        let second = bench.applies()
        #expect(kindsApplied(second) == [.down(grace: .zero)])
        #expect(second.first?.operations.first?.versionFloor == 5)
        bench.machine.applied(.success([6]), tag: second[0].tag, at: bench.now)
        bench.pass(.seconds(40)) { #expect({ if case .refresh = $0 { true } else { false } }($0) == false) }
    }

    @Test("an end while the connection's first operation is under way is told before those who come after it, presence.md What is promised")
    func endsInOrder() {
        let bench = PresenceMachineBench()
        bench.connect("c-1")
        let first = bench.applies()
        bench.machine.closed(connection: "c-1", clean: false, at: bench.now)
        bench.connect("c-2")
        bench.machine.applied(.success([1]), tag: first[0].tag, at: bench.now)
        let second = bench.applies()
        #expect(second.flatMap { $0.operations.map(\.connection) } == ["c-1", "c-2"])
        #expect(kindsApplied(second) == [.down(grace: bench.timers.grace), .up(.online)])
        bench.machine.applied(.success([2, 3]), tag: second[0].tag, at: bench.now)
        #expect(bench.applies().isEmpty)
    }

    @Test(
        "a goodbye, or hiding, of one that waits in line doesn't overtake its user's other device, which came before it",
        arguments: [true, false])
    func goesBehindOthers(isGoodbye: Bool) {
        let bench = PresenceMachineBench()
        bench.connect("c-1")
        bench.settle()
        bench.pass(.seconds(3))
        // It holds away, and c-2's first operation is under way, when it asks for online.
        bench.request(.away, "c-1", tag: 1)
        let first = bench.applies()
        bench.connect("c-2")
        bench.machine.applied(.success([1]), tag: first[0].tag, at: bench.now)
        let second = bench.applies()
        bench.now = bench.now + .seconds(3)
        bench.machine.tick(at: bench.now)
        bench.request(.online, "c-1", tag: 2)
        bench.connect("c-3")
        if isGoodbye {
            bench.machine.closed(connection: "c-1", clean: true, at: bench.now)
        } else {
            bench.request(.invisible, "c-1", tag: 3)
        }
        bench.machine.applied(.success([2]), tag: second[0].tag, at: bench.now)
        let third = bench.applies()
        #expect(third.flatMap { $0.operations.map(\.connection) } == ["c-3", "c-1"])
        #expect(kindsApplied(third) == [.up(.online), isGoodbye ? .down(grace: .zero) : .up(.invisible)])
    }

    @Test("one whose operation was refused while it ended is told after the pace, once")
    func endsRefused() {
        let bench = PresenceMachineBench()
        bench.connect("c-1")
        let first = bench.applies()
        bench.machine.closed(connection: "c-1", clean: true, at: bench.now)
        bench.machine.applied(.failure(refused), tag: first[0].tag, at: bench.now)
        #expect(bench.applies().isEmpty)
        bench.pass(.milliseconds(1900))
        bench.connect("c-2", "bob")
        bench.now = bench.now + .milliseconds(200)
        bench.machine.tick(at: bench.now)
        let later = bench.applies().flatMap { $0.operations.filter { $0.connection == "c-1" }.map(\.kind) }
        #expect(later == [.down(grace: bench.timers.grace, ago: .milliseconds(2_100))])
    }

    @Test("at most 50 operations in a call, one call of a partition in flight, the rest in order after it")
    func batches() {
        let bench = PresenceMachineBench()
        for number in 0..<120 { bench.connect(Name(trusted: [UInt8]("c-\(number)".utf8))) }
        var sizes: [Int] = []
        var connections: [Name] = []
        while let apply = bench.applies().first {
            sizes.append(apply.operations.count)
            connections += apply.operations.map(\.connection)
            bench.machine.applied(.success(apply.operations.map { _ in 9 }), tag: apply.tag, at: bench.now)
        }
        #expect(sizes == [50, 50, 20])
        #expect(connections.map(\.description) == (0..<120).map { "c-\($0)" })
    }

    @Test("away by itself after awayAfter, back by activity; not where the client asked for away")
    func idle() {
        let bench = PresenceMachineBench()
        bench.connect("c-1")
        bench.connect("c-2", "bob")
        bench.settle()
        bench.request(.away, "c-2")
        var sent: [String] = []
        let answer = { (action: PresenceAction) in
            guard case .apply(let operations, _, let tag) = action else { return }
            sent += operations.map { "\($0.connection) \($0.kind)" }
            bench.machine.applied(.success(operations.map { _ in 9 }), tag: tag, at: bench.now)
        }
        bench.pass(.seconds(299), answer)
        #expect(sent == ["c-2 up(HubCore.ConnectionState.away)"])
        bench.pass(.seconds(10), answer)
        #expect(sent.count == 2 && sent.last == "c-1 up(HubCore.ConnectionState.away)")
        bench.machine.activity(connection: "c-1", at: bench.now)
        bench.machine.activity(connection: "c-2", at: bench.now)
        bench.pass(.seconds(3), answer)
        #expect(sent.count == 3 && sent.last == "c-1 up(HubCore.ConnectionState.online)")
        bench.request(.online, "c-2", tag: 2)
        bench.pass(.seconds(3), answer)
        #expect(sent.count == 4 && sent.last == "c-2 up(HubCore.ConnectionState.online)")
    }

    @Test("while the store is away a status is refused and not kept, and who waits is told")
    func frozen() {
        let bench = PresenceMachineBench()
        bench.connect("c-1")
        bench.settle()
        bench.request(.away, "c-1", tag: 1)
        bench.machine.storeHealth(.down("cut"), at: bench.now)
        bench.request(.invisible, "c-1", tag: 2)
        let codes = bench.actions().map { action -> ErrorCode? in
            if case .presenceAck(_, .failure(let error)) = action { error.code } else { nil }
        }
        #expect(codes == [.unavailable, .unavailable])
        let isStale = bench.machine.isStale
        #expect(isStale)
        bench.machine.storeHealth(.up, at: bench.now)
        let sent = bench.pass(.seconds(3)).compactMap { if case .apply(let operations, _, _) = $0 { operations } else { nil } }
        // Neither was written, and both were refused: what held before does.
        #expect(sent.isEmpty)
    }

    @Test("more than 16 waiting status requests of a connection are refused as rateLimited")
    func waitersLimit() {
        let bench = PresenceMachineBench()
        bench.connect("c-1")
        bench.settle()
        for tag in 1...17 { bench.request(tag % 2 == 0 ? .away : .invisible, "c-1", tag: UInt64(tag)) }
        let refusals = bench.actions().compactMap { action -> ErrorCode? in
            if case .presenceAck(RequestTag(high: 1, low: 17), .failure(let error)) = action { error.code } else { nil }
        }
        #expect(refusals == [.rateLimited])
    }

    @Test("a store that never answers is taken to have refused after 20 s; its late answer isn't heard")
    func noAnswer() {
        let bench = PresenceMachineBench()
        bench.connect("c-1")
        let first = bench.applies()
        bench.request(.away, "c-1")
        let sent = bench.pass(.seconds(21)).compactMap {
            if case .apply(let operations, _, let tag) = $0 { (operations, tag) } else { nil }
        }
        #expect(sent.map(\.0).flatMap { $0 }.map(\.kind) == [.up(.away)])
        bench.machine.applied(.failure(refused), tag: first[0].tag, at: bench.now)
        bench.machine.applied(.success([8]), tag: sent[0].1, at: bench.now)
        #expect(bench.actions().contains(.presenceAck(tag: RequestTag(high: 1, low: 1), .success(8))))
    }

    @Test("the two tables cost at most 88 bytes for each connection of a user of its own")
    func size() { #expect(PresenceMachine.bytesPerConnection <= 88) }

    @Test(
        "a connection of the node's own is told by its number, and two that are spelled otherwise are two",
        arguments: [
            "nodenodenode-0", "nodenodenode-1z", "nodenodenode-3w5e11264sgsf", "nodenodenode-01", "nodenodenode-3w5e11264sgsg",
            "nodenodenode-A",
            "nodenodenode-", "nodenodenode", "other-1z",
        ])
    func ids(_ text: String) throws {
        let id = try #require(Name(validating: text))
        let bench = PresenceMachineBench()
        bench.connect("nodenodenode-1", "bob")
        bench.connect("stranger", "carol")
        bench.connect(id)
        bench.connect(id)
        #expect(bench.machine.connectionCount == 3)
        let written = bench.settle().flatMap { action in
            if case .apply(let operations, _, _) = action { operations } else { [] as [PresenceOperation] }
        }
        #expect(written.filter { $0.user == "alice" }.map(\.connection) == [id])
        #expect(Set(written.map(\.connection)) == ["nodenodenode-1", "stranger", id])
        bench.machine.closed(connection: id, clean: true, at: bench.now)
        #expect(bench.applies().flatMap(\.operations).map(\.connection) == [id])
        #expect(bench.machine.connectionCount == 2)
    }

    @Test("a device without a name is called by its connection, every time alike, and no two alike")
    func unnamedDevices() {
        let bench = PresenceMachineBench()
        for connection in ["nodenodenode-1", "nodenodenode-2"] as [Name] {
            bench.machine.connected(connection: connection, user: "alice", device: .empty, at: bench.now)
        }
        let written = bench.settle().flatMap { action in
            if case .apply(let operations, _, _) = action { operations } else { [] as [PresenceOperation] }
        }
        #expect(written.map(\.device) == [DeviceName.standard(of: "nodenodenode-1"), DeviceName.standard(of: "nodenodenode-2")])
        #expect(Set(written.map(\.device)).count == 2)
        #expect(written.allSatisfy { $0.device.bytes.starts(with: Array("device-".utf8)) && $0.device.bytes.count == 15 })
    }

    @Test("a node that stops knows whether the store has all of its ends")
    func ends() {
        let bench = PresenceMachineBench()
        func hasTold() -> Bool { bench.machine.hasToldEnds }
        for number in 0..<300 { bench.connect(Name(validating: "c-\(number)")!) }
        bench.settle()
        #expect(hasTold())
        for number in 0..<300 { bench.machine.closed(connection: Name(validating: "c-\(number)")!, clean: false, at: bench.now) }
        let first = bench.applies()
        #expect(!hasTold() && first.flatMap(\.operations).count < 300, "more than one call")
        for one in first { bench.machine.applied(.success(one.operations.map { _ in 7 }), tag: one.tag, at: bench.now) }
        #expect(!hasTold())
        bench.settle()
        #expect(hasTold())
        bench.connect("c-last")
        bench.settle()
        bench.machine.closed(connection: "c-last", clean: false, at: bench.now)
        bench.machine.storeHealth(.down("away"), at: bench.now)
        #expect(!hasTold())
        bench.machine.storeHealth(.up, at: bench.now)
        bench.settle()
        #expect(hasTold())
    }
}
