import HubBase

/// What only the node that holds a connection knows of it.
package struct ConnectionFacts: Sendable, Equatable {
    /// The client's address and port as its node has them (behind a trusted proxy, the proxy's word); empty: not known.
    package var address: [UInt8]
    /// Milliseconds since the last bytes came.
    package var heardAgo: UInt64

    package init(address: [UInt8], heardAgo: UInt64) {
        self.address = address
        self.heardAgo = heardAgo
    }

    package static let addressMax = 64
}

/// What became of asking for it.
package enum ConnectionAnswer: Sendable, Equatable {
    case facts(ConnectionFacts)
    /// Its node lives and has no such connection: what the store holds is left over.
    case gone
    /// Nobody listens where its node would: it has ended.
    case nodeGone
    /// Its node said nothing in time, or couldn't be asked.
    case noAnswer
    /// There were more than are asked for.
    case notAsked

    package var name: StaticString {
        switch self {
        case .facts: "here"
        case .gone: "gone"
        case .nodeGone: "nodeGone"
        case .noAnswer: "noAnswer"
        case .notAsked: "notAsked"
        }
    }
}

/// Questions to the nodes that hold connections: bounded in number, with one deadline for all of an inquiry. A machine: no clock, no I/O.
package struct ConnectionInquiries {
    package enum Action: Equatable {
        case ask(Name, number: UInt64, of: Name)
        /// The answers in the order of the connections asked for.
        case tell([ConnectionAnswer], key: UInt64)
    }

    package static let deadline = Span.seconds(2)
    /// Inquiries under way, and connections of one that are asked for.
    package static let inquiriesMax = 64
    package static let connectionsMax = 64

    private struct Inquiry {
        var answers: [ConnectionAnswer]
        var numbers: [UInt64]
        var open: Int
        var deadline: Instant
    }

    private struct Question {
        var key: UInt64
        var place: Int
        var node: Name
    }

    private var inquiries: [UInt64: Inquiry] = [:]
    private var questions: [UInt64: Question] = [:]
    private var lastNumber: UInt64 = 0

    package init() {}

    package var count: Int { inquiries.count }

    /// Begins an inquiry under a `key` of the caller's. `holder`: the connection's node; nil: none that a node would have named.
    /// nil: too many are under way.
    package mutating func begin(_ connections: [(connection: Name, holder: Name?)], key: UInt64, at now: Instant) -> [Action]? {
        guard inquiries.count < Self.inquiriesMax, inquiries[key] == nil else { return nil }
        var inquiry = Inquiry(
            answers: [ConnectionAnswer](repeating: .noAnswer, count: connections.count), numbers: [], open: 0,
            deadline: now + Self.deadline)
        var actions: [Action] = []
        for (place, (connection, holder)) in connections.enumerated() {
            guard place < Self.connectionsMax else {
                inquiry.answers[place] = .notAsked
                continue
            }
            guard let holder else {
                inquiry.answers[place] = .gone
                continue
            }
            lastNumber += 1
            questions[lastNumber] = Question(key: key, place: place, node: holder)
            inquiry.numbers.append(lastNumber)
            inquiry.open += 1
            actions.append(.ask(connection, number: lastNumber, of: holder))
        }
        if inquiry.open == 0 { return [.tell(inquiry.answers, key: key)] }
        inquiries[key] = inquiry
        return actions
    }

    /// How many heard a question; nil: it didn't leave.
    package mutating func sent(_ number: UInt64, heard: Int?) -> Action? {
        guard let question = questions[number] else { return nil }
        switch heard {
        case 0: return settle(number, question, .nodeGone)
        case nil: return settle(number, question, .noAnswer)
        default: return nil
        }
    }

    /// Others' answers, and late ones, are nobody's.
    package mutating func answered(_ answer: ConnectionAnswer, _ number: UInt64, by node: Name) -> Action? {
        guard let question = questions[number], question.node == node else { return nil }
        return settle(number, question, answer)
    }

    /// What's over its deadline. Called a few times a second at least.
    package mutating func advance(at now: Instant) -> [Action] {
        guard !inquiries.isEmpty else { return [] }
        let due = inquiries.filter { $0.value.deadline <= now }.keys.sorted()
        return due.map { end($0) }
    }

    private mutating func settle(_ number: UInt64, _ question: Question, _ answer: ConnectionAnswer) -> Action? {
        questions[number] = nil
        inquiries[question.key]?.answers[question.place] = answer
        inquiries[question.key]?.open -= 1
        return inquiries[question.key]?.open == 0 ? end(question.key) : nil
    }

    private mutating func end(_ key: UInt64) -> Action {
        let inquiry = inquiries.removeValue(forKey: key)
        for number in inquiry?.numbers ?? [] { questions[number] = nil }
        return .tell(inquiry?.answers ?? [], key: key)
    }
}
