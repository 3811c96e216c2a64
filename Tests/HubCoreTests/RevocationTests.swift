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

    @Test("its channel is one that no client can name")
    func channel() {
        #expect(Name(validating: RevocationKeeper.channel.bytes) == nil)
    }
}
