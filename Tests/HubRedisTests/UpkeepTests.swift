import HubBase
import HubContracts
import HubCore
import HubRedis
import HubWire
import Testing

/// What thousands of subscriptions make of calls to Redis, and what stands behind them (decision 0361).
@Suite(.serialized) struct UpkeepTests {
    /// A node's broker and members on one link; what is answered, in its order.
    final class Bench: BrokerDelegate, MemberStoreDelegate {
        let fixture = RedisFixture()
        let broker: RedisBroker
        let members: RedisMemberStore
        private let store: RedisPresenceStore
        private(set) var answers: [String] = []
        private(set) var errors: [WireError] = []
        private(set) var isUp = false
        private var made: UInt64 = 0

        init() {
            let backend = fixture.backend(incarnation: "upkeepnode01", name: "north")
            broker = RedisBroker(backend)
            members = RedisMemberStore(backend)
            store = RedisPresenceStore(backend)
            broker.delegate = self
            members.delegate = self
            let (broker, members, store) = (broker, members, store)
            fixture.stepped.inTurn.append {
                broker.advance(at: $0)
                members.advance(at: $0)
                store.advance(at: $0)
            }
            broker.start(at: fixture.now)
            members.start(at: fixture.now)
            store.start(at: fixture.now)
            _ = fixture.run { isUp }
        }

        private func tag() -> RequestTag {
            made += 1
            return RequestTag(high: 9, low: made)
        }

        func join(_ channel: Name) {
            members.change(
                [MemberCount(user: "alice", devices: 1)], in: channel, known: MembersKnown(), mayBeLate: true, tag: tag(), at: fixture.now)
        }

        /// `at`: when that was decided, where a late one is to be refused.
        func leave(_ channel: Name, decided at: Instant? = nil) {
            members.change(
                [MemberCount(user: "alice", devices: 0)], in: channel, known: MembersKnown(), mayBeLate: at == nil, tag: tag(),
                at: at ?? fixture.now)
        }

        /// Redis's clock is known by its prompt answers.
        func learnClock() {
            for _ in 0..<3 {
                store.announce(NodeFacts(connections: 0), tag: tag(), at: fixture.now)
                fixture.pass(.milliseconds(20))
            }
            #expect(store.clockOffset != nil)
        }

        func publish(_ channel: Name) {
            let publication = Publication(
                messageClass: .chat, user: "alice", device: "desk", messageId: "m1", time: 1, payload: [UInt8]("1".utf8))
            broker.publish(publication, to: channel, attempt: nil, tag: tag(), at: fixture.now)
        }

        private func answered(_ name: String, _ error: WireError?) {
            answers.append(error == nil ? name : "\(name) failed")
            if let error { errors.append(error) }
        }

        func membersChanged(_ result: Result<MembersTip, WireError>, tag: RequestTag) { answered("changed", result.error) }
        func published(_ result: Result<PublishResult, WireError>, tag: RequestTag) { answered("published", result.error) }
        func subscribed(_ channel: Name, _ result: Result<Position, WireError>, tag: RequestTag) { answered("subscribed", result.error) }
        func memberStoreHealth(_ health: BackendHealth) { isUp = health == .up }

        func membersRefreshed(_ result: Result<MembersLease, WireError>, tag: RequestTag) {}
        func membersReaped(_ result: Result<Int, WireError>, tag: RequestTag) {}
        func membersSwept(_ result: Result<MembersSwept, WireError>, partition: Int, tag: RequestTag) {}
        func membersListed(_ result: Result<MembersList, WireError>, tag: RequestTag) {}
        func heard(_ news: MembersNews, channel: Name) {}
        func readMoved(_ result: Result<UInt64, WireError>, tag: RequestTag) {}
        func historyRead(_ channel: Name, _ result: Result<HistoryPage, WireError>, tag: RequestTag) {}
        func readMarks(_ channel: Name, _ result: Result<[ReadMark], WireError>, tag: RequestTag) {}
        func probed(_ result: Result<Void, WireError>, tag: RequestTag) {}
        func received(_ publication: PositionedPublication, channel: Name) {}
        func received(_ publication: Publication, channel: Name) {}
        func resync(_ channel: Name, to position: Position, reason: ResyncReason) {}
        func brokerHealth(_ health: BackendHealth) {}
    }

    private static func channel(_ number: Int) -> Name { Name(trusted: [UInt8]("c:flood\(number)".utf8)) }

    /// More than this of one kind never stand before a publication: a window, and what a turn adds.
    private static let few = 130

    @Test("a publication doesn't stand behind thousands of members' calls, and those are all made")
    func members() throws {
        let bench = Bench()
        for number in 0..<3000 { bench.join(Self.channel(number)) }
        bench.publish("c:chat")
        #expect(bench.fixture.run { bench.answers.count == 3001 })
        #expect(bench.errors == [])
        #expect(try #require(bench.answers.firstIndex(of: "published")) < Self.few)
    }

    @Test("what's said of one channel is said in its order, however much waits")
    func order() {
        let bench = Bench()
        for number in 0..<500 { bench.join(Self.channel(number)) }
        for number in 0..<500 { bench.leave(Self.channel(number)) }
        #expect(bench.fixture.run { bench.answers.count == 1000 })
        #expect(bench.errors == [])
        #expect(bench.fixture.server.client().strings("KEYS", "*mu:c:flood*") == [])
    }

    @Test("a goodbye is as old as its decision, however late it's sent")
    func late() {
        let bench = Bench()
        bench.learnClock()
        bench.join("c:room")
        #expect(bench.fixture.run { bench.answers.count == 1 })
        bench.leave("c:room", decided: Instant(nanoseconds: bench.fixture.now.nanoseconds - 1_500_000_000))
        bench.leave("c:room", decided: bench.fixture.now)
        #expect(bench.fixture.run { bench.answers.count == 3 })
        #expect(bench.answers == ["changed", "changed failed", "changed"])
        #expect(bench.errors.map(\.code) == [.unavailable])
    }

    @Test("what waits for its turn when Redis goes away is told so, all of it")
    func away() {
        let bench = Bench()
        for number in 0..<3000 { bench.join(Self.channel(number)) }
        bench.fixture.server.stop()
        #expect(bench.fixture.run { bench.answers.count == 3000 })
        #expect(bench.errors.allSatisfy { $0.code == .unavailable } && bench.errors.count >= 2800)
        // And nothing is left to wait for.
        bench.join(Self.channel(0))
        #expect(bench.fixture.run { bench.answers.count == 3001 })
        #expect(bench.answers.last == "changed failed")
    }

    @Test("more than may wait is refused as too much, and nothing that waits is lost")
    func full() {
        let bench = Bench()
        for number in 0..<11_000 { bench.join(Self.channel(number)) }
        #expect(bench.fixture.run { bench.answers.count == 11_000 })
        #expect(bench.errors.allSatisfy { $0.code == .overloaded })
        #expect((900...1000).contains(bench.errors.count), "\(bench.errors.count)")
    }
}

extension Result where Failure == WireError {
    fileprivate var error: WireError? { if case .failure(let error) = self { error } else { nil } }
}
