import HubBase
import HubCore
import HubRedis
import HubWire
import Testing

private let generation = Mark(chance: 9)

@Suite struct SubscriptionSetTests {
    static let now = Instant(nanoseconds: 1_000_000_000)
    static let later = now + .seconds(31)

    static func name(_ number: Int) -> [UInt8] { [UInt8]("hub:{1}:c:\(number)".utf8) }

    static func want(_ set: inout SubscriptionSet, _ number: Int = 0) -> Int {
        set.want(name(number), .channel(Name(trusted: [UInt8]("\(number)".utf8))))
    }

    /// Confirms and reads the position of `index`.
    static func goLive(_ set: inout SubscriptionSet, _ index: Int) {
        set.subscribed(index)
        _ = set.takeRead()
        _ = set.read(index, set[index].generation, .origin(generation), pings: 0)
    }

    @Test("a channel is ready when its subscription is confirmed and its position is read, in this order")
    func ready() {
        var set = SubscriptionSet(seed: 1)
        let index = Self.want(&set)
        #expect(!set.isReady)
        #expect(set.takeSubscribes() == [index])
        #expect(set.takeSubscribes() == [])
        #expect(set.takeRead() == nil)
        set.subscribed(index)
        #expect(!set.isReady)
        #expect(set.takeRead() == index)
        let outcome = set.read(index, set[index].generation, .origin(generation), pings: 0)
        #expect(outcome != nil && outcome?.missed == nil)
        #expect(set.isReady)
    }

    @Test("an idle channel is compared with its tip once a period, whenever its last message came", arguments: [0, 1, 7, 14, 16, 29])
    func tipChecks(_ second: Int) {
        var set = SubscriptionSet(seed: 1)
        let index = Self.want(&set)
        _ = set.takeSubscribes()
        Self.goLive(&set, index)
        var at = Self.now
        var checks: [Int] = []
        for tick in 0..<1800 {
            at = Self.now + .milliseconds(UInt64(tick) * 100)
            if tick == second * 10 {
                _ = set.judge(index, Position(epoch: Mark(chance: 1), offset: 1, tag: Mark(chance: 2)), previous: .none, pongs: 0)
            }
            if !set.takeTipChecks(at: at).isEmpty { checks.append(tick) }
        }
        let later = checks.filter { $0 > second * 10 }
        // A period, and a tick or two of the walk.
        #expect(later.first.map { $0 - second * 10 <= 302 } == true)
        #expect(zip(later, later.dropFirst()).allSatisfy { $1 - $0 <= 302 && $1 - $0 >= 298 })
    }

    @Test("a feed too: what its tip has and nobody heard was missed, and what was heard since is no news")
    func feedTips() {
        var set = SubscriptionSet(seed: 1)
        let index = set.want([UInt8]("hub:{1}:pf".utf8), .feed(1))
        _ = set.takeSubscribes()
        set.subscribed(index)
        #expect(set.takeRead() == index)
        func position(_ offset: UInt64) -> Position { Position(epoch: Mark(chance: 1), offset: offset, tag: Mark(chance: offset)) }
        let generation = set[index].generation
        #expect(set.read(index, generation, position(4), pings: 0)?.missed == nil)
        var due: [Int] = []
        for tick in 0..<400 where due.isEmpty { due = set.takeTipChecks(at: Self.now + .milliseconds(UInt64(tick) * 100)) }
        #expect(due == [index])
        #expect(set.read(index, generation, position(4), pings: 1) == nil)
        #expect(set.read(index, generation, position(3), pings: 1) == nil)
        #expect(set.read(index, generation, position(6), pings: 1)?.missed == .linkLost)
        // What comes late after all is known.
        #expect(set.judgeFeed(index, position(5), previous: Mark(chance: 4), pongs: 1) == .drop)
        #expect(set.judgeFeed(index, position(6), previous: Mark(chance: 5), pongs: 1) == .drop)
        #expect(set.judgeFeed(index, position(7), previous: Mark(chance: 6), pongs: 1) == .deliver)
        // A message came since the tip was asked for.
        #expect(set.read(index, generation, position(9), pings: 1) == nil)
    }

