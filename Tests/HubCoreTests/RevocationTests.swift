import HubBase
import HubCore
import HubWire
import Testing

@Suite("Revocations")
struct RevocationTests {
    private static let hour: UInt64 = 3_600_000

    @Test(
        "come back from what is kept of them, whatever the name",
        arguments: [
            Revocation(.user("alice"), before: 5, expires: 9), Revocation(.token("a\"b\\c"), before: 0, expires: 1),
            Revocation(.everyone, before: 1 << 50, expires: (1 << 53) - 1),
            Revocation(.connections("zoë", mayReturn: true), before: 1, expires: 2),
            Revocation(.connections("zoë", mayReturn: false), before: 1, expires: 2),
        ])
    func payload(revocation: Revocation) {
        #expect(Revocation(payload: revocation.payload) == revocation)
        #expect(Name(validating: revocation.id.bytes, limit: 64) != nil)
    }

    @Test(
        "what isn't one is none",
        arguments: [
            "", "{}", "[]", #"{"kind":"user","before":1,"expires":2}"#, #"{"kind":"user","name":"","before":1,"expires":2}"#,
            #"{"kind":"everyone","name":"a","before":1,"expires":2}"#, #"{"kind":"user","name":"a","before":-1,"expires":2}"#,
            #"{"kind":"user","name":"a","before":1e400,"expires":2}"#, #"{"kind":"other","name":"a","before":1,"expires":2}"#,
            #"{"kind":"user","name":"a","expires":2}"#, #"{"kind":"user","name":"a\u0000","before":1,"expires":2}"#,
        ])
    func foreign(text: String) {
        #expect(Revocation(payload: Array(text.utf8)) == nil)
    }

    @Test("a user's: tokens issued by then, and those that don't say when; newer ones hold, and so do others'")
    func user() {
        var list = RevocationList()
        #expect(!list.refuses("alice", issued: 1, tokenId: nil))
        #expect(list.add(Revocation(.user("alice"), before: 1000, expires: 9000)) == true)
        #expect(list.refuses("alice", issued: 1000, tokenId: nil) && list.refuses("alice", issued: nil, tokenId: nil))
        #expect(!list.refuses("alice", issued: 1001, tokenId: nil) && !list.refuses("bob", issued: 1, tokenId: nil))
        #expect(list.add(Revocation(.user("alice"), before: 900, expires: 8000)) == false, "says nothing new")
        #expect(list.add(Revocation(.user("alice"), before: 2000, expires: 8000)) && list.refuses("alice", issued: 1001, tokenId: nil))
        list.expire(at: 8999)
        #expect(list.count == 1)
        list.expire(at: 9000)
        #expect(list.isEmpty && !list.refuses("alice", issued: 1, tokenId: nil))
    }

    @Test("one token's, by its jti; everybody's, by time; connections are no tokens")
    func others() {
        var list = RevocationList()
        list.add(Revocation(.token("t1"), before: 0, expires: 9000))
        list.add(Revocation(.connections("bob", mayReturn: false), before: 5000, expires: 9000))
        #expect(list.refuses("alice", issued: 5, tokenId: "t1") && !list.refuses("alice", issued: 5, tokenId: "t2"))
        #expect(!list.refuses("bob", issued: 5, tokenId: nil))
        list.add(Revocation(.everyone, before: 100, expires: 9000))
        #expect(list.refuses("carol", issued: 100, tokenId: nil) && !list.refuses("carol", issued: 101, tokenId: nil))
    }

    @Test("connections that were ended are remembered for who turns out to be their user's")
    func ended() {
        var list = RevocationList()
        #expect(list.ended("alice", since: 0) == nil)
        list.add(Revocation(.connections("alice", mayReturn: true), before: 5000, expires: 65_000))
        #expect(list.ended("alice", since: 5000) == true && list.ended("alice", since: 5001) == nil && list.ended("bob", since: 0) == nil)
        // For good counts before for now.
        list.add(Revocation(.connections("alice", mayReturn: false), before: 4000, expires: 64_000))
        #expect(list.ended("alice", since: 4000) == false && list.ended("alice", since: 4001) == true)
        list.expire(at: 65_000)
        #expect(list.ended("alice", since: 0) == nil && list.isEmpty)
    }

    @Test("beyond so many ended connections one time stands for the rest, as an end that lets return")
    func endedBeyond() {
        var list = RevocationList()
        func end(_ number: Int, _ before: UInt64) {
            list.add(
                Revocation(
                    .connections(Name(trusted: Array("u\(number)".utf8)), mayReturn: false), before: before, expires: before + 60_000))
        }
        for number in 0..<RevocationList.endedMax { end(number, 1000) }
        #expect(list.ended("other", since: 1000) == nil)
        end(5000, 2000)
        end(5001, 1500)
        #expect(list.count == RevocationList.endedMax)
        #expect(list.ended("u0", since: 1000) == false && list.ended("u5001", since: 2000) == true)
        #expect(list.ended("other", since: 2000) == true)
        #expect(list.ended("other", since: 2001) == nil)
        list.expire(at: 61_999)
        #expect(list.ended("other", since: 2000) == true)
        list.expire(at: 62_000)
        #expect(list.ended("other", since: 2000) == nil)
    }

