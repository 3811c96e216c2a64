import HubBase
import HubCheck
import HubWire
import Testing

@Suite("The delivery checker: what it lets pass and what it finds")
struct DeliveryCheckerTests {
    let room: Name = "room:1"

    func message(_ number: Int) -> DeliveryChecker.Message {
        DeliveryChecker.Message(user: "alice", id: Name(trusted: Array("m\(number)".utf8)))
    }

    /// Offset `n` of epoch `e` under tag `t`.
    func place(_ offset: UInt64, epoch: UInt64 = 1, tag: UInt64? = nil) -> Position {
        if offset == 0 { return .start }
        return Position(epoch: Mark(chance: epoch), offset: offset, tag: Mark(chance: 1000 + (tag ?? offset)))
    }

    /// Alice (client 0) publishes `offsets`, each acknowledged.
    func publish(_ offsets: ClosedRange<Int>, _ checker: inout DeliveryChecker) {
        for offset in offsets {
            checker.sent(message(offset), to: room, by: 0)
            checker.acknowledged(message(offset), in: room, at: place(UInt64(offset)), by: 0)
        }
    }

    func subscribe(
        _ checker: inout DeliveryChecker, at offset: UInt64, from: UInt64? = nil, recovered: Bool? = nil, page: [Int] = [],
        hasMore: Bool = false, by client: Int = 1
    ) {
        checker.subscribed(
            room, at: place(offset), recovered: recovered, page: page.map { (message($0), place(UInt64($0))) }, hasMore: hasMore,
            from: from.map { place($0) }, by: client)
    }

    func receive(_ offsets: [Int], _ checker: inout DeliveryChecker, by client: Int = 1) {
        for offset in offsets { checker.received(message(offset), in: room, at: place(UInt64(offset)), by: client) }
    }

    @Test(
        "live deliveries against what was owed to a subscriber from offset 0 to 4",
        arguments: [
            ([1, 2, 3, 4], [:]),
            ([1, 2, 3], [.lost: 1]),
            ([], [.lost: 1]),
            ([1, 3, 4], [.gap: 1]),
            ([1, 2, 2, 3, 4], [.twice: 1]),
            ([1, 2, 4, 3], [.outOfOrder: 1]),
            ([4, 3, 2, 1], [.outOfOrder: 3]),
            ([2, 1, 3, 4], [.outOfOrder: 1]),
            ([2, 3, 4], [.gap: 1]),
            ([1, 4, 2], [.outOfOrder: 1, .gap: 1]),
            ([1, 3, 2, 2, 4], [.outOfOrder: 1, .twice: 1]),
            ([1, 3, 2, 4, 2, 1], [.outOfOrder: 1, .twice: 2]),
        ] as [([Int], [CheckReport.Fault: UInt64])])
    func live(_ offsets: [Int], _ faults: [CheckReport.Fault: UInt64]) {
        var checker = DeliveryChecker()
        subscribe(&checker, at: 0)
        publish(1...4, &checker)
        receive(offsets, &checker)
        #expect(checker.finish().counts == faults)
    }

    /// `m1` begins an epoch, and is lost with it; `m2` begins the next one, and reaches who stood at the channel's beginning.
    func beginsTwice(mayTakeBack: Bool = false, joinsLate: Bool = false, isTold: Bool = false) -> [CheckReport.Fault: UInt64] {
        var checker = DeliveryChecker(mayTakeBack: mayTakeBack)
        func join() {
            checker.subscribed(room, at: .origin(Mark(chance: 9)), recovered: nil, page: [], hasMore: false, from: nil, by: 1)
        }
        if !joinsLate { join() }
        checker.sent(message(1), to: room, by: 0)
        checker.acknowledged(message(1), in: room, at: place(1), by: 0)
        if joinsLate { join() }
        if isTold { checker.announced(room, at: .origin(Mark(chance: 10)), by: 1) }
        checker.sent(message(2), to: room, by: 0)
        checker.acknowledged(message(2), in: room, at: place(1, epoch: 2, tag: 2), by: 0)
        checker.received(message(2), in: room, at: place(1, epoch: 2, tag: 2), by: 1)
        return checker.finish().counts
    }

    @Test("a channel that began, was lost and began again is found unless those at its beginning were told")
    func lostBeginning() {
        #expect(beginsTwice() == [.lost: 1])
        #expect(beginsTwice(isTold: true) == [:])
        #expect(beginsTwice(joinsLate: true) == [:])
        #expect(beginsTwice(mayTakeBack: true) == [:])
    }