    @Test("a SUBSCRIBE names at most 512 channels, redis-design §5")
    func batches() {
        var set = SubscriptionSet(seed: 1)
        for number in 0..<1_100 { _ = Self.want(&set, number) }
        #expect([set.takeSubscribes().count, set.takeSubscribes().count, set.takeSubscribes().count] == [512, 512, 76])
        #expect(set.unready == 1_100)
    }

    @Test("a channel stays subscribed for 30 s after its last subscriber, and is live at once when one comes back")
    func lingers() {
        var set = SubscriptionSet(seed: 1)
        let index = Self.want(&set)
        _ = set.takeSubscribes()
        Self.goLive(&set, index)
        set.unwant(index, at: Self.now)
        #expect(set.takeUnsubscribes(at: Self.now + .seconds(29)) == [])
        #expect(Self.want(&set) == index)
        #expect(set[index].state == .live)
        #expect(set.takeUnsubscribes(at: Self.later) == [])
        set.unwant(index, at: Self.later)
        #expect(set.takeUnsubscribes(at: Self.later + .seconds(29)) == [])
        #expect(set.takeUnsubscribes(at: Self.later + .seconds(30)) == [index])
        set.unsubscribed(index)
        #expect(set.count == 0)
    }

    @Test("a channel that's wanted again while UNSUBSCRIBE is under way is subscribed after its reply, and starts anew")
    func crossing() {
        var set = SubscriptionSet(seed: 1)
        let index = Self.want(&set)
        _ = set.takeSubscribes()
        Self.goLive(&set, index)
        set.unwant(index, at: Self.now)
        #expect(set.takeUnsubscribes(at: Self.later) == [index])
        #expect(Self.want(&set) == index)
        // Not before the reply: SUBSCRIBE and UNSUBSCRIBE never cross.
        #expect(set.takeSubscribes() == [])
        #expect(!set.isReady)
        #expect(set[index].chain.position == nil)
        set.unsubscribed(index)
        #expect(set.takeSubscribes() == [index])
        Self.goLive(&set, index)
        #expect(set.isReady)
    }

    @Test("a channel that's no longer wanted while SUBSCRIBE is under way is unsubscribed after its reply, in due time")
    func crossingBack() {
        var set = SubscriptionSet(seed: 1)
        let index = Self.want(&set)
        _ = set.takeSubscribes()
        set.unwant(index, at: Self.now)
        #expect(set.takeUnsubscribes(at: Self.later) == [])
        set.subscribed(index)
        #expect(set.takeUnsubscribes(at: Self.later) == [index])
        set.unsubscribed(index)
        #expect(set.count == 0)
    }

    @Test("one that was never sent is simply forgotten")
    func neverSent() {
        var set = SubscriptionSet(seed: 1)
        let index = Self.want(&set)
        set.unwant(index, at: Self.now)
        #expect(set.takeSubscribes() == [])
        #expect(set.takeUnsubscribes(at: Self.later) == [])
        #expect(set.count == 0 && set.isReady)
        // Its index means something else now.
        let next = Self.want(&set, 1)
        #expect(next == index)
        #expect(set.takeSubscribes() == [next])
    }

    @Test("after a lost link all that's wanted is subscribed anew, the rest is forgotten, answers to the old link count no more")
    func linkLost() {
        var set = SubscriptionSet(seed: 1)
        let kept = Self.want(&set, 0)
        let dropped = Self.want(&set, 1)
        let half = Self.want(&set, 2)
        _ = set.takeSubscribes()
        Self.goLive(&set, kept)
        Self.goLive(&set, dropped)
        set.subscribed(half)
        #expect(set.takeRead() == half)
        let old = set[half].generation
        set.unwant(dropped, at: Self.now)
        set.linkLost()
        #expect(set.count == 2 && set.unready == 2)
        #expect(set.read(half, old, .origin(generation), pings: 0) == nil)
        #expect(set.takeSubscribes().sorted() == [kept, half].sorted())
        Self.goLive(&set, kept)
        Self.goLive(&set, half)
        #expect(set.isReady)
        // Where the channel stood is known from before: that's what tells whether anything was missed.
        #expect(set[kept].chain.position == .origin(generation))
    }

