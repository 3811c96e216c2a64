import HubBase
import HubCore
import HubWire
import Testing

private final class Bench {
    var machine = PresenceMachine(
        timers: PresenceTimers(), node: "nodenodenode", tagSpace: 5, chance: Chance(seed: 3), at: Instant(nanoseconds: 1_000_000_000))
    var now = Instant(nanoseconds: 1_000_000_000)

    init(isUp: Bool = true) {
        if isUp { machine.storeHealth(.up, at: now) }
    }

    func watch(_ users: [Name], loop: Int = 0, tag: UInt64 = 1) {
        machine.watch(users, loop: loop, tag: RequestTag(high: 1, low: tag), at: now)
    }

    func actions() -> [PresenceAction] { machine.takeActions(at: now) }

    func reads() -> [(users: [Name], tag: RequestTag)] {
        actions().compactMap { if case .read(let users, let tag) = $0 { (users, tag) } else { nil } }
    }

    func answer(_ tag: RequestTag, _ changes: [PresenceChange], isWarming: Bool = false) {
        machine.read(.success(PresenceSnapshot(changes: changes, isWarming: isWarming)), tag: tag, at: now)
    }

    func feed(_ changes: [PresenceChange], gap: Bool = false) {
        machine.changed(changes, partition: Partition.of(changes[0].user), gap: gap, at: now)
    }

    /// Ticks through `span` with every read answered by `states`.
    @discardableResult
    func pass(_ span: Span, _ states: ([Name]) -> PresenceSnapshot) -> [PresenceAction] {
        var all: [PresenceAction] = []
        let end = now + span
        while now < end {
            now = now + .milliseconds(100)
            machine.tick(at: now)
            for action in actions() {
                all.append(action)
                if case .read(let users, let tag) = action { machine.read(.success(states(users)), tag: tag, at: now) }
            }
            all += actions()
        }
        return all
    }
}

private func change(_ user: Name, _ status: PresenceStatus, _ version: UInt64) -> PresenceChange {
    PresenceChange(user: user, status: status, version: version, lastSeen: version / 1_000)
}

private func answers(_ actions: [PresenceAction]) -> [(tag: UInt64, changes: [PresenceChange], isStale: Bool)] {
    actions.compactMap { if case .watchAnswer(let tag, let changes, let isStale) = $0 { (tag.low, changes, isStale) } else { nil } }
}

private func news(_ actions: [PresenceAction]) -> [PresenceChange] {
    actions.flatMap { action -> [PresenceChange] in if case .changed(let changes) = action { changes } else { [] } }
}

@Suite("Presence machine: watching")
struct PresenceWatchTests {
    @Test("the first watch reads, the next is answered from memory, both in the order asked")
    func answersFromMemory() {
        let bench = Bench()
        bench.watch(["alice", "bob"], tag: 1)
        let reads = bench.reads()
        #expect(reads.map(\.users) == [["alice", "bob"]])
        bench.answer(reads[0].tag, [change("alice", .online, 10), change("bob", .offline, 0)])
        let first = answers(bench.actions())
        #expect(first.map(\.changes) == [[change("alice", .online, 10), change("bob", .offline, 0)]])
        #expect(first.map(\.isStale) == [false])
        bench.watch(["bob", "alice", "bob"], loop: 1, tag: 2)
        let second = bench.actions()
        #expect(second.count == 1)
        #expect(answers(second).map(\.changes) == [[change("bob", .offline, 0), change("alice", .online, 10), change("bob", .offline, 0)]])
    }

