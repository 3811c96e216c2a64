import HubSwarm
import Testing

@Suite("The checker: what a bot got")
struct ReceiverTests {
    @Test(
        "deliveries against what was owed",
        arguments: [
            // Subscribed at 10, acknowledged up to 13.
            ([11, 12, 13], .init(delivered: 3, expected: 3)),
            ([11, 12], .init(delivered: 2, expected: 3, lost: 1)),
            ([11, 13], .init(delivered: 2, expected: 3, lost: 1)),
            ([12, 13], .init(delivered: 2, expected: 3, lost: 1)),
            ([], .init(delivered: 0, expected: 3, lost: 3)),
            ([11, 12, 12, 13], .init(delivered: 3, expected: 3, duplicated: 1)),
            ([11, 13, 12], .init(delivered: 3, expected: 3, outOfOrder: 1)),
            ([13, 12, 11], .init(delivered: 3, expected: 3, outOfOrder: 2)),
            ([11, 13, 12, 12], .init(delivered: 3, expected: 3, duplicated: 1, outOfOrder: 1)),
            // From before the subscription.
            ([10, 11, 12, 13], .init(delivered: 3, expected: 3, duplicated: 1)),
            // Stored, but not acknowledged to its sender any more.
            ([11, 12, 13, 14], .init(delivered: 4, expected: 4)),
        ] as [([UInt64], Receiver.Tally)])
    func tally(_ offsets: [UInt64], _ tally: Receiver.Tally) {
        var receiver = Receiver()
        receiver.subscribed(at: 10)
        for offset in offsets {
            let isOwed = receiver.received(offset)
            #expect(isOwed)
        }
        #expect(receiver.settled(acknowledged: 13) == tally)
        #expect(receiver.hasAll(upTo: 13) == (tally.lost == 0))
    }

    @Test("a connection's end closes the account; the next subscription opens a new one")
    func reconnect() {
        var receiver = Receiver()
        receiver.subscribed(at: 10)
        _ = receiver.received(11)
        receiver.ended()
        #expect(receiver.hasAll(upTo: 20))
        let isOwed = receiver.received(12)
        #expect(!isOwed)
        #expect(receiver.settled(acknowledged: 20) == .init(delivered: 1, expected: 1))
        receiver.subscribed(at: 18)
        _ = receiver.received(19)
        #expect(receiver.settled(acknowledged: 20) == .init(delivered: 2, expected: 3, lost: 1))
    }

    @Test("a jump over the whole range of offsets is counted, not walked")
    func jump() {
        var receiver = Receiver()
        receiver.subscribed(at: 0)
        _ = receiver.received(1 << 52)
        #expect(receiver.settled(acknowledged: 0).lost == 1 << 52 - 1)
    }
}

@Suite("The checker: what a room holds")
struct RoomJournalTests {
    private typealias Message = RoomJournal.Message

    @Test("the ack and every receiver must name the same message at an offset, whoever speaks first")
    func contradiction() {
        var journal = RoomJournal()
        var last: UInt32 = 0
        #expect(journal.acknowledge(Message(bot: 1, sequence: 1), at: 5) == .consistent)
        #expect(journal.deliver(Message(bot: 1, sequence: 1), at: 5, lastSequence: &last) == .consistent)
        #expect(journal.deliver(Message(bot: 2, sequence: 1), at: 5, lastSequence: &last) == .contradicts)
        #expect(journal.acknowledge(Message(bot: 3, sequence: 1), at: 5) == .contradicts)
        #expect(journal.acknowledged == 5)
    }

    @Test("a message at two offsets was stored twice; one behind a later one of its sender is out of order")
    func senders() {
        var journal = RoomJournal()
        var one: UInt32 = 0
        var two: UInt32 = 0
        #expect(journal.deliver(Message(bot: 1, sequence: 1), at: 1, lastSequence: &one) == .consistent)
        #expect(journal.deliver(Message(bot: 2, sequence: 4), at: 2, lastSequence: &two) == .consistent)
        #expect(journal.deliver(Message(bot: 1, sequence: 1), at: 3, lastSequence: &one) == .storedTwice)
        // A number may be missing: the hub refused it.
        #expect(journal.deliver(Message(bot: 1, sequence: 3), at: 4, lastSequence: &one) == .consistent)
        #expect(journal.deliver(Message(bot: 1, sequence: 2), at: 5, lastSequence: &one) == .reordered)
        // A second receiver of the same is no news.
        #expect(journal.deliver(Message(bot: 1, sequence: 2), at: 5, lastSequence: &one) == .consistent)
    }

    @Test("what is a lap of 4,096 ago is forgotten, and doesn't contradict")
    func lap() {
        var journal = RoomJournal()
        var last: UInt32 = 0
        _ = journal.deliver(Message(bot: 1, sequence: 1), at: 5, lastSequence: &last)
        #expect(journal.deliver(Message(bot: 1, sequence: 2), at: 5 + 4096, lastSequence: &last) == .consistent)
        #expect(journal.deliver(Message(bot: 1, sequence: 1), at: 5, lastSequence: &last) == .consistent)
        #expect(journal.deliver(Message(bot: 1, sequence: 3), at: 5 + 4096, lastSequence: &last) == .contradicts)
    }

    @Test("a room that began anew knows nothing of before")
    func restart() {
        var journal = RoomJournal()
        _ = journal.acknowledge(Message(bot: 1, sequence: 1), at: 5)
        journal.restart()
        #expect(journal.acknowledged == 0)
        #expect(journal.acknowledge(Message(bot: 2, sequence: 1), at: 5) == .consistent)
    }
}
