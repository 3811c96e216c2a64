import HubBase
import HubCore
import Testing

@Suite("asking nodes about their connections")
struct ConnectionInquiriesTests {
    private let start = Instant(nanoseconds: 1_000_000_000)
    private let facts = ConnectionAnswer.facts(ConnectionFacts(address: Array("[::1]:9".utf8), heardAgo: 3))

    @Test("answers come back in the order of the connections, when the last is there")
    func order() {
        var inquiries = ConnectionInquiries()
        let actions = inquiries.begin([("a-1", "a"), ("b-1", "b"), ("x", nil)], key: 7, at: start)
        #expect(actions == [.ask("a-1", number: 1, of: "a"), .ask("b-1", number: 2, of: "b")])
        #expect(inquiries.sent(1, heard: 1) == nil)
        #expect(inquiries.answered(.gone, 2, by: "b") == nil)
        #expect(inquiries.answered(facts, 1, by: "a") == .tell([facts, .gone, .gone], key: 7))
        #expect(inquiries.count == 0)
    }

    @Test("nothing to ask is answered at once")
    func nothing() {
        var inquiries = ConnectionInquiries()
        #expect(inquiries.begin([], key: 1, at: start) == [.tell([], key: 1)])
        #expect(inquiries.count == 0)
    }

    @Test("a node that nobody hears is gone, one that says nothing is waited for until the deadline")
    func silence() {
        var inquiries = ConnectionInquiries()
        _ = inquiries.begin([("a-1", "a"), ("b-1", "b"), ("c-1", "c")], key: 1, at: start)
        #expect(inquiries.sent(1, heard: 0) == nil)
        #expect(inquiries.sent(2, heard: 1) == nil)
        #expect(inquiries.sent(3, heard: nil) == nil)
        #expect(inquiries.advance(at: start + .milliseconds(1_999)) == [])
        #expect(inquiries.advance(at: start + ConnectionInquiries.deadline) == [.tell([.nodeGone, .noAnswer, .noAnswer], key: 1)])
        // What comes later is nobody's.
        #expect(inquiries.answered(facts, 2, by: "b") == nil)
        #expect(inquiries.advance(at: start + .seconds(60)) == [])
    }

    @Test("nobody answers for another node, and nobody twice")
    func foreign() {
        var inquiries = ConnectionInquiries()
        _ = inquiries.begin([("a-1", "a"), ("a-2", "a")], key: 1, at: start)
        #expect(inquiries.answered(facts, 1, by: "b") == nil)
        #expect(inquiries.answered(facts, 99, by: "a") == nil)
        #expect(inquiries.answered(.gone, 1, by: "a") == nil)
        #expect(inquiries.answered(facts, 1, by: "a") == nil)
        #expect(inquiries.answered(facts, 2, by: "a") == .tell([.gone, facts], key: 1))
    }

    @Test("inquiries and their questions are bounded")
    func bounds() {
        var inquiries = ConnectionInquiries()
        let many = (0..<100).map { (connection: Name(trusted: Array("a-\($0)".utf8)), holder: Optional<Name>("a")) }
        #expect(inquiries.begin(many, key: 0, at: start)?.count == ConnectionInquiries.connectionsMax)
        guard case .tell(let answers, 0)? = inquiries.advance(at: start + .seconds(2)).first else {
            Issue.record("no answer")
            return
        }
        #expect(answers.count == 100)
        #expect(answers.filter { $0 == .notAsked }.count == 100 - ConnectionInquiries.connectionsMax)
        for key in 1...UInt64(ConnectionInquiries.inquiriesMax) { #expect(inquiries.begin([("a-1", "a")], key: key, at: start) != nil) }
        #expect(inquiries.begin([("a-1", "a")], key: 1_000, at: start) == nil)
    }
}
