import HubBase
import HubCore
import HubWire
import Testing

private let origin = Position.origin(Mark("generati")!)

/// Joining at the seam, event by event: what the machine asks for and what it answers.
@Suite struct RecoveryMachineTests {
    fileprivate static let channel: Name = "room:1"
    fileprivate static let start = Instant(nanoseconds: 1)

    /// The machine with one channel's publications, which the test hands to it as the broker would.
    private final class Driven {
        let machine: RecoveryMachine
        var published: [PositionedPublication] = []
        var chance = Chance(seed: 7)
        let epoch = Mark("x7c2mq4a")!

        init(_ change: (inout RecoveryMachine.Limits) -> Void = { _ in }) {
            var limits = RecoveryMachine.Limits()
            change(&limits)
            machine = RecoveryMachine(limits: limits)
        }

        func make(_ bytes: Int = 10) -> PositionedPublication {
            let last = published.last?.position ?? origin
            let publication = Publication(
                messageClass: .chat, user: "alice", device: .empty, messageId: "m", time: 0, payload: [UInt8](repeating: 49, count: bytes))
            let next = PositionedPublication(
                position: Position(epoch: epoch, offset: last.offset + 1, tag: chance.mark()), previous: last.tag, publication: publication)
            published.append(next)
            return next
        }

        func deliver(_ count: Int, bytes: Int = 10) {
            for _ in 0..<count { hear(make(bytes)) }
        }

        func hear(_ next: PositionedPublication) {
            guard let (slot, _) = machine.carried(RecoveryMachineTests.channel) else { return }
            machine.delivered(DurableDelivery(channel: RecoveryMachineTests.channel, publication: next), at: slot)
        }

        func position(_ offset: Int) -> Position { offset == 0 ? origin : published[offset - 1].position }

        func join(_ position: Position?, tag: UInt64 = 1, limit: Int = 100, bytes: Int = 1 << 20, marks: Bool = false) {
            let item = JoinBatch.Item(channel: RecoveryMachineTests.channel, position: position, tag: tag)
            machine.join(
                JoinBatch(loop: 0, items: [item], user: "bob", wantsMarks: marks, limit: limit, bytes: bytes),
                at: RecoveryMachineTests.start)
        }

        /// The channel is carried from `offset` on; somebody else joined it.
        func live(at offset: Int = 0) {
            join(nil, tag: 999)
            guard case .subscribe(_, let serial)? = take().first else { return }
            machine.subscribed(RecoveryMachineTests.channel, .success(position(offset)), serial: serial)
            _ = take()
        }

        func take() -> [RecoveryMachine.Action] {
            defer { machine.actions = [] }
            return machine.actions
        }

        var answer: JoinAnswer? {
            for case .answer(.success(let answer), _, _) in take() { return answer }
            return nil
        }

        func page(after offset: Int, to end: Int, hasMore: Bool = false, tip: Int? = nil) -> HistoryPage {
            HistoryPage(
                publications: Array(published[offset..<end]), tip: position(tip ?? end), hasMore: hasMore, continuity: .whole)
        }
    }

    private static func offsets(_ answer: JoinAnswer?) -> [UInt64]? { answer?.publications.map(\.position.offset) }

    @Test("the first subscriber waits until the broker has confirmed, and joins where it says")
    func first() throws {
        let driven = Driven()
        _ = driven.make()
        driven.join(nil)
        guard case .subscribe(_, let serial)? = driven.take().first else { throw Missing() }
        driven.machine.subscribed(Self.channel, .success(driven.position(1)), serial: serial)
        #expect(driven.answer == JoinAnswer(position: driven.position(1)))
    }

    @Test("who stands where the channel stands has missed nothing, and no history is read")
    func nothingMissed() {
        let driven = Driven()
        driven.live()
        driven.deliver(3)
        driven.join(driven.position(3))
        #expect(driven.answer == JoinAnswer(position: driven.position(3), recovered: true))
    }

    @Test("what passed lately comes from memory")
    func memory() {
        let driven = Driven()
        driven.live()
        driven.deliver(5)
        driven.join(driven.position(2))
        let answer = driven.answer
        #expect(Self.offsets(answer) == [3, 4, 5])
        #expect(answer?.position == driven.position(5) && answer?.recovered == true && answer?.hasMore == false)
    }