    @Test("everybody's takes the place of those that it covers, and has room when nothing else has")
    func full() {
        var list = RevocationList()
        for number in 0..<RevocationList.countMax {
            list.add(
                Revocation(
                    number % 2 == 0 ? .user(Name(trusted: Array("u\(number)".utf8))) : .token(Name(trusted: Array("t\(number)".utf8))),
                    before: 1000, expires: 9000))
        }
        let more = Revocation(.user("more"), before: 2000, expires: 9000)
        #expect(list.count == RevocationList.countMax && !list.hasRoom(for: more) && list.firstEnd == 9000)
        #expect(list.hasRoom(for: Revocation(.user("u2"), before: 3000, expires: 9500)), "it takes the place of the one before")
        #expect(list.hasRoom(for: Revocation(.connections("u", mayReturn: true), before: 3000, expires: 9500)))
        let all = Revocation(.everyone, before: 2000, expires: 10_000)
        #expect(list.hasRoom(for: all) && list.add(all) == true)
        #expect(list.count == RevocationList.countMax / 2 + 1, "users' are covered; a token may have been issued later than it was revoked")
        #expect(list.refuses("u0", issued: 1000, tokenId: nil) && list.refuses("x", issued: 5000, tokenId: "t1"))
        #expect(list.hasRoom(for: more) && list.add(more) == false, "said already")
        #expect(list.add(Revocation(.everyone, before: 1000 + 600_000, expires: 700_000)) == true && list.count == 1)
        #expect(list.refuses("x", issued: 601_000, tokenId: "t1") && !list.refuses("x", issued: 601_001, tokenId: "t2"))
    }

    @Test("one that holds longer than everybody's isn't covered by it")
    func longer() {
        var list = RevocationList()
        list.add(Revocation(.user("alice"), before: 1000, expires: 9000))
        list.add(Revocation(.everyone, before: 2000, expires: 5000))
        list.expire(at: 5000)
        #expect(list.refuses("alice", issued: 1000, tokenId: nil) && !list.refuses("bob", issued: 1000, tokenId: nil))
    }

    @Test("ended connections are remembered up to a bound, take no token's place, and are told beyond it as well")
    func connections() {
        var list = RevocationList()
        for number in 0..<RevocationList.endedMax {
            list.add(Revocation(.connections(Name(trusted: Array("u\(number)".utf8)), mayReturn: false), before: 1000, expires: 9000))
        }
        #expect(list.add(Revocation(.connections("more", mayReturn: false), before: 1000, expires: 9000)) == true)
        #expect(list.count == RevocationList.endedMax && list.hasRoom(for: Revocation(.user("a"), before: 1, expires: 2)))
    }

    // MARK: Records

    @Test("records are read back; cut anywhere, those before the cut are")
    func records() {
        let revocations = [
            Revocation(.user("alice"), before: 1000, expires: 9000), Revocation(.token("5f\"1c"), before: 2000, expires: 9000),
            Revocation(.everyone, before: 3000, expires: 9000),
        ]
        var out = ByteBuffer(capacity: 1024)
        out.append(RevocationRecords.magic)
        var ends = [out.count]
        for revocation in revocations {
            RevocationRecords.append(revocation, to: &out)
            ends.append(out.count)
        }
        let bytes = out.copyBytes()
        #expect(RevocationRecords.read(bytes) == .init(revocations: revocations, damagedFrom: nil))
        #expect(RevocationRecords.read([]) == .init(revocations: [], damagedFrom: nil))
        for cut in 1..<bytes.count {
            let read = RevocationRecords.read(Array(bytes[..<cut]))
            let whole = ends.filter { $0 <= cut }.count - 1
            #expect(read.revocations == Array(revocations.prefix(max(whole, 0))))
            #expect(read.damagedFrom == (ends.contains(cut) ? nil : whole < 0 ? 0 : ends[whole]))
        }
        for place in bytes.indices {
            var wrong = bytes
            wrong[place] ^= 0x20
            let read = RevocationRecords.read(wrong)
            #expect(read.damagedFrom != nil && read.revocations == Array(revocations.prefix(read.revocations.count)))
        }
    }

    // MARK: The keeper

    private let start = Instant(nanoseconds: 1_000_000_000)

    private func entry(_ revocation: Revocation, _ offset: UInt64) -> PositionedPublication {
        PositionedPublication(
            position: Position(epoch: .none, offset: offset, tag: .none), previous: .none,
            publication: RevocationKeeper.publication(revocation, wall: 0))
    }