    @Test("a subscription that Redis ends by itself is made anew")
    func unasked() {
        var set = SubscriptionSet(seed: 1)
        let index = Self.want(&set)
        _ = set.takeSubscribes()
        Self.goLive(&set, index)
        set.unsubscribed(index)
        #expect(!set.isReady)
        #expect(set.takeSubscribes() == [index])
    }

    @Test("a message makes the channel live: it says itself where it is")
    func messageFirst() {
        var set = SubscriptionSet(seed: 1)
        let index = Self.want(&set)
        _ = set.takeSubscribes()
        set.subscribed(index)
        #expect(set.takeRead() == index)
        let position = ChainTests.at(5, "taaaaaa5")
        #expect(set.judge(index, position, previous: ChainTests.mark("taaaaaa4"), pongs: 0) == .deliver)
        #expect(set.isReady)
        // The read that was under way is late.
        #expect(set.read(index, set[index].generation, ChainTests.at(4, "taaaaaa4"), pings: 0) == nil)
        #expect(set[index].chain.position == position)
    }

    @Test("who waits for a subscription is given up at the deadline, and the channel with them")
    func overdue() {
        var set = SubscriptionSet(seed: 1)
        let index = Self.want(&set)
        let tag = RequestTag(high: 1, low: 2)
        set.wait(index, SubscriptionSet.Waiter(tag: tag, deadline: Self.now + .seconds(3)))
        #expect(set.takeOverdue(at: Self.now + .seconds(2)).isEmpty)
        #expect(set.takeOverdue(at: Self.now + .seconds(3)).map(\.1) == [tag])
        #expect(set.takeOverdue(at: Self.now + .seconds(3)).isEmpty)
        #expect(set.takeUnsubscribes(at: Self.now + .seconds(34)) == [])
        #expect(set.count == 0)
    }

    @Test("who waits longest is given up first, and a place that's another channel's by then isn't taken for what it was")
    func overdueInOrder() {
        var set = SubscriptionSet(seed: 1)
        func wait(_ name: String, _ low: UInt64, until seconds: UInt64) -> Int {
            let index = set.want(Array(name.utf8), .channel(Name(validating: name)!))
            set.wait(index, SubscriptionSet.Waiter(tag: RequestTag(high: 1, low: low), deadline: Self.now + .seconds(seconds)))
            return index
        }
        let first = wait("a", 1, until: 3)
        _ = wait("b", 2, until: 4)
        #expect(set.takeWaiters(first).count == 1)
        set.unwant(first, at: Self.now)
        #expect(set.takeUnsubscribes(at: Self.now + .seconds(31)) == [])
        let again = wait("c", 3, until: 40)
        #expect(again == first)
        #expect(set.takeOverdue(at: Self.now + .seconds(31)).map(\.1.low) == [2])
        #expect(set.takeOverdue(at: Self.now + .seconds(40)).map(\.1.low) == [3])
    }