    @Test("a beginning that was lost isn't forgotten by coming back from there")
    func lostBeginningAndBack() {
        for recovered in [true, false] {
            var checker = DeliveryChecker()
            let origin = Position.origin(Mark(chance: 9))
            checker.subscribed(room, at: origin, recovered: nil, page: [], hasMore: false, from: nil, by: 1)
            checker.sent(message(1), to: room, by: 0)
            checker.acknowledged(message(1), in: room, at: place(1), by: 0)
            checker.ended(1)
            checker.subscribed(room, at: origin, recovered: recovered, page: [], hasMore: false, from: origin, by: 1)
            #expect(checker.finish().counts == (recovered ? [.lost: 1] : [:]))
        }
    }

    @Test("two readers who come to a channel's first message from two beginnings: one of them wasn't told")
    func twoBeginnings() {
        var checker = DeliveryChecker()
        for client in [1, 2] {
            checker.subscribed(
                room, at: .origin(Mark(chance: UInt64(client))), recovered: nil, page: [], hasMore: false, from: nil, by: client)
        }
        publish(1...1, &checker)
        for client in [1, 2] { receive([1], &checker, by: client) }
        #expect(checker.finish().counts == [.gap: 1])
    }

    @Test("who unsubscribed or went away is owed nothing")
    func gone() {
        var checker = DeliveryChecker()
        subscribe(&checker, at: 0)
        subscribe(&checker, at: 0, by: 2)
        publish(1...2, &checker)
        receive([1], &checker)
        receive([1], &checker, by: 2)
        checker.ended(1)
        checker.unsubscribed(room, by: 2)
        #expect(checker.finish().counts.isEmpty)
    }

    @Test(
        "coming back from offset 1 to a channel at 4, told that it recovered",
        arguments: [
            ([2, 3, 4], []),
            ([2, 3], [.falseRecovery]),
            ([3, 4], [.gap]),
            ([], [.falseRecovery]),
            ([1, 2, 3, 4], [.twice]),
            ([2, 4, 3], [.outOfOrder]),
        ] as [([Int], [CheckReport.Fault])])
    func recovered(_ page: [Int], _ faults: [CheckReport.Fault]) {
        var checker = DeliveryChecker()
        subscribe(&checker, at: 0)
        publish(1...4, &checker)
        receive([1], &checker)
        checker.ended(1)
        subscribe(&checker, at: 4, from: 1, recovered: true, page: page)
        #expect(Set(checker.finish().counts.keys) == Set(faults))
    }

    @Test("told that it couldn't be recovered, a client is owed what comes after, and nothing before")
    func unrecovered() {
        var checker = DeliveryChecker()
        subscribe(&checker, at: 0)
        publish(1...4, &checker)
        checker.ended(1)
        subscribe(&checker, at: 4, from: 0, recovered: false, page: [3, 4])
        publish(5...5, &checker)
        #expect(checker.finish().counts == [.lost: 1])
    }

    @Test(
        "whoever was brought past a place without what was acknowledged there must be told that it was taken back, unless nobody could know",
        arguments: [
            ([], false, false, [.falseRecovery: 1]), ([], true, false, [:]), ([], false, true, [:]), ([2], false, false, [:]),
        ] as [([Int], Bool, Bool, [CheckReport.Fault: UInt64])])
    func takenBack(_ heard: [Int], isTold: Bool, isExcused: Bool, _ faults: [CheckReport.Fault: UInt64]) {
        for tellsAll in [true, false] {
            var checker = DeliveryChecker(tellsAll: tellsAll)
            subscribe(&checker, at: 0)
            publish(1...2, &checker)
            receive([1] + heard, &checker)
            // It goes away at 1, and another message takes the place of 2, which it had heard or not.
            checker.ended(1)
            if isExcused { checker.excuse(message(2), in: room) }
            checker.sent(message(3), to: room, by: 0)
            checker.acknowledged(message(3), in: room, at: place(2, tag: 9), by: 0)
            let at: UInt64 = heard.isEmpty ? 1 : 2
            if isTold || at == 2 {
                checker.subscribed(room, at: place(2, tag: 9), recovered: false, page: [], hasMore: false, from: place(at), by: 1)
            } else {
                checker.subscribed(
                    room, at: place(2, tag: 9), recovered: true, page: [(message(3), place(2, tag: 9))], hasMore: false, from: place(at),
                    by: 1)
            }
            #expect(checker.finish().counts == (tellsAll ? faults : [:]))
        }
    }

    @Test("pages: the rest comes by history, live ones only after its end, and the end must be reached")
    func pages() {
        var checker = DeliveryChecker()
        publish(1...6, &checker)
        subscribe(&checker, at: 6, from: 0, recovered: true, page: [1, 2], hasMore: true)
        checker.continued(room, page: [(message(3), place(3)), (message(4), place(4))], at: place(4), hasMore: true, by: 1)
        var early = checker
        early.received(message(7), in: room, at: place(7), by: 1)
        #expect(early.finish().count(.gap) > 0)
        var stuck = checker
        #expect(stuck.finish().counts == [.lost: 1])
        checker.continued(room, page: [(message(5), place(5)), (message(6), place(6))], at: place(6), hasMore: false, by: 1)
        publish(7...7, &checker)
        receive([7], &checker)
        #expect(checker.finish().counts.isEmpty)
    }