    private func page(_ entries: [PositionedPublication], hasMore: Bool = false) -> Result<HistoryPage, WireError> {
        .success(HistoryPage(publications: entries, tip: .start, hasMore: hasMore, continuity: .notAsked))
    }

    @Test("a node isn't current before it has read all pages; what has expired isn't told")
    func reading() {
        var keeper = RevocationKeeper(at: start)
        #expect(keeper.tick(at: start, wall: 0).isEmpty && !keeper.isCurrent, "the broker isn't up")
        keeper.health(.up, at: start)
        #expect(keeper.tick(at: start, wall: 0) == [.subscribe])
        #expect(keeper.tick(at: start, wall: 0).isEmpty)
        let asked = keeper.subscribed(.success(.start), at: start)
        guard case .read(let query)? = asked.first else {
            Issue.record("nothing is read")
            return
        }
        #expect(query.after == nil)
        let old = Revocation(.user("old"), before: 1, expires: 50)
        let alice = Revocation(.user("alice"), before: 1, expires: Self.hour)
        let first = keeper.historyRead(page([entry(old, 1), entry(alice, 2)], hasMore: true), at: start, wall: 100)
        #expect(first.first == .tell([alice], isLive: false) && !keeper.isCurrent)
        guard case .read(let next)? = first.last else {
            Issue.record("the second page isn't read")
            return
        }
        #expect(next.after == .offset(2))
        let live = Revocation(.token("t"), before: 1, expires: Self.hour)
        #expect(keeper.received(RevocationKeeper.publication(live, wall: 0), wall: 100) == [.tell([live], isLive: true)])
        #expect(keeper.historyRead(page([entry(live, 3)]), at: start, wall: 100).isEmpty && keeper.isCurrent)
        #expect(keeper.list.count == 2)
    }

    @Test("a failed reading is repeated; a lost link means reading anew; word of somebody else is counted")
    func again() {
        var keeper = RevocationKeeper(at: start)
        keeper.health(.up, at: start)
        _ = keeper.tick(at: start, wall: 0)
        #expect(keeper.subscribed(.failure(.uncertain), at: start).isEmpty)
        #expect(keeper.tick(at: start + .milliseconds(900), wall: 0).isEmpty)
        #expect(keeper.tick(at: start + .milliseconds(1100), wall: 0) == [.subscribe])
        _ = keeper.subscribed(.success(.start), at: start)
        #expect(keeper.historyRead(.failure(.uncertain), at: start + .seconds(2), wall: 0).isEmpty && !keeper.isCurrent)
        #expect(keeper.tick(at: start + .seconds(4), wall: 0) == [.subscribe])
        _ = keeper.subscribed(.success(.start), at: start + .seconds(4))
        _ = keeper.historyRead(page([]), at: start + .seconds(4), wall: 0)
        #expect(keeper.isCurrent)
        keeper.health(.down("gone"), at: start + .seconds(5))
        #expect(keeper.tick(at: start + .seconds(6), wall: 0).isEmpty)
        keeper.health(.up, at: start + .seconds(7))
        #expect(!keeper.isCurrent && keeper.tick(at: start + .seconds(7), wall: 0) == [.subscribe])
        var strange = RevocationKeeper.publication(Revocation(.everyone, before: 1, expires: 2), wall: 0)
        strange.payload = Array("{}".utf8)
        #expect(keeper.received(strange, wall: 0) == [.foreign])
    }

    @Test("what the others have lost is said again by those who know it")
    func rewritten() {
        var keeper = RevocationKeeper(at: start)
        keeper.health(.up, at: start)
        _ = keeper.tick(at: start, wall: 0)
        _ = keeper.subscribed(.success(.start), at: start)
        _ = keeper.historyRead(page([]), at: start, wall: 0)
        let alice = Revocation(.user("alice"), before: 1, expires: Self.hour)
        _ = keeper.received(RevocationKeeper.publication(alice, wall: 0), wall: 0)
        keeper.resync(at: start + .seconds(1))
        _ = keeper.tick(at: start + .seconds(1), wall: 0)
        _ = keeper.subscribed(.success(.start), at: start + .seconds(1))
        let actions = keeper.historyRead(page([]), at: start + .seconds(1), wall: 7)
        #expect(actions == [.publish(RevocationKeeper.publication(alice, wall: 7))] && keeper.isCurrent)
    }

    private func position(_ offset: UInt64, epoch: UInt64 = 1) -> Position {
        Position(epoch: Mark(raw: epoch), offset: offset, tag: Mark(raw: offset))
    }

    private func standing(at tip: Position) -> Result<HistoryPage, WireError> {
        .success(HistoryPage(publications: [], tip: tip, hasMore: false, continuity: .notAsked))
    }