    /// A model of Redis's side of one link: commands in order, replies in order, later.
    @Test("whatever the order of wishes, replies and losses, in the end Redis has exactly what's wanted, B21", arguments: 1...20)
    func converges(seed: UInt64) {
        var chance = Chance(seed: seed)
        var set = SubscriptionSet(seed: seed)
        var wanted = Set<Int>()
        var redis = Set<[UInt8]>()
        var replies: [(isSubscribe: Bool, name: [UInt8])] = []
        var now = Self.now

        func exchange() {
            for index in set.takeUnsubscribes(at: now) {
                redis.remove(set.name(index))
                replies.append((false, set.name(index)))
            }
            for index in set.takeSubscribes() {
                #expect(redis.insert(set.name(index)).inserted, "one command at a time")
                replies.append((true, set.name(index)))
            }
        }
        func reply() {
            guard !replies.isEmpty else { return }
            let next = replies.removeFirst()
            guard let index = set.find(next.name) else {
                Issue.record("a reply for a channel that was forgotten")
                return
            }
            if next.isSubscribe { set.subscribed(index) } else { set.unsubscribed(index) }
        }
        for _ in 0..<3_000 {
            let number = Int.random(in: 0..<8, using: &chance)
            switch Int.random(in: 0..<100, using: &chance) {
            case 0..<30:
                _ = Self.want(&set, number)
                wanted.insert(number)
            case 30..<60:
                if wanted.remove(number) != nil, let index = set.find(Self.name(number)) { set.unwant(index, at: now) }
            case 60..<75: exchange()
            case 75..<90: reply()
            case 90..<93:
                if let index = set.takeRead() { _ = set.read(index, set[index].generation, .origin(generation), pings: 0) }
            case 93..<94:
                redis = []
                replies = []
                set.linkLost()
            default: now = now + .seconds(UInt64.random(in: 0..<20, using: &chance))
            }
        }
        now = now + .seconds(100)
        for _ in 0..<10 {
            exchange()
            while !replies.isEmpty { reply() }
            while let index = set.takeRead() { _ = set.read(index, set[index].generation, .origin(generation), pings: 0) }
        }
        #expect(redis == Set(wanted.map { Self.name($0) }))
        #expect(set.count == wanted.count)
        #expect(set.isReady)
    }
}

/// What a cluster needs: subscriptions that go with their lanes (redis-design §5).
@Suite struct SubscriptionLaneTests {
    /// Channels of two lanes, subscribed and live.
    static func two() -> (set: SubscriptionSet, here: Int, there: Int) {
        var set = SubscriptionSet(seed: 1)
        let here = set.want([UInt8]("a".utf8), .feed(3)), there = set.want([UInt8]("b".utf8), .feed(7))
        _ = set.takeSubscribes()
        for index in [here, there] { SubscriptionSetTests.goLive(&set, index) }
        return (set, here, there)
    }

    @Test("a link is given what is of its lanes, a sharded one of one lane at a time")
    func ofLanes() {
        var set = SubscriptionSet(seed: 1)
        let indexes = (0..<6).map { set.want([UInt8]("\($0)".utf8), .feed($0 % 3)) }
        var lanes = LaneSet(0)
        lanes.insert(2)
        #expect(set.takeSubscribes(in: LaneSet(9)) == [])
        #expect(set.takeSubscribes(in: lanes, ofOneLane: true) == [indexes[0], indexes[3]])
        #expect(set.takeSubscribes(in: lanes, ofOneLane: true) == [indexes[2], indexes[5]])
        #expect(set.takeSubscribes(in: lanes, ofOneLane: true) == [])
        #expect(set.takeSubscribes() == [indexes[1], indexes[4]])
    }

    @Test("a lane that is lost takes its own channels along and no others")
    func partlyLost() {
        var (set, here, there) = Self.two()
        #expect(set.isReady(in: LaneSet(3)) && set.isReady(in: LaneSet(7)))
        set.linkLost(in: LaneSet(3))
        #expect(!set.isReady(in: LaneSet(3)) && set.isReady(in: LaneSet(7)) && !set.isReady)
        #expect(set[there].state == .live)
        #expect(set.takeSubscribes() == [here])
        SubscriptionSetTests.goLive(&set, here)
        #expect(set.isReady)
        // Where it stood is remembered: a re-link compares.
        #expect(set[here].chain.position == .origin(generation))
    }

    @Test("a channel that nobody wants any more goes with its lane")
    func unwantedLost() {
        var (set, here, there) = Self.two()
        set.unwant(here, at: SubscriptionSetTests.now)
        set.unwant(there, at: SubscriptionSetTests.now)
        set.linkLost(in: LaneSet(3))
        #expect(set.count == 1)
        #expect(set.takeUnsubscribes(at: SubscriptionSetTests.later, in: LaneSet(3)) == [])
        #expect(set.takeUnsubscribes(at: SubscriptionSetTests.later, in: LaneSet(7), ofOneLane: true) == [there])
    }
}
