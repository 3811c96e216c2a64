import HubBase
import HubCore
import HubWire
import Testing

private let refused = WireError(.unavailable, "refused", retryAfter: 2_000)

extension PresenceMachineBench {
    /// Lets everything reach a store that answers with `version`; the operations in the order in which they left.
    fileprivate func operations(over span: Span, version: UInt64 = 100) -> [PresenceOperation] {
        var sent: [PresenceOperation] = []
        pass(span) { action in
            guard case .apply(let operations, _, let tag) = action else { return }
            sent += operations
            machine.applied(.success(operations.map { _ in version }), tag: tag, at: now)
        }
        return sent
    }

    fileprivate func tell(_ user: Name, _ status: PresenceStatus, _ version: UInt64) {
        let change = PresenceChange(user: user, status: status, version: version, lastSeen: version / 1_000)
        machine.changed([change], partition: Partition.of(user), gap: false, at: now)
    }
}

@Suite("Presence machine: what was refused, and what the store lost")
struct PresenceMachineLossTests {
    @Test("who was invisible, was refused online and then invisible again stays invisible, protocol.md presence")
    func refusedOnline() {
        let bench = PresenceMachineBench()
        bench.machine.connected(
            connection: "c-1", user: "alice", device: "phone", status: .invisible, at: bench.now)
        _ = bench.operations(over: .seconds(3))
        bench.request(.online, "c-1", tag: 1)
        #expect(kindsApplied(bench.applies()) == [.up(.online)])
        // The store stands still: no answer, then no link.
        bench.machine.storeHealth(.down("silent"), at: bench.now)
        bench.request(.invisible, "c-1", tag: 2)
        let refusals = bench.actions().count { if case .presenceAck(_, .failure) = $0 { true } else { false } }
        #expect(refusals == 2)
        bench.pass(.seconds(21))
        bench.machine.storeHealth(.up, at: bench.now)
        #expect(bench.operations(over: .seconds(5)).map(\.kind) == [.up(.invisible)])
    }

    /// Online, it asked for away, and that is under way to the store.
    private func askingForAway() -> (bench: PresenceMachineBench, tag: RequestTag) {
        let bench = PresenceMachineBench()
        bench.connect("c-1")
        _ = bench.operations(over: .seconds(3))
        bench.request(.away, "c-1", tag: 1)
        let sent = bench.applies()
        #expect(kindsApplied(sent) == [.up(.away)])
        return (bench, sent[0].tag)
    }

    @Test("a wish that the store refused isn't tried again: what held before is written")
    func refusedAway() {
        let (bench, sent) = askingForAway()
        bench.machine.applied(.failure(refused), tag: sent, at: bench.now)
        #expect(bench.actions() == [.presenceAck(tag: RequestTag(high: 1, low: 1), .failure(refused))])
        #expect(bench.operations(over: .seconds(5)).map(\.kind) == [.up(.online)])
    }

    @Test("a wish that still waits when an earlier one is refused is the one that is written")
    func laterWishHolds() {
        let (bench, sent) = askingForAway()
        bench.request(.invisible, "c-1", tag: 2)
        bench.machine.applied(.failure(refused), tag: sent, at: bench.now)
        #expect(bench.operations(over: .seconds(5)).map(\.kind) == [.up(.invisible)])
        // And what was acknowledged in between is what a later refusal falls back to.
        bench.request(.online, "c-1", tag: 3)
        bench.machine.storeHealth(.down("cut"), at: bench.now)
        _ = bench.actions()
        bench.machine.storeHealth(.up, at: bench.now)
        #expect(!bench.operations(over: .seconds(5)).contains { $0.kind == .up(.online) })
    }