    @Test("a channel that stands elsewhere without a broken link is read again within seconds, and the node goes on meanwhile")
    func flushed() {
        var keeper = RevocationKeeper(at: start)
        keeper.health(.up, at: start)
        _ = keeper.tick(at: start, wall: 0)
        _ = keeper.subscribed(.success(.start), at: start)
        _ = keeper.historyRead(standing(at: position(5)), at: start, wall: 0)
        let alice = Revocation(.user("alice"), before: 1, expires: Self.hour)
        _ = keeper.received(RevocationKeeper.publication(alice, wall: 0), wall: 0)
        #expect(keeper.tick(at: start + .seconds(1), wall: 0).isEmpty)
        let checkAt = start + RevocationKeeper.checkInterval
        #expect(keeper.tick(at: checkAt, wall: 0) == [.check(HistoryQuery(isReverse: true, limit: 1))])
        keeper.checked(standing(at: position(6)), at: checkAt)
        #expect(keeper.tick(at: checkAt, wall: 0).isEmpty, "it went on as it should")
        keeper.checked(standing(at: .start), at: checkAt)
        #expect(keeper.isCurrent && keeper.tick(at: checkAt, wall: 0) == [.subscribe])
        #expect(keeper.isCurrent)
        _ = keeper.subscribed(.success(.start), at: checkAt)
        #expect(keeper.historyRead(standing(at: .start), at: checkAt, wall: 7) == [.publish(RevocationKeeper.publication(alice, wall: 7))])
        keeper.checked(.failure(.uncertain), at: checkAt)
        #expect(keeper.tick(at: checkAt + .seconds(1), wall: 7).isEmpty)
        keeper.rewritten(.failure(.uncertain), at: checkAt)
        #expect(
            keeper.tick(at: checkAt + RevocationKeeper.checkInterval, wall: 7) == [.subscribe], "what couldn't be written is tried again")
    }

    @Test("however many were lost, all are written anew, some in each tick")
    func thousands() {
        var keeper = RevocationKeeper(at: start)
        for number in 0..<2500 {
            _ = keeper.received(
                RevocationKeeper.publication(
                    Revocation(.token(Name(trusted: Array("t\(number)".utf8))), before: 1, expires: Self.hour), wall: 0), wall: 0)
        }
        keeper.health(.up, at: start)
        _ = keeper.tick(at: start, wall: 0)
        _ = keeper.subscribed(.success(.start), at: start)
        var written = Set<Name>()
        var actions = keeper.historyRead(standing(at: .start), at: start, wall: 0)
        for _ in 0..<60 {
            #expect(actions.count <= RevocationKeeper.rewritesPerTick)
            for case .publish(let publication) in actions { written.insert(publication.messageId) }
            actions = keeper.tick(at: start, wall: 0)
        }
        #expect(written.count == 2500)
    }

    @Test("what is about to be pushed out of the history is written anew")
    func pushedOut() {
        var keeper = RevocationKeeper(at: start)
        keeper.health(.up, at: start)
        _ = keeper.tick(at: start, wall: 0)
        _ = keeper.subscribed(.success(.start), at: start)
        let (old, new) = (Revocation(.user("old"), before: 1, expires: Self.hour), Revocation(.user("new"), before: 1, expires: Self.hour))
        let page = HistoryPage(
            publications: [entry(old, 1), entry(new, 15_000)], tip: position(15_001), hasMore: false, continuity: .notAsked)
        let actions = keeper.historyRead(.success(page), at: start, wall: 0)
        #expect(actions.last == .publish(RevocationKeeper.publication(old, wall: 0)) && actions.count == 2)
        let checkAt = start + RevocationKeeper.checkInterval
        _ = keeper.tick(at: checkAt, wall: 0)
        keeper.checked(standing(at: position(20_001)), at: checkAt)
        #expect(keeper.tick(at: checkAt, wall: 0).isEmpty)
        keeper.checked(standing(at: position(20_002)), at: checkAt)
        #expect(keeper.tick(at: checkAt, wall: 0) == [.subscribe])
    }

    @Test("what outlived the process elsewhere holds from the start, and is written into the channel")
    func known() {
        let alice = Revocation(.user("alice"), before: 1, expires: Self.hour)
        var keeper = RevocationKeeper(known: [alice], at: start)
        #expect(keeper.tick(at: start, wall: 0) == [.tell([alice], isLive: false)])
        keeper.health(.up, at: start)
        #expect(keeper.tick(at: start, wall: 0) == [.subscribe])
        _ = keeper.subscribed(.success(.start), at: start)
        #expect(keeper.historyRead(page([]), at: start, wall: 0) == [.publish(RevocationKeeper.publication(alice, wall: 0))])
    }

    @Test("its channel is one that no client can name")
    func channel() {
        #expect(Name(validating: RevocationKeeper.channel.bytes) == nil)
    }
}