    @Test("reads of one turn go together, 1,000 users at most in a call; a watch over two calls waits for both")
    func batches() {
        let bench = Bench()
        let users = (0..<1_500).map { Name(trusted: [UInt8]("user-\($0)".utf8)) }
        bench.watch(Array(users[0..<800]), tag: 1)
        bench.watch(Array(users[700..<1_500]), tag: 2)
        let reads = bench.reads()
        #expect(reads.map(\.users.count) == [1_000, 500])
        bench.answer(reads[1].tag, reads[1].users.map { change($0, .online, 5) })
        #expect(bench.actions().isEmpty)
        bench.answer(reads[0].tag, reads[0].users.map { change($0, .away, 6) })
        let answered = answers(bench.actions())
        #expect(answered.map(\.tag) == [1, 2])
        #expect(answered.map(\.changes.count) == [800, 800])
        #expect(answered[1].changes.map(\.user) == Array(users[700..<1_500]))
        #expect(answered[1].changes.filter { $0.status == .online }.count == 500)
    }

    @Test("what the feed says while the read is under way counts if it is newer, and the answer holds it")
    func racesWithFeed() {
        let bench = Bench()
        bench.watch(["alice"])
        let read = bench.reads()[0]
        bench.feed([change("alice", .away, 20)])
        bench.answer(read.tag, [change("alice", .online, 10)])
        let actions = bench.actions()
        #expect(answers(actions).map(\.changes) == [[change("alice", .away, 20)]])
        #expect(news(actions).isEmpty, "nobody was told anything before")
    }

    @Test("only newer versions of watched users are told")
    func newerOnly() {
        let bench = Bench()
        bench.watch(["alice"])
        bench.answer(bench.reads()[0].tag, [change("alice", .online, 10)])
        _ = bench.actions()
        bench.feed([change("alice", .away, 9)])
        bench.feed([change("alice", .away, 10)])
        bench.feed([change("bob", .online, 50)])
        #expect(bench.actions().isEmpty)
        bench.feed([change("alice", .away, 11)])
        bench.feed([change("alice", .online, 10)])
        #expect(news(bench.actions()) == [change("alice", .away, 11)])
    }

    @Test("a record that was written again is no news, but for when somebody who is gone was last there; its version counts from then on")
    func writtenAgain() {
        let bench = Bench()
        bench.watch(["alice"])
        bench.answer(bench.reads()[0].tag, [change("alice", .online, 10_000)])
        _ = bench.actions()
        bench.feed([change("alice", .online, 20_000)])
        bench.feed([change("alice", .away, 15_000)])
        #expect(news(bench.actions()).isEmpty)
        bench.watch(["alice"], loop: 1, tag: 2)
        #expect(answers(bench.actions()).map(\.changes) == [[change("alice", .online, 20_000)]])
        bench.feed([change("alice", .offline, 30_000)])
        var again = change("alice", .offline, 31_000)
        again.lastSeen = 30
        bench.feed([again])
        #expect(news(bench.actions()) == [change("alice", .offline, 30_000)])
        bench.feed([change("alice", .offline, 40_000)])
        #expect(news(bench.actions()) == [change("alice", .offline, 40_000)])
    }

    @Test("online is told as away when nodes had time to register again, if it's still so; at once where nothing was lost")
    func halves() {
        let bench = Bench()
        bench.watch(["alice"])
        bench.answer(bench.reads()[0].tag, [change("alice", .online, 10)])
        _ = bench.actions()
        func away(_ version: UInt64) -> [PresenceChange] {
            bench.feed([change("alice", .away, version)])
            return news(bench.actions())
        }
        func settled(_ users: [Name], _ status: PresenceStatus, _ version: UInt64) -> PresenceSnapshot {
            PresenceSnapshot(changes: users.map { change($0, status, version) }, isWarming: false)
        }
        func back(_ version: UInt64) {
            bench.feed([change("alice", .online, version)])
            _ = bench.actions()
        }
        #expect(away(20) == [change("alice", .away, 20)])
        back(30)
        bench.machine.lost(Partition.of("alice"), at: bench.now)
        #expect(away(40).isEmpty)
        // What was registered last is what holds.
        let settling = PresenceTimers().refreshJitter + PresenceMachine.pace
        #expect(news(bench.pass(settling + .seconds(1)) { settled($0, .online, 50) }).isEmpty)
        #expect(away(60) == [change("alice", .away, 60)])
        back(70)
        bench.machine.lost(Partition.of("alice"), at: bench.now)
        #expect(away(80).isEmpty)
        let told = news(bench.pass(settling + .seconds(1)) { settled($0, .away, 80) })
        #expect(told == [change("alice", .away, 80)])
    }

