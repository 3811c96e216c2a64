import HubBase
import HubContracts
import HubCore
import HubWire
import Testing

/// The embedded member store under virtual time: several nodes on one.
final class MemoryMemberFixture: MemberStoreFixture {
    private(set) var now = Instant(nanoseconds: 5_000_000_000)
    private var stores: [MemoryMemberStore] = []
    private let members: MemoryMembers
    private let hooks: MemoryHookQueue
    var memberHooks: any HookQueue { hooks }

    init() {
        members = MemoryMembers(timers: PresenceStoreContract.timers, wallClockAtStart: 1_800_000_000_000, startedAt: now)
        hooks = MemoryHookQueue(wallClockAtStart: 1_800_000_000_000, startedAt: now)
        hooks.setHookRules(HookRules(kinds: HookKinds(HookKind.allCases), perPartition: 10_000, keep: .seconds(3600)))
        members.hooks = hooks
    }

    func makeMemberNode(incarnation: Name) -> any MemberStore {
        let store = MemoryMemberStore(members, node: incarnation)
        stores.append(store)
        return store
    }

    func carry(_ channel: Name, on node: any MemberStore) {}
    func endMembers(of channel: Name) { pass(MemberLimits.ttl + .seconds(1)) }

    func run(until condition: () -> Bool) -> Bool {
        for _ in 0..<500 {
            if condition() { return true }
            step(.milliseconds(10))
        }
        return condition()
    }

    func pass(_ span: Span) {
        let end = now + span
        while now < end { step(min(.milliseconds(10), end.since(now))) }
    }

    private func step(_ span: Span) {
        now = now + span
        for store in stores { store.advance(at: now) }
        hooks.advance(at: now)
    }
}

private final class Answers: MemberStoreDelegate {
    var tips: [Result<MembersTip, WireError>] = []
    func membersChanged(_ result: Result<MembersTip, WireError>, tag: RequestTag) { tips.append(result) }
    func membersRefreshed(_ result: Result<MembersLease, WireError>, tag: RequestTag) {}
    func membersReaped(_ result: Result<Int, WireError>, tag: RequestTag) {}
    func membersSwept(_ result: Result<MembersSwept, WireError>, partition: Int, tag: RequestTag) {}
    func membersListed(_ result: Result<MembersList, WireError>, tag: RequestTag) {}
    func heard(_ news: MembersNews, channel: Name) {}
    func memberStoreHealth(_ health: BackendHealth) {}
}

@Suite("Embedded member store") struct MemoryMemberTests {
    @Test("the member store's contract holds in memory", arguments: MemberStoreContract.checks)
    func contract(_ check: MemberStoreCheck) { check.run(MemoryMemberFixture()) }

    @Test("a full store refuses who comes, lets go who leaves, and takes again")
    func full() {
        let start = Instant(nanoseconds: 1_000_000_000)
        let members = MemoryMembers(
            timers: PresenceStoreContract.timers, wallClockAtStart: 1_800_000_000_000, startedAt: start, membershipsMax: 2)
        let answers = Answers()
        let store = MemoryMemberStore(members, node: "aaaaaaaaaaaa")
        store.delegate = answers
        for (user, devices) in [("a", 1), ("b", 1), ("c", 1), ("a", 0), ("c", 1)] as [(Name, UInt32)] {
            store.change(
                [MemberCount(user: user, devices: devices)], in: "room", known: MembersKnown(call: 1), mayBeLate: true,
                tag: RequestTag(high: 0, low: 1),
                at: start)
        }
        store.advance(at: start)
        #expect(
            answers.tips.map { (try? $0.get())?.occupancy } == [1, 2, nil, 1, 2], "\(answers.tips)")
    }

    @Test("where a channel's sequence begins says no more of the time than last seen does, presence.md What can't be")
    func coarse() {
        var timers = PresenceStoreContract.timers
        timers.lastSeenStep = .seconds(3_600)
        let start = Instant(nanoseconds: 1_000_000_000)
        let wall: UInt64 = 1_800_000_000_000
        let members = MemoryMembers(timers: timers, wallClockAtStart: wall, startedAt: start)
        let answers = Answers()
        let store = MemoryMemberStore(members, node: "aaaaaaaaaaaa")
        store.delegate = answers
        for number in 0..<20 {
            let channel = Name(trusted: [UInt8]("room-\(number)".utf8))
            store.change(
                [MemberCount(user: "alice", devices: 1)], in: channel, known: MembersKnown(), mayBeLate: true,
                tag: RequestTag(high: 0, low: 1), at: start)
        }
        store.advance(at: start)
        let begun = answers.tips.compactMap { (try? $0.get())?.begun }
        #expect(begun.count == 20 && Set(begun).count > 10)
        #expect(begun.allSatisfy { $0 >= wall - wall % 3_600_000 && $0 < wall - wall % 3_600_000 + 3_600_000 })
    }
}
