import HubBase
import HubCore
import HubWire
import Testing

/// What the member store's contract needs from an implementation under test.
package protocol MemberStoreFixture: AnyObject {
    /// Nodes share one backend. Timers: `PresenceStoreContract.timers`.
    func makeMemberNode(incarnation: Name) -> any MemberStore
    /// The webhooks' queues that the nodes' channels are told in, of all kinds.
    var memberHooks: any HookQueue { get }
    /// The node hears the channel once this returns.
    func carry(_ channel: Name, on node: any MemberStore)
    var now: Instant { get }
    func run(until condition: () -> Bool) -> Bool
    func pass(_ span: Span)
    /// The channel's members end with their time to live, as when nobody swept for long.
    func endMembers(of channel: Name)
}

package struct MemberStoreCheck: Sendable, CustomTestStringConvertible {
    package let name: String
    package let run: @Sendable (any MemberStoreFixture) -> Void

    package var testDescription: String { name }
}

/// What every member store promises. Each check has its own channel.
package enum MemberStoreContract {
    package static let checks: [MemberStoreCheck] = [
        MemberStoreCheck(name: "join, leave and update are three different events, told to every node in one order", run: threeEvents),
        MemberStoreCheck(name: "a user on two nodes is one member until the last has gone", run: twoNodes),
        MemberStoreCheck(name: "saying again what is known tells nothing", run: repeated),
        MemberStoreCheck(name: "a call of many is answered with where the channel stands, and told at once", run: batch),
        MemberStoreCheck(name: "nothing is told from inside a call", run: neverInside),
        MemberStoreCheck(name: "a node that isn't heard of is dead, and its users leave once, whoever takes them out", run: deadNode),
        MemberStoreCheck(name: "a renewed lease doesn't end, and a living node isn't taken out", run: renewed),
        MemberStoreCheck(name: "a node that was taken out must say all again", run: takenOut),
        MemberStoreCheck(name: "nobody is taken for dead by one who comes late itself", run: late),
        MemberStoreCheck(name: "who only looks on sees the dead too, and needs no members", run: observer),
        MemberStoreCheck(name: "a node that stops is dead after the time it names, also where others come meanwhile", run: leaving),
        MemberStoreCheck(name: "whose lease ends first is looked after then, also when the other node has left meanwhile", run: endsFirst),
        MemberStoreCheck(name: "of many nodes that end at once all are found, not some now and the rest a lease later", run: manyDead),
        MemberStoreCheck(
            name: "who is told that one is dead, and doesn't come to take it out, keeps it no longer than sweeps do", run: notTakenOut),
        MemberStoreCheck(name: "of nodes that end one soon after another each is found in its time", run: oneAfterAnother),
        MemberStoreCheck(
            name: "nobody is dead when nobody swept for long, whoever asks, nor for a hold; then the dead are", run: blind),
        MemberStoreCheck(name: "a small list comes whole, a large one in pages that hold everybody", run: pages),
        MemberStoreCheck(name: "a channel that nobody was ever in is empty", run: unknown),
        MemberStoreCheck(name: "backends are told once when the first member comes and once when the last one goes", run: occupied),
        MemberStoreCheck(
            name: "when all nodes of a channel are gone, whoever sweeps takes their members out and tells, once", run: allGone),
        MemberStoreCheck(
            name: "what all nodes said may have ended by itself before anybody sweeps: that's told all the same", run: allEnded),
        MemberStoreCheck(
            name: "a sweep leaves a channel to whoever lives in it, and when that one has left the dead go too", run: besideTheLiving),
        MemberStoreCheck(name: "a sweep after a long time without any finds nobody dead for a hold", run: sweptLate),
        MemberStoreCheck(
            name: "where the store holds less than a node knows the channel begins anew, above what's known", run: wentBack),
        MemberStoreCheck(name: "a call that comes behind a later one of its node changes nothing", run: lateCall),
        MemberStoreCheck(name: "whose answer was lost, or what a node knows nothing of, is to be said again", run: lostAnswer),
        MemberStoreCheck(name: "names of all shapes come back as they are", run: names),
    ]

    private static func threeEvents(_ fixture: any MemberStoreFixture) {
        let (one, two) = MemberNode.pair(fixture, "c:three")
        #expect(one.change(["alice": 1])?.isNew == true)
        #expect(two.change(["bob": 2])?.occupancy == 2)
        #expect(one.change(["alice": 3])?.isNew == false)
        #expect(two.change(["bob": 0])?.occupancy == 1)
        let told = ["joined alice 1", "joined bob 2", "updated alice 3", "left bob 0"]
        #expect(fixture.run { one.told == told && two.told == told }, "\(one.told) \(two.told)")
        expectChained(one.news)
        #expect(one.news.map(\.occupancy) == [1, 2, 2, 1])
    }

    private static func twoNodes(_ fixture: any MemberStoreFixture) {
        let (one, two) = MemberNode.pair(fixture, "c:two")
        one.change(["alice": 1])
        two.change(["alice": 1])
        one.change(["alice": 0])
        #expect(one.list()?.members == [MemberEntry(user: "alice", devices: 1)])
        two.change(["alice": 0])
        let told = ["joined alice 1", "updated alice 2", "updated alice 1", "left alice 0"]
        #expect(fixture.run { two.told == told }, "\(two.told)")
    }

    private static func repeated(_ fixture: any MemberStoreFixture) {
        let (one, two) = MemberNode.pair(fixture, "c:again")
        let first = one.change(["alice": 1, "bob": 1])
        let second = one.change(["alice": 1, "bob": 1])
        #expect(first?.sequence == second?.sequence && second?.occupancy == 2)
        one.change(["carol": 0])
        one.change(["alice": 0])
        one.change(["alice": 0])
        #expect(fixture.run { two.told.last == "left alice 0" })
        fixture.pass(.milliseconds(50))
        #expect(two.told.count == 3, "\(two.told)")
    }

    private static func batch(_ fixture: any MemberStoreFixture) {
        let (one, two) = MemberNode.pair(fixture, "c:batch")
        let users = Dictionary(uniqueKeysWithValues: (0..<MemberLimits.changes).map { (Name(validating: "user\($0)")!, UInt32(1)) })
        #expect(one.change(users)?.occupancy == UInt64(MemberLimits.changes))
        #expect(fixture.run { two.news.first?.users.count == MemberLimits.changes && two.news.count == 1 })
        #expect(one.change(users.mapValues { _ in 0 })?.occupancy == 0)
        #expect(fixture.run { two.news.last?.kind == .left && two.news.last?.users.count == MemberLimits.changes })
    }

    private static func neverInside(_ fixture: any MemberStoreFixture) {
        let (one, two) = MemberNode.pair(fixture, "c:inside")
        one.change(["alice": 1])
        _ = one.refresh()
        _ = one.list()
        _ = one.reap(two.incarnation)
        #expect(one.toldInsideCall == 0)
    }

    private static func deadNode(_ fixture: any MemberStoreFixture) {
        let (one, two) = MemberNode.pair(fixture, "c:dead")
        one.change(["alice": 1, "both": 1])
        let users = Dictionary(uniqueKeysWithValues: (0..<30).map { (Name(validating: "gone\($0)")!, UInt32(1)) })
        two.change(users)
        two.change(["both": 1])
        #expect(one.reap(two.incarnation) == 0, "it lives")
        // One stays, two is silent.
        #expect(one.findDead() == [two.incarnation])
        #expect(one.reap(two.incarnation) == 30)
        #expect(one.reap(two.incarnation) == 0)
        #expect(one.refresh()?.dead == [])
        #expect(fixture.run { one.told.filter { $0.hasPrefix("left") }.count == 30 }, "\(one.told)")
        #expect(one.told.contains("updated both 1"))
        #expect(Set(one.list()?.members.map(\.user) ?? []) == ["alice", "both"])
        expectChained(one.news)
    }

    private static func renewed(_ fixture: any MemberStoreFixture) {
        let (one, two) = MemberNode.pair(fixture, "c:renewed")
        one.change(["alice": 1])
        two.change(["bob": 1])
        for _ in 0..<6 {
            fixture.pass(.milliseconds(500))
            #expect(two.refresh()?.dead == [])
            let lease = one.refresh()
            #expect(lease?.isKnown == true && lease?.dead == [] && lease?.occupancy == 2)
            #expect(lease?.othersEnd.map { $0 > .milliseconds(1_500) } == true)
            #expect(one.reap(two.incarnation) == 0)
        }
        #expect(one.told == ["joined alice 1", "joined bob 1"] || one.told.count == 2)
    }

    private static func takenOut(_ fixture: any MemberStoreFixture) {
        let (one, two) = MemberNode.pair(fixture, "c:out")
        one.change(["alice": 1])
        two.change(["bob": 1])
        #expect(one.findDead() == [two.incarnation])
        #expect(one.reap(two.incarnation) == 1)
        #expect(two.refresh()?.isKnown == false)
        #expect(two.change(["bob": 1])?.isNew == true)
        #expect(two.refresh()?.isKnown == true)
        #expect(fixture.run { one.told == ["joined alice 1", "joined bob 1", "left bob 0", "joined bob 1"] }, "\(one.told)")
    }

    private static func late(_ fixture: any MemberStoreFixture) {
        let (one, two) = MemberNode.pair(fixture, "c:late")
        let third = MemberNode(fixture, "cccccccccccc", "c:late")
        one.change(["alice": 1])
        two.change(["bob": 1])
        third.change(["carol": 1])
        for _ in 0..<26 {
            _ = third.refresh()
            _ = third.sweep()
        }
        // Both come late: whoever is first can't know that it's the only one who was silent.
        #expect(one.refresh()?.dead == [])
        #expect(one.reap(two.incarnation) == 0)
        #expect(two.refresh()?.isKnown == true)
        #expect(one.refresh()?.dead == [])
        #expect(one.told.allSatisfy { $0.hasPrefix("joined") })
    }

    private static func observer(_ fixture: any MemberStoreFixture) {
        let (one, two) = MemberNode.pair(fixture, "c:observer")
        #expect(one.refresh(as: .observer) == MembersLease(isKnown: true, sequence: 0, begun: 0, occupancy: 0, othersEnd: nil, dead: []))
        #expect(one.refresh()?.isKnown == false)
        two.change(["bob": 1])
        #expect(one.refresh(as: .observer)?.occupancy == 1)
        let third = MemberNode(fixture, "cccccccccccc", "c:observer")
        third.change(["carol": 1])
        #expect(one.findDead(as: .observer) { _ = third.refresh() } == [two.incarnation])
        #expect(one.reap(two.incarnation) == 1)
        #expect(one.list()?.members == [MemberEntry(user: "carol", devices: 1)])
    }

    private static func leaving(_ fixture: any MemberStoreFixture) {
        let (one, two) = MemberNode.pair(fixture, "c:leaving")
        two.change(["bob": 1, "carol": 1])
        // The first sweep of all begins a hold.
        for _ in 0..<14 {
            #expect(two.refresh()?.isKnown == true)
            _ = one.sweep()
        }
        #expect(two.refresh(as: .leaving(within: .milliseconds(600)))?.isKnown == true)
        #expect(one.refresh(as: .observer)?.othersEnd.map { $0 <= .milliseconds(600) } == true)
        // Bob is back on another node, whose lease is a whole one.
        one.change(["bob": 1])
        #expect(two.refresh(as: .observer)?.othersEnd.map { $0 > .milliseconds(1_500) } == true)
        let third = MemberNode(fixture, "cccccccccccc", "c:leaving")
        #expect(third.sweeping(atMost: 16) { third.sweptUsers > 0 }, "found before the lease of the one who came ends")
        #expect(fixture.run { one.told.suffix(2).sorted() == ["left carol 0", "updated bob 1"] }, "\(one.told)")
        #expect(one.list()?.members == [MemberEntry(user: "bob", devices: 1)])
    }

    /// Alice's node, bob's, and a third one that sweeps: past the hold that the first sweep of all begins.
    private static func settled(_ fixture: any MemberStoreFixture, _ channel: Name) -> (MemberNode, MemberNode, MemberNode) {
        let (one, two) = MemberNode.pair(fixture, channel)
        let third = MemberNode(fixture, "cccccccccccc", channel)
        one.change(["alice": 1])
        two.change(["bob": 1])
        for _ in 0..<14 {
            #expect(one.refresh()?.isKnown == true && two.refresh()?.isKnown == true)
            _ = third.sweep()
        }
        return (one, two, third)
    }

    private static func endsFirst(_ fixture: any MemberStoreFixture) {
        let (one, two, third) = settled(fixture, "c:first")
        #expect(two.refresh(as: .leaving(within: .milliseconds(600)))?.isKnown == true)
        #expect(one.refresh()?.isKnown == true)
        one.change(["alice": 0])
        #expect(third.sweeping(atMost: 14) { third.sweptUsers > 0 }, "the lease that one renewed last says nothing of two")
        #expect(fixture.run { third.told.suffix(2) == ["left alice 0", "left bob 0"] }, "\(third.told)")
    }

    private static func manyDead(_ fixture: any MemberStoreFixture) {
        let (one, two) = MemberNode.pair(fixture, "c:many")
        one.change(["alice": 1])
        let others = (0..<14).map { MemberNode(fixture, Name(validating: "othernode\($0)")!, "c:many") }
        for (place, other) in others.enumerated() { other.change([Name(validating: "user\(place)")!: 1]) }
        // The first sweep of all begins a hold.
        for _ in 0..<14 {
            for node in others + [one] { #expect(node.refresh()?.isKnown == true) }
            _ = two.sweep()
        }
        for other in others { #expect(other.refresh(as: .leaving(within: .milliseconds(600)))?.isKnown == true) }
        #expect(one.refresh()?.isKnown == true)
        #expect(two.sweeping(atMost: 14) { two.sweptUsers > 0 })
        #expect(two.sweeping(atMost: 4) { two.sweptUsers == 14 }, "\(two.sweptUsers) of 14")
    }

    private static func notTakenOut(_ fixture: any MemberStoreFixture) {
        let (one, two, third) = settled(fixture, "c:told")
        #expect(two.refresh(as: .leaving(within: .milliseconds(100)))?.isKnown == true)
        fixture.pass(.milliseconds(150))
        #expect(one.refresh()?.dead == [two.incarnation])
        #expect(third.sweeping(atMost: 13) { third.sweptUsers > 0 }, "one's own lease is longer than that")
        #expect(fixture.run { third.told.last == "left bob 0" }, "\(third.told)")
    }

    private static func oneAfterAnother(_ fixture: any MemberStoreFixture) {
        let (one, two, third) = settled(fixture, "c:successive")
        #expect(one.refresh(as: .leaving(within: .milliseconds(600)))?.isKnown == true)
        #expect(two.refresh(as: .leaving(within: .milliseconds(900)))?.isKnown == true)
        #expect(third.sweeping(atMost: 14) { third.sweptUsers > 0 })
        #expect(third.sweeping(atMost: 5) { third.sweptUsers > 1 }, "not as late as a channel is looked for that couldn't be ended")
        #expect(fixture.run { third.told.suffix(2) == ["left alice 0", "left bob 0"] }, "\(third.told)")
    }

    private static func blind(_ fixture: any MemberStoreFixture) {
        let (one, two) = MemberNode.pair(fixture, "c:cut")
        let third = MemberNode(fixture, "cccccccccccc", "c:cut")
        one.change(["alice": 1])
        two.change(["bob": 1])
        for _ in 0..<14 {
            #expect(one.refresh()?.dead == [] && two.refresh()?.dead == [])
            _ = third.sweep()
        }
        // All are cut off for longer than the longest gap, and two's lease has ended: one's, which was renewed last, has not.
        fixture.pass(.milliseconds(1_000))
        #expect(one.refresh()?.isKnown == true)
        fixture.pass(.milliseconds(1_500))
        #expect(one.refresh()?.dead == [] && third.refresh(as: .observer)?.dead == [])
        // As if it had been found before.
        #expect(one.reap(two.incarnation) == 0)
        #expect(third.sweep() == MembersSwept())
        let lease = one.refresh()
        #expect(lease?.dead == [] && lease?.othersEnd.map { $0 < .milliseconds(1_400) } == true, "it looks again when the hold is over")
        #expect(third.refresh(as: .observer)?.dead == [] && one.reap(two.incarnation) == 0)
        #expect(two.refresh()?.isKnown == true && two.told.allSatisfy { $0.hasPrefix("joined") })
        #expect(one.findDead() == [two.incarnation])
        #expect(one.reap(two.incarnation) == 1)
        #expect(one.toldBackends() == ["occupied"])
    }

    private static func pages(_ fixture: any MemberStoreFixture) {
        let (one, _) = MemberNode.pair(fixture, "c:pages")
        var expected: Set<Name> = []
        for call in 0..<14 {
            let users = (0..<50).map { Name(validating: "user-\(call)-\($0)")! }
            expected.formUnion(users)
            one.change(Dictionary(uniqueKeysWithValues: users.map { ($0, 1) }))
        }
        let whole = one.list(whole: 1_000)
        #expect(whole?.cursor == nil && Set(whole?.members.map(\.user) ?? []) == expected)
        var found: Set<Name> = []
        var cursor: String? = "0"
        var calls = 0
        while let next = cursor, calls < 100 {
            let page = one.list(cursor: next, limit: 60, whole: 0)
            #expect(page?.occupancy == 700 && page?.sequence == whole?.sequence)
            found.formUnion(page?.members.map(\.user) ?? [])
            #expect(page.map { $0.members.count < 400 } == true)
            cursor = page?.cursor
            calls += 1
        }
        #expect(found == expected && calls > 3)
    }

    private static func unknown(_ fixture: any MemberStoreFixture) {
        let (one, two) = MemberNode.pair(fixture, "c:never")
        #expect(one.list() == MembersList(members: [], sequence: 0, begun: 0, occupancy: 0, cursor: nil))
        #expect(one.change(["alice": 0])?.isNew == true)
        #expect(one.list()?.sequence == 0)
        #expect(one.reap(two.incarnation) == 0)
    }

    private static func occupied(_ fixture: any MemberStoreFixture) {
        let (one, two) = MemberNode.pair(fixture, "c:occupied")
        for _ in 0..<2 {
            one.change(["alice": 1])
            two.change(["alice": 1, "bob": 1])
            one.change(["alice": 0])
            two.change(["alice": 0, "bob": 0])
            two.change(["bob": 0])
        }
        #expect(one.toldBackends() == ["occupied", "vacated", "occupied", "vacated"])
    }

    private static func allGone(_ fixture: any MemberStoreFixture) {
        let (one, two) = MemberNode.pair(fixture, "c:gone")
        let third = MemberNode(fixture, "cccccccccccc", "c:gone")
        one.change(["alice": 1, "both": 1])
        two.change(["bob": 2, "both": 1])
        for _ in 0..<16 {
            #expect(one.refresh()?.isKnown == true && two.refresh()?.isKnown == true)
            #expect(third.sweep() == MembersSwept(), "all live")
        }
        #expect(third.sweeping { third.list()?.occupancy == 0 })
        fixture.pass(.milliseconds(50))
        #expect(Set(third.told.filter { $0.hasPrefix("left") }) == ["left alice 0", "left bob 0", "left both 0"], "\(third.told)")
        #expect(third.sweptUsers == 3 && third.news.last?.occupancy == 0)
        #expect(third.toldBackends() == ["occupied", "vacated"])
        // The late ones begin a new round, which is told as such.
        #expect(one.refresh()?.isKnown == false)
        one.change(["alice": 1])
        #expect(third.toldBackends() == ["occupied", "vacated", "occupied"])
        expectChained(third.news)
    }

    private static func allEnded(_ fixture: any MemberStoreFixture) {
        let (one, two) = MemberNode.pair(fixture, "c:ended")
        one.change(["alice": 1])
        fixture.endMembers(of: "c:ended")
        #expect(two.list()?.occupancy == 0)
        #expect(two.toldBackends() == ["occupied"])
        #expect(two.sweeping { two.toldBackends() == ["occupied", "vacated"] })
        for _ in 0..<20 { #expect(two.sweep() == MembersSwept()) }
        #expect(two.toldBackends() == ["occupied", "vacated"])
    }

    private static func besideTheLiving(_ fixture: any MemberStoreFixture) {
        let (one, two) = MemberNode.pair(fixture, "c:beside")
        let third = MemberNode(fixture, "cccccccccccc", "c:beside")
        one.change(["alice": 1])
        two.change(["bob": 1])
        // One renews what it said, but leaves the dead to others; at last it goes itself.
        var isKept = true
        _ = third.sweeping(meanwhile: { if one.refresh()?.isKnown != true { isKept = false } }, atMost: 40) { false }
        #expect(isKept, "who renews what it said isn't taken out")
        #expect(third.list()?.members.contains(MemberEntry(user: "alice", devices: 1)) == true)
        one.change(["alice": 0])
        #expect(third.sweeping { third.list()?.occupancy == 0 })
        #expect(third.toldBackends() == ["occupied", "vacated"])
    }

    private static func sweptLate(_ fixture: any MemberStoreFixture) {
        let (one, two) = MemberNode.pair(fixture, "c:blind")
        one.change(["alice": 1])
        for _ in 0..<12 { _ = two.sweep() }
        // Longer than a lease and the longest gap: all may have been cut off.
        fixture.pass(.milliseconds(3_000))
        #expect(two.sweep() == MembersSwept())
        fixture.pass(.milliseconds(200))
        #expect(two.sweep() == MembersSwept())
        #expect(one.refresh()?.isKnown == true)
        for _ in 0..<10 { #expect(two.sweep() == MembersSwept()) }
        #expect(two.list()?.occupancy == 1 && two.toldBackends() == ["occupied"])
    }

    private static func wentBack(_ fixture: any MemberStoreFixture) {
        let (one, two) = MemberNode.pair(fixture, "c:back")
        one.change(["alice": 1])
        let tip = two.change(["bob": 1])!
        #expect(one.refresh()?.isKnown == true)
        // By the sequence that it was told, whether it has members there or only looks; by its own last call; by what it says next.
        let ways: [(String, (MembersKnown) -> UInt64?)] = [
            ("lease", { one.refresh(known: MembersKnown(sequence: $0.sequence + 500, call: $0.call))?.begun }),
            ("look", { one.refresh(as: .observer, known: MembersKnown(sequence: $0.sequence + 500, call: $0.call))?.begun }),
            ("own call", { one.refresh(known: MembersKnown(sequence: $0.sequence, call: $0.call + 500))?.begun }),
            ("join", { one.change(["alice": 1], known: MembersKnown(sequence: $0.sequence + 500, call: $0.call))?.begun }),
            ("leave", { one.change(["dave": 0], known: MembersKnown(sequence: $0.sequence + 500, call: $0.call))?.begun }),
        ]
        var last = tip.sequence
        for (count, (way, call)) in ways.enumerated() {
            let known = MembersKnown(sequence: one.known.sequence, call: one.known.call)
            let begun = call(known) ?? 0
            #expect(begun > last && (way == "own call" || begun > known.sequence + 500), "\(way)")
            #expect(two.refresh()?.isKnown == false, "\(way)")
            two.change(["bob": 1])
            one.change(["alice": 1])
            #expect(Set(one.list()?.members.map(\.user) ?? []) == ["alice", "bob"], "\(way)")
            #expect(one.refresh()?.isKnown == true && two.refresh()?.isKnown == true, "\(way)")
            last = one.list()?.sequence ?? 0
            #expect(fixture.run { two.rejoins.count == count + 2 }, "\(way)")
        }
        #expect(!one.told.contains { $0.hasPrefix("left") })
        #expect(one.toldBackends() == ["occupied"])
    }

    private static func lateCall(_ fixture: any MemberStoreFixture) {
        let (one, two) = MemberNode.pair(fixture, "c:late-call")
        one.change(["alice": 1, "bob": 1])
        one.change(["alice": 0])
        let late = one.change(["alice": 1], number: 1)
        #expect(late?.isNew == true && late?.occupancy == 1)
        #expect(two.list()?.members == [MemberEntry(user: "bob", devices: 1)])
    }

    private static func lostAnswer(_ fixture: any MemberStoreFixture) {
        let (one, two) = MemberNode.pair(fixture, "c:unanswered")
        one.change(["alice": 1])
        let known = one.known
        one.change(["bob": 1])
        // As if that had never been answered.
        #expect(one.refresh(known: known)?.isKnown == true, "it may be under way still")
        #expect(one.change(["bob": 1], known: known)?.isNew == true)
        #expect(one.change(["carol": 1])?.isNew == false)
        let tip = one.change(["alice": 1], known: MembersKnown(sequence: one.known.sequence))
        #expect(tip?.isNew == true && tip?.occupancy == 1, "what the node knows nothing of is gone: \(String(describing: tip))")
        #expect(two.list()?.members == [MemberEntry(user: "alice", devices: 1)])
    }

    private static func names(_ fixture: any MemberStoreFixture) {
        let (one, two) = MemberNode.pair(fixture, "a:b:{c}:1:2")
        let users = ["a:b", "0", "{x}", "böb", "1:1:x", String(repeating: "n", count: 255)].map { Name(validating: $0)! }
        one.change(Dictionary(uniqueKeysWithValues: users.map { ($0, 1) }))
        #expect(fixture.run { Set(two.news.first?.users.map(\.user) ?? []) == Set(users) })
        #expect(Set(one.list()?.members.map(\.user) ?? []) == Set(users))
        #expect(one.refresh()?.isKnown == true)
    }

    private static func expectChained(_ news: [MembersNews]) {
        for (before, after) in zip(news, news.dropFirst()) { #expect(after.sequence == before.sequence + 1) }
    }
}