    @Test("a jump that was announced is none; another epoch without a word is one")
    func announced() {
        var checker = DeliveryChecker()
        subscribe(&checker, at: 0)
        publish(1...3, &checker)
        receive([1], &checker)
        checker.announced(room, at: place(2), by: 1)
        receive([3], &checker)
        let next = DeliveryChecker.Message(user: "alice", id: "n1")
        checker.sent(next, to: room, by: 0)
        checker.acknowledged(next, in: room, at: place(1, epoch: 2, tag: 50), by: 0)
        var silent = checker
        silent.received(next, in: room, at: place(1, epoch: 2, tag: 50), by: 1)
        #expect(silent.finish().counts == [.gap: 1])
        var deaf = checker
        #expect(deaf.finish().counts == [.lost: 1], "it was never told of the new epoch")
        checker.announced(room, at: Position(epoch: Mark(chance: 2), offset: 0, tag: .none), by: 1)
        checker.received(next, in: room, at: place(1, epoch: 2, tag: 50), by: 1)
        #expect(checker.finish().counts.isEmpty)
    }

    @Test("one message id at two places that one reader got is twice; one place with two messages contradicts")
    func identity() {
        var checker = DeliveryChecker()
        subscribe(&checker, at: 0)
        publish(1...1, &checker)
        receive([1], &checker)
        checker.received(message(1), in: room, at: place(2), by: 1)
        #expect(checker.finish().count(.twice) == 1)

        var two = DeliveryChecker()
        subscribe(&two, at: 0)
        publish(1...1, &two)
        two.received(message(9), in: room, at: place(1), by: 1)
        #expect(two.finish().counts == [.contradiction: 1])
    }

    @Test("a retry that is acknowledged elsewhere contradicts, unless the channel announced a gap")
    func retried() {
        var checker = DeliveryChecker()
        subscribe(&checker, at: 0)
        publish(1...1, &checker)
        receive([1], &checker)
        checker.sent(message(1), to: room, by: 0)
        var told = checker
        checker.acknowledged(message(1), in: room, at: place(1), by: 0)
        #expect(checker.finish().counts.isEmpty)
        told.announced(room, at: Position(epoch: Mark(chance: 2), offset: 0, tag: .none), by: 1)
        var untold = checker
        untold.acknowledged(message(1), in: room, at: place(1, epoch: 2, tag: 9), by: 0)
        #expect(untold.finish().count(.contradiction) == 1)
        told.acknowledged(message(1), in: room, at: place(1, epoch: 2, tag: 9), by: 0)
        told.received(message(1), in: room, at: place(1, epoch: 2, tag: 9), by: 1)
        #expect(told.finish().counts.isEmpty)
    }

    @Test("two readers who reached one publication from different ones before it: one of them should have been told")
    func forked() {
        var checker = DeliveryChecker(tellsAll: false)
        subscribe(&checker, at: 0)
        subscribe(&checker, at: 0, by: 2)
        publish(1...1, &checker)
        receive([1], &checker)
        // A failover took the first one back; only the second reader saw what stands there now.
        let other = DeliveryChecker.Message(user: "alice", id: "other")
        checker.sent(other, to: room, by: 0)
        checker.received(other, in: room, at: place(1, tag: 77), by: 2)
        var told = checker
        receive([2], &checker)
        receive([2], &checker, by: 2)
        #expect(checker.finish().count(.gap) == 1)
        #expect(checker.report.takenBack == 1)
        told.announced(room, at: place(1, tag: 77), by: 1)
        receive([2], &told)
        receive([2], &told, by: 2)
        #expect(told.finish().counts.isEmpty)
    }

    @Test("a sender that stays is told when what it was acknowledged was taken back, at the latest in the end")
    func takenBackFromItsSender() {
        var checker = DeliveryChecker()
        subscribe(&checker, at: 0, by: 0)
        publish(1...1, &checker)
        let other = DeliveryChecker.Message(user: "bob", id: "other")
        checker.sent(other, to: room, by: 3)
        checker.received(other, in: room, at: place(1, tag: 77), by: 0)
        checker.acknowledged(other, in: room, at: place(1, tag: 77), by: 3)
        var told = checker
        var gone = checker
        #expect(checker.finish().counts == [.lost: 1])
        told.announced(room, at: place(1, tag: 77), by: 0)
        #expect(told.finish().counts.isEmpty)
        gone.ended(0)
        #expect(gone.finish().counts.isEmpty)
    }