    @Test("so it is where the store is back, until the next sweep has found its data")
    func halvesUntilSwept() {
        let bench = Bench()
        bench.watch(["alice"])
        bench.answer(bench.reads()[0].tag, [change("alice", .online, 10)])
        bench.machine.storeHealth(.down("cut"), at: bench.now)
        bench.machine.storeHealth(.up, at: bench.now)
        _ = bench.actions()
        bench.feed([change("alice", .away, 20)])
        #expect(news(bench.actions()).isEmpty)
        let sweeps = bench.pass(.seconds(2)) { users in
            PresenceSnapshot(changes: users.map { change($0, .online, 30) }, isWarming: false)
        }
        for case .sweep(let partition, let tag) in sweeps {
            bench.machine.swept(.success(0), partition: partition, tag: tag, at: bench.now)
        }
        bench.feed([change("alice", .away, 40)])
        #expect(news(bench.actions()) == [change("alice", .away, 40)])
    }

    @Test(
        "so it is after a hole in the feed, until a sweep that's asked at once says whether the data are lost", arguments: [false, true])
    func halvesAfterAHole(isLost: Bool) throws {
        let bench = Bench()
        let partition = Partition.of("alice")
        bench.watch(["alice"])
        func pass(_ span: Span, _ status: PresenceStatus, _ version: UInt64) -> (sweeps: [RequestTag], news: [PresenceChange]) {
            let actions = bench.pass(span) { PresenceSnapshot(changes: $0.map { change($0, status, version) }, isWarming: false) }
            return (actions.compactMap { if case .sweep(partition, let tag) = $0 { tag } else { nil } }, news(actions))
        }
        // Under way when the hole is heard of, so that it may be from before a loss.
        let old = try #require(pass(.seconds(5), .online, 10).sweeps.first)
        bench.feed([change("alice", .away, 20)], gap: true)
        #expect(news(bench.actions()).isEmpty)
        bench.machine.swept(.success(0), partition: partition, tag: old, at: bench.now)
        var asked = pass(.milliseconds(100), .away, 20)
        #expect(asked.news.isEmpty)
        // Another hole while that is being asked: asked once more, at once.
        bench.machine.changed([], partition: partition, gap: true, at: bench.now)
        bench.machine.swept(.success(0), partition: partition, tag: try #require(asked.sweeps.first), at: bench.now)
        asked = pass(.milliseconds(100), .away, 20)
        #expect(asked.news.isEmpty)
        let tag = try #require(asked.sweeps.first)
        if isLost { bench.machine.lost(partition, at: bench.now) }
        bench.machine.swept(.success(0), partition: partition, tag: tag, at: bench.now)
        #expect(pass(.milliseconds(200), .away, 20).news == (isLost ? [] : [change("alice", .away, 20)]))
    }

    @Test("unwatched by its last loop, a user is no longer followed, and read anew when watched again")
    func unwatches() {
        let bench = Bench()
        bench.watch(["alice"], loop: 0, tag: 1)
        bench.watch(["alice"], loop: 63, tag: 2)
        bench.answer(bench.reads()[0].tag, [change("alice", .online, 10)])
        #expect(answers(bench.actions()).map(\.tag) == [1, 2])
        bench.machine.unwatch(["alice", "nobody"], loop: 0)
        bench.feed([change("alice", .away, 11)])
        #expect(news(bench.actions()).count == 1)
        bench.machine.unwatch(["alice"], loop: 63)
        bench.feed([change("alice", .online, 12)])
        #expect(bench.actions().isEmpty)
        bench.watch(["alice"], tag: 3)
        #expect(bench.reads().count == 1)
    }

    @Test("watched again, a user is read again, also where a read from before is under way: what was told in between wasn't heard")
    func watchedAgain() {
        let bench = Bench()
        // With a connection here, the machine keeps it while nobody watches.
        bench.machine.connected(connection: "c-1", user: "alice", device: "phone", at: bench.now)
        bench.watch(["alice"], tag: 1)
        let first = bench.reads()
        bench.machine.unwatch(["alice"], loop: 0)
        bench.feed([change("alice", .online, 20)])
        bench.watch(["alice"], tag: 2)
        let second = bench.reads()
        #expect(first.count == 1 && second.count == 1)
        bench.answer(first[0].tag, [change("alice", .offline, 10)])
        for read in second { bench.answer(read.tag, [change("alice", .online, 20)]) }
        let told = answers(bench.actions())
        #expect(told.first { $0.tag == 2 }?.changes == [change("alice", .online, 20)])
    }

    @Test("after a gap the partition's watched users are read again, and only what is new is told")
    func gap() {
        let bench = Bench()
        let users = (0..<200).map { Name(trusted: [UInt8]("user-\($0)".utf8)) }
        bench.watch(users)
        bench.answer(bench.reads()[0].tag, users.map { change($0, .online, 10) })
        _ = bench.actions()
        let partition = Partition.of(users[0])
        bench.machine.changed([], partition: partition, gap: true, at: bench.now)
        let read = bench.reads()
        #expect(read.map(\.users) == [users.filter { Partition.of($0) == partition }])
        bench.answer(read[0].tag, read[0].users.map { change($0, $0 == users[0] ? .offline : .online, $0 == users[0] ? 15 : 10) })
        #expect(news(bench.actions()) == [change(users[0], .offline, 15)])
    }

    @Test("without the store a watch is answered with what is known, as stale, and read when the store is back")
    func stale() {
        let bench = Bench()
        bench.watch(["alice"], tag: 1)
        bench.answer(bench.reads()[0].tag, [change("alice", .online, 10)])
        _ = bench.actions()
        // One that waits when the store goes away is answered too.
        bench.watch(["carol"], tag: 2)
        bench.machine.storeHealth(.down("cut"), at: bench.now)
        bench.watch(["alice", "bob"], tag: 3)
        let answered = answers(bench.actions())
        #expect(answered.map(\.tag) == [2, 3])
        #expect(answered.map(\.isStale) == [true, true])
        #expect(answered[1].changes == [change("alice", .online, 10), change("bob", .offline, 0)])
        bench.machine.storeHealth(.up, at: bench.now)
        var versions: [Name: UInt64] = ["alice": 10, "bob": 30, "carol": 40]
        let told = bench.pass(.seconds(1)) { users in
            PresenceSnapshot(changes: users.map { change($0, .online, versions[$0]!) }, isWarming: false)
        }
        #expect(Set(news(told).map(\.user)) == ["bob", "carol"])
        versions = [:]
    }

    @Test("a read that fails is answered as stale and tried again")
    func failedRead() {
        let bench = Bench()
        bench.watch(["alice"])
        bench.machine.read(.failure(WireError(.overloaded, "busy")), tag: bench.reads()[0].tag, at: bench.now)
        #expect(answers(bench.actions()).map(\.isStale) == [true])
        let told = bench.pass(.seconds(3)) { PresenceSnapshot(changes: $0.map { change($0, .online, 10) }, isWarming: false) }
        #expect(news(told) == [change("alice", .online, 10)])
    }

    @Test("while the store is filling again, a missing record turns nobody offline; still missing a hold later, it does, once")
    func warming() {
        let bench = Bench()
        bench.watch(["alice", "bob"])
        bench.answer(bench.reads()[0].tag, [change("alice", .online, 10), change("bob", .online, 20)])
        _ = bench.actions()
        for user in [Name("alice"), "bob"] { bench.machine.changed([], partition: Partition.of(user), gap: true, at: bench.now) }
        // Everything is lost; bob's node registers it again in silence, alice is gone.
        let early = bench.pass(.seconds(39)) { users in
            PresenceSnapshot(changes: users.map { change($0, .offline, 0) }, isWarming: true)
        }
        #expect(news(early).isEmpty)
        let late = bench.pass(.seconds(60)) { users in
            PresenceSnapshot(changes: users.map { $0 == "bob" ? change($0, .online, 90) : change($0, .offline, 0) }, isWarming: false)
        }
        #expect(news(late).filter { $0.user == "alice" } == [PresenceChange(user: "alice", status: .offline, version: 11, lastSeen: 0)])
        #expect(news(late).filter { $0.user == "bob" }.isEmpty)
    }

    @Test("who is still missing a hold later, with the store's own hold ending after it, is told as offline then and not a hold later")
    func oneHold() {
        let bench = Bench()
        bench.watch(["alice"])
        bench.answer(bench.reads()[0].tag, [change("alice", .online, 10)])
        _ = bench.actions()
        bench.machine.changed([], partition: Partition.of("alice"), gap: true, at: bench.now)
        let lost = bench.now
        func states(_ users: [Name]) -> PresenceSnapshot {
            PresenceSnapshot(changes: users.map { change($0, .offline, 0) }, isWarming: bench.now.since(lost) < .seconds(42))
        }
        #expect(news(bench.pass(.seconds(41), states)).isEmpty)
        #expect(news(bench.pass(.seconds(5), states)) == [PresenceChange(user: "alice", status: .offline, version: 11, lastSeen: 0)])
    }

    @Test("a store that came back behind what was told: its state is told a hold later, above what was told, decision 0309")
    func behind() {
        let bench = Bench()
        bench.watch(["alice"])
        bench.answer(bench.reads()[0].tag, [change("alice", .online, 10)])
        bench.feed([change("alice", .offline, 20)])
        _ = bench.actions()
        bench.machine.changed([], partition: Partition.of("alice"), gap: true, at: bench.now)
        let old: ([Name]) -> PresenceSnapshot = { PresenceSnapshot(changes: $0.map { change($0, .online, 10) }, isWarming: false) }
        // Such an answer may be older than the news, too.
        #expect(news(bench.pass(.seconds(39), old)).isEmpty)
        #expect(news(bench.pass(.seconds(60), old)) == [change("alice", .online, 21)])
    }

    @Test("an answer that news had overtaken is told nobody")
    func overtaken() {
        let bench = Bench()
        bench.watch(["alice"])
        bench.answer(bench.reads()[0].tag, [change("alice", .online, 10)])
        bench.feed([change("alice", .offline, 20)])
        _ = bench.actions()
        bench.machine.changed([], partition: Partition.of("alice"), gap: true, at: bench.now)
        for read in bench.reads() { bench.answer(read.tag, [change("alice", .online, 10)]) }
        let told = bench.pass(.seconds(200)) { PresenceSnapshot(changes: $0.map { change($0, .offline, 20) }, isWarming: false) }
        #expect(news(told).isEmpty)
    }

    /// alice has a connection here, is watched here and shown online, and her feed has a gap.
    private func withOwnConnection(_ status: Payload.Status) -> Bench {
        let bench = Bench()
        bench.machine.connected(connection: "c-1", user: "alice", device: "", status: status, at: bench.now)
        bench.watch(["alice"])
        for action in bench.actions() {
            switch action {
            case .apply(_, _, let tag): bench.machine.applied(.success([10]), tag: tag, at: bench.now)
            case .read(_, let tag): bench.answer(tag, [change("alice", .online, 10)])
            default: break
            }
        }
        _ = bench.actions()
        bench.machine.changed([], partition: Partition.of("alice"), gap: true, at: bench.now)
        return bench
    }

    @Test("a user with connections on this node is never declared offline for a missing record")
    func ownConnections() {
        let bench = withOwnConnection(.online)
        let told = bench.pass(.seconds(200)) { users in
            PresenceSnapshot(changes: users.map { change($0, .offline, 0) }, isWarming: false)
        }
        #expect(news(told).isEmpty)
    }

    @Test("an invisible connection here is no reason to keep a user whose record is missing, and nothing is kept for it, decision 0323")
    func invisibleConnections() {
        let bench = withOwnConnection(.invisible)
        let told = bench.pass(.seconds(100)) { users in
            PresenceSnapshot(changes: users.map { change($0, .offline, 0) }, isWarming: false)
        }
        #expect(news(told) == [PresenceChange(user: "alice", status: .offline, version: 11, lastSeen: 0)])
        // Nobody watches any more, and then somebody does: it's what the store says, as of one who is gone.
        bench.machine.unwatch(["alice"], loop: 0)
        bench.watch(["alice"], tag: 2)
        for read in bench.reads() { bench.answer(read.tag, [change("alice", .offline, 0)]) }
        #expect(answers(bench.actions()).map(\.changes) == [[change("alice", .offline, 0)]])
    }

    @Test("all watched users are read again within 300 s, whatever the feeds said")
    func audit() {
        let bench = Bench()
        let users = (0..<300).map { Name(trusted: [UInt8]("user-\($0)".utf8)) }
        bench.watch(users)
        bench.answer(bench.reads()[0].tag, users.map { change($0, .online, 10) })
        _ = bench.actions()
        let told = bench.pass(.seconds(301)) { PresenceSnapshot(changes: $0.map { change($0, .away, 11) }, isWarming: false) }
        #expect(Set(news(told).map(\.user)).count == 300)
    }

    @Test("answers with another tag space, or to what nobody asked, are not heard")
    func strangers() {
        let bench = Bench()
        bench.watch(["alice"])
        let tag = bench.reads()[0].tag
        let owned = [bench.machine.owns(tag), bench.machine.owns(RequestTag(high: 6, low: tag.low))]
        #expect(owned == [true, false])
        bench.answer(RequestTag(high: 6, low: tag.low), [change("alice", .online, 10)])
        bench.answer(RequestTag(high: 5, low: tag.low + 100), [change("alice", .online, 10)])
        bench.machine.applied(.success([1]), tag: tag, at: bench.now)
        #expect(bench.actions().isEmpty)
    }

    @Test("while the store is full no answer is sure, and for a while afterwards, until those who came meanwhile have got in")
    func full() {
        let bench = Bench()
        bench.machine.storeFull(true, at: bench.now)
        bench.watch(["alice"])
        var read = bench.reads()[0]
        bench.answer(read.tag, [change("alice", .online, 7)])
        #expect(answers(bench.actions()).map(\.isStale) == [true])
        bench.machine.storeFull(false, at: bench.now)
        bench.watch(["alice"], tag: 2)
        #expect(answers(bench.actions()).map(\.isStale) == [true])
        bench.pass(.seconds(5)) { users in PresenceSnapshot(changes: users.map { change($0, .online, 7) }, isWarming: false) }
        bench.watch(["bob"], tag: 3)
        read = bench.reads()[0]
        bench.answer(read.tag, [change("bob", .offline, 0)])
        #expect(answers(bench.actions()).map(\.isStale) == [false])
    }

    @Test("a user whose record can't be read makes the answer stale and nobody else's state wrong; later watches of others aren't touched")
    func unreadable() {
        let bench = Bench()
        bench.watch(["alice", "bob"])
        let read = bench.reads()[0]
        var snapshot = PresenceSnapshot(changes: [change("alice", .online, 7), change("bob", .offline, 0)], isWarming: false)
        snapshot.unreadable = ["bob"]
        bench.machine.read(.success(snapshot), tag: read.tag, at: bench.now)
        let answer = answers(bench.actions())[0]
        #expect(answer.isStale && answer.changes == [change("alice", .online, 7), change("bob", .offline, 0)])
        bench.watch(["alice"], tag: 2)
        #expect(answers(bench.actions()).map(\.isStale) == [false])
        // It's looked at again, and told once it can be read.
        let later = bench.pass(.seconds(3)) { users in
            PresenceSnapshot(changes: users.map { change($0, .online, $0 == "bob" ? 9 : 7) }, isWarming: false)
        }
        #expect(news(later) == [change("bob", .online, 9)])
    }
}