    @Test("ends acknowledged shortly before the store was lost are written again before anything is read, with what was told of them")
    func repeatsEnds() {
        let bench = PresenceMachineBench()
        for (number, user) in (["old", "gone", "lost", "back"] as [Name]).enumerated() {
            bench.connect(Name(trusted: [UInt8]("c-\(number)".utf8)), user)
        }
        _ = bench.operations(over: .seconds(3))
        bench.machine.closed(connection: "c-0", clean: true, at: bench.now)
        _ = bench.operations(over: .seconds(31))
        bench.machine.closed(connection: "c-1", clean: true, at: bench.now)
        bench.machine.closed(connection: "c-2", clean: false, at: bench.now)
        bench.machine.closed(connection: "c-3", clean: true, at: bench.now)
        _ = bench.actions().map { action in
            guard case .apply(let operations, _, let tag) = action else { return }
            // The feed may be faster than the answer.
            for operation in operations where operation.user != "lost" { bench.tell(operation.user, .offline, 200) }
            bench.machine.applied(.success(operations.map { _ in operations[0].user == "lost" ? 100 : 200 }), tag: tag, at: bench.now)
        }
        bench.tell("back", .online, 300)
        _ = bench.operations(over: .seconds(2))
        bench.machine.watch(["gone"], loop: 0, tag: RequestTag(high: 1, low: 9), at: bench.now)
        bench.machine.storeHealth(.down("restart"), at: bench.now)
        bench.pass(.seconds(50))
        bench.machine.storeHealth(.up, at: bench.now)
        let actions = bench.actions()
        let isFirst = actions.first.map { if case .apply = $0 { true } else { false } } ?? false
        #expect(isFirst)
        let again = actions.flatMap { action in
            if case .apply(let operations, _, _) = action { operations } else { [] as [PresenceOperation] }
        }
        let told = PresenceChange(user: "gone", status: .offline, version: 200, lastSeen: 0)
        let (grace, ago) = (bench.timers.grace, Span.seconds(52))
        #expect(
            Set(again.map { "\($0.user) \($0.kind) \($0.versionFloor) \($0.isAsked)" }) == [
                "gone \(PresenceOperation.Kind.down(grace: grace, ago: ago, told: told)) 200 true",
                "lost \(PresenceOperation.Kind.down(grace: grace, ago: ago, told: nil)) 100 false",
                "back \(PresenceOperation.Kind.down(grace: grace, ago: ago, told: nil)) 200 true",
            ])
        #expect(again.allSatisfy { $0.was == .online && $0.device == "phone" }, "\(again)")
        // Each is refused once, and tried again alone; then they're done with.
        for case .apply(_, _, let tag) in actions { bench.machine.applied(.failure(refused), tag: tag, at: bench.now) }
        #expect(bench.operations(over: .seconds(3)).count == 3)
        #expect(bench.operations(over: .seconds(5)).isEmpty)
    }

    @Test("an end that's written again shows its user as they were told since; of one partition where only its data are gone")
    func repeatsEndsOfAPartition() {
        let bench = PresenceMachineBench()
        let users: [Name] = ["away", "there", "other"]
        for (number, user) in users.enumerated() { bench.connect(Name(trusted: [UInt8]("c-\(number)".utf8)), user) }
        bench.request(.away, "c-1", tag: 1)
        _ = bench.operations(over: .seconds(3))
        for number in 0..<3 { bench.machine.closed(connection: Name(trusted: [UInt8]("c-\(number)".utf8)), clean: true, at: bench.now) }
        _ = bench.operations(over: .seconds(1))
        bench.tell("away", .away, 200)
        bench.tell("there", .online, 200)
        func repeated(_ partitions: [Int]) -> [String: ConnectionState?] {
            for partition in partitions { bench.machine.lost(partition, at: bench.now) }
            let ends = bench.operations(over: .milliseconds(100)).filter(\.isRepeated)
            return Dictionary(uniqueKeysWithValues: ends.map { ("\($0.user)", $0.was) })
        }
        #expect(repeated([Partition.of("away")]) == ["away": .away])
        #expect(repeated(users[1...].map { Partition.of($0) }) == ["there": .online, "other": .online])
    }

    @Test("what the store has lost is written again without regard to the pace; what it then refuses waits for that")
    func restoresAtOnce() {
        let bench = PresenceMachineBench()
        bench.connect("c-1")
        _ = bench.operations(over: .seconds(3))
        bench.request(.away, "c-1", tag: 1)
        #expect(bench.operations(over: .milliseconds(100)).map(\.kind) == [.up(.away)])
        bench.machine.lost(Partition.of("alice"), at: bench.now)
        var applied: [PresenceOperation] = []
        bench.pass(bench.timers.refreshJitter + .milliseconds(200)) { action in
            switch action {
            case .refresh(let renewal, _, let tag) where !renewal.leases.isEmpty && applied.isEmpty:
                bench.machine.refreshed(.success([0]), tag: tag, at: bench.now)
            case .probe(let connection): bench.machine.proved(connection: connection, at: bench.now)
            case .apply(let operations, _, let tag):
                applied += operations
                bench.machine.applied(.failure(refused), tag: tag, at: bench.now)
            default: break
            }
        }
        #expect(applied.first?.kind == .restore(.away))
        #expect(applied.count <= 4 && applied.dropFirst().allSatisfy { $0.kind == .up(.away) }, "\(applied.map(\.kind))")
    }

    @Test("a client's change doesn't wait for what was written again after a reconnect, presence.md pace")
    func restoringStartsNoPace() {
        let bench = PresenceMachineBench()
        bench.connect("c-1")
        _ = bench.operations(over: .seconds(6))
        bench.machine.storeHealth(.down("reset"), at: bench.now)
        bench.machine.storeHealth(.up, at: bench.now)
        let probes = bench.actions().compactMap { if case .probe(let connection) = $0 { connection } else { nil } }
        #expect(probes == ["c-1"])
        bench.machine.proved(connection: "c-1", at: bench.now)
        #expect(bench.operations(over: .milliseconds(100)).map(\.kind) == [.restore(.online)])
        bench.request(.away, "c-1", tag: 1)
        #expect(bench.operations(over: .milliseconds(50)).map(\.kind) == [.up(.away)])
        // The client's own next one does.
        bench.request(.online, "c-1", tag: 2)
        #expect(bench.operations(over: .milliseconds(1_850)).isEmpty)
        #expect(bench.operations(over: .milliseconds(200)).map(\.kind) == [.up(.online)])
    }

    @Test("of ends only so many are kept, the last ones, and for 30 s")
    func endsAreBounded() {
        var ends = PresenceEnds()
        let start = Instant(nanoseconds: 1_000_000_000)
        for number in 0..<(PresenceEnds.limit + 10) {
            ends.expect("alice")
            let connection = Name(trusted: [UInt8]("c-\(number)".utf8))
            ends.append(
                PresenceEnd(
                    user: "alice", connection: connection, isClean: true, was: nil, device: .empty, cameAt: start, endedAt: start,
                    version: 1,
                    at: start))
        }
        #expect(ends.all().count == PresenceEnds.limit)
        #expect(ends.all().first?.connection == "c-10")
        ends.forget(before: start + .seconds(30))
        #expect(ends.all().count == PresenceEnds.limit)
        ends.forget(before: start + .seconds(31))
        #expect(ends.all().isEmpty)
    }

    @Test("HTTP's reads in the time after the store came back: what watchers know wins, and the rest isn't sure, redis-design Watching")
    func readsAfterLoss() {
        let bench = PresenceMachineBench()
        bench.machine.watch(["alice"], loop: 0, tag: RequestTag(high: 1, low: 1), at: bench.now)
        let online = PresenceChange(user: "alice", status: .online, version: 200, lastSeen: 1)
        let missing = PresenceChange(user: "alice", status: .offline, version: 0, lastSeen: 0)
        let stranger = PresenceChange(user: "bob", status: .offline, version: 0, lastSeen: 0)
        bench.pass(.milliseconds(100)) { action in
            guard case .read(_, let tag) = action else { return }
            bench.machine.read(.success(PresenceSnapshot(changes: [online], isWarming: false)), tag: tag, at: bench.now)
        }
        func judged(_ changes: [PresenceChange], isWarming: Bool) -> (changes: [PresenceChange], isStale: Bool) {
            var snapshot = PresenceSnapshot(changes: changes, isWarming: isWarming)
            let isStale = bench.machine.judge(&snapshot, at: bench.now)
            for (place, change) in changes.enumerated() {
                var record = PresenceRecord(change: change, connections: [], graceLeft: nil, now: 1)
                record.isWarming = isWarming
                _ = bench.machine.judge(&record, at: bench.now)
                #expect(record.change == snapshot.changes[place], "one and many agree")
            }
            return (snapshot.changes, isStale)
        }
        // A store that is new, as far as this node can tell.
        var answer = judged([stranger], isWarming: true)
        #expect(answer.changes == [stranger] && !answer.isStale)
        bench.machine.storeHealth(.down("restart"), at: bench.now)
        bench.machine.storeHealth(.up, at: bench.now)
        answer = judged([missing, stranger], isWarming: false)
        #expect(answer.changes == [online, stranger] && answer.isStale)
        // A lease that nobody could renew isn't the end yet.
        var record = PresenceRecord(change: missing, connections: [], graceLeft: nil, now: 1)
        record.kept = PresenceChange(user: "alice", status: .away, version: 201, lastSeen: 1)
        #expect(bench.machine.judge(&record, at: bench.now) && record.change == record.kept)
        bench.pass(.seconds(8)) { action in
            guard case .read(_, let tag) = action else { return }
            bench.machine.read(.success(PresenceSnapshot(changes: [online], isWarming: true)), tag: tag, at: bench.now)
        }
        answer = judged([stranger], isWarming: false)
        #expect(!answer.isStale)
        answer = judged([stranger], isWarming: true)
        #expect(answer.isStale)
    }
}