    @Test("what one client sent without waiting keeps its order; a retry may stand later")
    func order() {
        var checker = DeliveryChecker()
        for number in 1...3 { checker.sent(message(number), to: room, by: 0) }
        checker.sent(message(1), to: room, by: 0)
        for (number, offset) in [(2, 1), (3, 2), (1, 3)] {
            checker.acknowledged(message(number), in: room, at: place(UInt64(offset)), by: 0)
        }
        #expect(checker.finish().counts.isEmpty)

        var swapped = DeliveryChecker()
        for number in 1...2 { swapped.sent(message(number), to: room, by: 0) }
        for (number, offset) in [(2, 1), (1, 2)] { swapped.acknowledged(message(number), in: room, at: place(UInt64(offset)), by: 0) }
        #expect(swapped.finish().counts == [.outOfOrder: 1])
    }

    @Test("what hasn't come late by the end of a subscription is a gap, once, and what comes late on the next one came before")
    func lateNeverCame() {
        for end in 0..<4 {
            var checker = DeliveryChecker()
            subscribe(&checker, at: 0)
            publish(1...4, &checker)
            receive([1, 4], &checker)
            switch end {
            case 0: checker.ended(1)
            case 1: checker.unsubscribed(room, by: 1)
            case 2: checker.announced(room, at: place(4), by: 1)
            default: subscribe(&checker, at: 4, from: 4, recovered: true)
            }
            #expect(checker.report.counts == [.gap: 1])
            if end > 1 {
                receive([2], &checker)
                #expect(checker.finish().counts == [.gap: 1, .twice: 1])
            }
        }
    }

    @Test("what comes late is judged like all else: it stands where it stands for others, and once")
    func lateContradicts() {
        var checker = DeliveryChecker()
        subscribe(&checker, at: 0)
        publish(1...3, &checker)
        receive([1, 3], &checker)
        var again = checker
        checker.received(message(9), in: room, at: place(2), by: 1)
        #expect(checker.finish().counts == [.outOfOrder: 1, .contradiction: 1])
        again.received(message(1), in: room, at: place(2), by: 1)
        #expect(again.finish().counts == [.outOfOrder: 1, .twice: 1, .contradiction: 1])
    }

    @Test("what was under way on a connection that ended may be overtaken on the next; what was acknowledged before may not")
    func orderOverConnections() {
        /// Sends 1 and, over the next connection, 2, which are placed the other way round.
        func placed(_ first: Int, _ second: Int, acknowledged: Bool, ends: Bool) -> [CheckReport.Fault: UInt64] {
            var checker = DeliveryChecker()
            subscribe(&checker, at: 0)
            checker.sent(message(1), to: room, by: 0)
            if acknowledged { checker.acknowledged(message(1), in: room, at: place(UInt64(first)), by: 0) }
            if ends { checker.ended(0) }
            checker.sent(message(2), to: room, by: 0)
            checker.acknowledged(message(2), in: room, at: place(UInt64(second)), by: 0)
            for offset in 1...2 {
                checker.received(message(offset == first ? 1 : 2), in: room, at: place(UInt64(offset)), by: 1)
            }
            // What stands behind the last ack may have been taken back.
            checker.sent(message(3), to: room, by: 5)
            checker.acknowledged(message(3), in: room, at: place(3), by: 5)
            receive([3], &checker)
            return checker.finish().counts
        }
        for acknowledged in [false, true] {
            for ends in [false, true] { #expect(placed(1, 2, acknowledged: acknowledged, ends: ends) == [:]) }
        }
        #expect(placed(2, 1, acknowledged: false, ends: false) == [.outOfOrder: 1], "one connection, one order")
        #expect(placed(2, 1, acknowledged: false, ends: true) == [:], "nobody said where it was")
        #expect(placed(2, 1, acknowledged: true, ends: true) == [.outOfOrder: 1], "it had its place")
    }

    @Test("an ack of what was never sent to that channel contradicts")
    func acknowledgedElsewhere() {
        var checker = DeliveryChecker()
        subscribe(&checker, at: 0)
        publish(1...1, &checker)
        receive([1], &checker)
        checker.acknowledged(message(1), in: "room:2", at: place(1), by: 0)
        #expect(checker.finish().counts == [.contradiction: 1])
    }

    @Test("what comes without a subscription is unasked, in whatever channel")
    func unasked() {
        var checker = DeliveryChecker()
        publish(1...1, &checker)
        receive([1], &checker)
        checker.unasked("room:2", "got typing", by: 1)
        #expect(checker.finish().counts == [.unasked: 2])
    }

    @Test("a run in which nothing was acknowledged or delivered isn't clean: it proves nothing")
    func empty() {
        var checker = DeliveryChecker()
        subscribe(&checker, at: 0)
        let report = checker.finish()
        #expect(!report.isClean)
        #expect(report.text().contains("nothing is proved"))
    }
}