    @Test("a channel that had nothing yet recovers from its start")
    func fromNothing() {
        let driven = Driven()
        driven.live()
        driven.deliver(2)
        driven.join(origin)
        #expect(Self.offsets(driven.answer) == [1, 2])
    }

    @Test("an origin of another generation, or of none, isn't covered by memory: history judges it", arguments: [nil, Mark(chance: 3)])
    func otherOrigin(_ generation: Mark?) {
        for count in [0, 2] {
            let driven = Driven()
            driven.live()
            driven.deliver(count)
            driven.join(generation.map { .origin($0) } ?? .start)
            guard case .read(_, _, let key)? = driven.take().first else { return #expect(Bool(false)) }
            let page = HistoryPage(publications: [], tip: driven.position(count), hasMore: false, continuity: .broken(.epochChanged))
            driven.machine.historyRead(.success(page), key: key)
            #expect(driven.answer == JoinAnswer(position: driven.position(count), recovered: false, reason: .epochChanged))
        }
    }

    @Test("a node that hasn't heard yet of a new generation says that nothing is proved")
    func newerOrigin() {
        let driven = Driven()
        driven.live()
        let newer = Position.origin(Mark(chance: 3))
        driven.join(newer)
        guard case .read(_, _, let key)? = driven.take().first else { return #expect(Bool(false)) }
        driven.machine.historyRead(
            .success(HistoryPage(publications: [], tip: newer, hasMore: false, continuity: .whole)), key: key)
        #expect(driven.answer == JoinAnswer(position: origin, recovered: false, reason: .epochChanged))
    }

    @Test("another tag at the same offset isn't covered by memory: history judges it")
    func otherTag() {
        let driven = Driven()
        driven.live()
        driven.deliver(3)
        driven.join(Position(epoch: driven.epoch, offset: 2, tag: Mark("qqqqqqqq")!))
        guard case .read(_, _, let key)? = driven.take().first else { return #expect(Bool(false)) }
        driven.machine.historyRead(
            .success(HistoryPage(publications: [], tip: driven.position(3), hasMore: false, continuity: .broken(.rolledBack))), key: key)
        #expect(driven.answer == JoinAnswer(position: driven.position(3), recovered: false, reason: .rolledBack))
    }

    @Test("what passes while history is read is bridged from memory, however much it is")
    func bridged() {
        let driven = Driven { $0.recent = 4 }
        driven.live()
        driven.deliver(20)
        driven.join(driven.position(5), limit: 1000)
        guard case .read(_, let query, let key)? = driven.take().first else { return #expect(Bool(false)) }
        #expect(query.after == .position(driven.position(5)))
        let page = driven.page(after: 5, to: 22 - 2)
        driven.deliver(300)
        driven.machine.historyRead(.success(page), key: key)
        #expect(Self.offsets(driven.answer) == (6...320).map { UInt64($0) })
    }

    @Test("what history has and the node hasn't heard yet isn't in the answer: it will come live")
    func ahead() {
        let driven = Driven { $0.recent = 2 }
        driven.live()
        driven.deliver(10)
        driven.join(driven.position(3))
        guard case .read(_, _, let key)? = driven.take().first else { return #expect(Bool(false)) }
        for _ in 0..<3 { _ = driven.make() }
        driven.machine.historyRead(.success(driven.page(after: 3, to: 13)), key: key)
        let answer = driven.answer
        #expect(Self.offsets(answer) == [4, 5, 6, 7, 8, 9, 10])
        #expect(answer?.position == driven.position(10) && answer?.hasMore == false)
    }

    @Test("a client from a node that's further on waits until this one has come as far, and gets nothing twice")
    func furtherOn() {
        let driven = Driven()
        driven.live()
        driven.deliver(4)
        let ahead = (0..<3).map { _ in driven.make() }
        driven.join(driven.position(6))
        guard case .read(_, _, let key)? = driven.take().first else { return #expect(Bool(false)) }
        driven.machine.historyRead(.success(driven.page(after: 6, to: 7)), key: key)
        #expect(driven.answer == nil)
        driven.hear(ahead[0])
        #expect(driven.answer == nil)
        driven.hear(ahead[1])
        #expect(driven.answer == JoinAnswer(position: driven.position(6), recovered: true))
    }

    @Test("a page that isn't the last one joins nobody, and says where to go on", arguments: [true, false])
    func more(cutHere: Bool) {
        let driven = Driven { $0.recent = cutHere ? 64 : 1 }
        driven.live()
        driven.deliver(10)
        driven.join(driven.position(1), limit: 3)
        if !cutHere, case .read(_, _, let key)? = driven.take().first {
            driven.machine.historyRead(.success(driven.page(after: 1, to: 4, hasMore: true, tip: 10)), key: key)
        }
        let answer = driven.answer
        #expect(Self.offsets(answer) == [2, 3, 4] && answer?.hasMore == true && answer?.position == driven.position(4))
    }

    @Test("the pages of one request share its bytes; a single one gets its first publication however large it is")
    func bytes() {
        let driven = Driven()
        driven.live()
        driven.deliver(5, bytes: 1_000)
        driven.join(origin, bytes: 500)
        #expect(Self.offsets(driven.answer) == [1])
        let items = (1...3).map { JoinBatch.Item(channel: Self.channel, position: origin, tag: $0) }
        driven.machine.join(JoinBatch(loop: 0, items: items, user: "bob", wantsMarks: false, limit: 100, bytes: 3_000), at: Self.start)
        var pages: [Int] = []
        for case .answer(.success(let answer), _, _) in driven.take() {
            pages.append(answer.publications.count)
            #expect(answer.hasMore && answer.recovered == true)
        }
        #expect(pages == [2, 0, 0])
    }

    @Test("many who come back from the same place cost one reading")
    func shared() {
        let driven = Driven { $0.recent = 1 }
        driven.live()
        driven.deliver(10)
        for tag in 1...50 { driven.join(driven.position(2), tag: UInt64(tag)) }
        let reads = driven.take()
        #expect(reads.count == 1)
        guard case .read(_, _, let key)? = reads.first else { return }
        driven.machine.historyRead(.success(driven.page(after: 2, to: 10)), key: key)
        #expect(driven.take().count == 50)
    }

    @Test("what isn't answered in time is refused, and may be tried again")
    func patience() {
        let driven = Driven()
        driven.join(nil)
        _ = driven.take()
        driven.machine.tick(at: Self.start + .seconds(7))
        #expect(driven.take().isEmpty)
        driven.machine.tick(at: Self.start + .seconds(9))
        guard case .answer(.failure(let error), 0, 1)? = driven.take().first else { return #expect(Bool(false)) }
        #expect(error.code == .unavailable && error.mayRetry && error.retryAfter != nil)
        #expect(driven.machine.waitingCount == 0)
    }

    @Test("an answer of the broker to a subscription that was given up counts for nothing")
    func givenUp() {
        let driven = Driven()
        driven.join(nil)
        guard case .subscribe(_, let old)? = driven.take().first else { return #expect(Bool(false)) }
        driven.machine.drop(Self.channel, loop: 0)
        _ = driven.take()
        driven.join(nil, tag: 2)
        _ = driven.take()
        driven.machine.subscribed(Self.channel, .success(origin), serial: old)
        #expect(driven.answer == nil)
    }

    @Test("channels remember within the budget, those quiet longest forget first")
    func budget() {
        var limits = RecoveryMachine.Limits()
        limits.memory = 10_000
        let machine = RecoveryMachine(limits: limits)
        var chance = Chance(seed: 1)
        let channels = (0..<10).map { Name(trusted: Array("room:\($0)".utf8)) }
        for (number, channel) in channels.enumerated() {
            machine.join(
                JoinBatch(
                    loop: 0, items: [.init(channel: channel, position: nil, tag: UInt64(number))], user: "bob", wantsMarks: false,
                    limit: 10,
                    bytes: 1_000), at: Self.start)
            for case .subscribe(let name, let serial) in machine.actions { machine.subscribed(name, .success(origin), serial: serial) }
            machine.actions = []
            var last = origin
            for _ in 0..<8 {
                let position = Position(epoch: Mark("x7c2mq4a")!, offset: last.offset + 1, tag: chance.mark())
                let publication = Publication(
                    messageClass: .chat, user: "a", device: .empty, messageId: "m", time: 0, payload: [UInt8](repeating: 49, count: 100))
                let next = PositionedPublication(position: position, previous: last.tag, publication: publication)
                if let (slot, _) = machine.carried(channel) {
                    machine.delivered(DurableDelivery(channel: channel, publication: next), at: slot)
                }
                last = position
                #expect(machine.bytes <= 10_000)
            }
        }
        func isFromMemory(_ channel: Name) -> Bool {
            machine.join(
                JoinBatch(
                    loop: 0, items: [.init(channel: channel, position: origin, tag: 77)], user: "bob", wantsMarks: false, limit: 10,
                    bytes: 10_000), at: Self.start)
            defer { machine.actions = [] }
            if case .answer? = machine.actions.first { return true }
            return false
        }
        #expect(isFromMemory(channels[9]) && isFromMemory(channels[8]))
        #expect(!isFromMemory(channels[0]))
    }

    // MARK: Read marks

    private static func marks(_ driven: Driven, _ read: [ReadMark]) -> JoinAnswer? {
        driven.join(nil, tag: 5, marks: true)
        for case .readMarks(_, _, _, let key) in driven.take() { driven.machine.marksRead(.success(read), key: key) }
        return driven.answer
    }

    @Test("read marks are read once a channel, kept up by the reads that pass, and never go back")
    func readMarks() {
        let driven = Driven()
        _ = driven.make()
        driven.live(at: 1)
        driven.deliver(8)
        let first = Self.marks(driven, [ReadMark(user: "bob", offset: 3), ReadMark(user: "alice", offset: 5)])
        #expect(first?.marks == [ReadMark(user: "bob", offset: 3), ReadMark(user: "alice", offset: 5)])
        driven.machine.readPassed(ReadMark(user: "alice", offset: 8), channel: Self.channel)
        driven.machine.readPassed(ReadMark(user: "alice", offset: 2), channel: Self.channel)
        driven.machine.readPassed(ReadMark(user: "carol", offset: 1), channel: Self.channel)
        driven.join(nil, tag: 6, marks: true)
        let second = driven.answer?.marks
        #expect(second?.first == ReadMark(user: "bob", offset: 3))
        #expect(second?.contains(ReadMark(user: "alice", offset: 8)) == true && second?.count == 3)
    }

    @Test("a subscriber is answered without marks when they can't be had")
    func noMarks() {
        let driven = Driven()
        let tip = driven.make().position
        driven.live(at: 1)
        driven.join(nil, tag: 5, marks: true)
        for case .readMarks(_, _, _, let key) in driven.take() {
            driven.machine.marksRead(.failure(WireError(.unavailable, "away")), key: key)
        }
        #expect(driven.answer == JoinAnswer(position: tip))
    }

    @Test("of a channel with more marks than are kept, one's own is asked for by itself")
    func ownMark() {
        let driven = Driven { $0.marks = 2 }
        _ = driven.make()
        driven.live(at: 1)
        _ = Self.marks(driven, ["alice", "carol", "dave"].map { ReadMark(user: $0, offset: 1) })
        driven.join(nil, tag: 6, marks: true)
        guard case .readMarks(_, let user, let limit, let key)? = driven.take().first else { return #expect(Bool(false)) }
        #expect(user == "bob" && limit == 1)
        driven.machine.marksRead(.success([ReadMark(user: "alice", offset: 1)]), key: key)
        let marks = driven.answer?.marks
        #expect(marks?.count == 2 && marks?.contains { $0.user == "bob" } == false)
    }

    @Test("a channel that hasn't begun has no read marks, and isn't asked for them; of one that may have lost its record they're read")
    func unbegun() {
        let driven = Driven()
        driven.live()
        driven.join(nil, tag: 5, marks: true)
        #expect(driven.answer?.marks == [])
        // What passes from then on is kept up like any others.
        driven.deliver(2)
        driven.machine.readPassed(ReadMark(user: "alice", offset: 2), channel: Self.channel)
        driven.join(nil, tag: 6, marks: true)
        #expect(driven.answer?.marks == [ReadMark(user: "alice", offset: 2)])

        let other = Driven()
        other.join(nil, tag: 1, marks: true)
        guard case .subscribe(_, let serial)? = other.take().first else { return #expect(Bool(false)) }
        other.machine.subscribed(Self.channel, .success(.start), serial: serial)
        #expect(other.take().contains { if case .readMarks = $0 { true } else { false } })
    }

    private struct Missing: Error {}
}
