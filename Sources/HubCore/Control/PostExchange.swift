import HubBase

/// Posts that a node has passed on and waits to be answered: numbered, bounded in number and bytes, with a deadline each. A machine: no clock, no I/O.
///
/// A message that nobody heard wasn't delivered, so it's sent again until the deadline: the stream's node may just be making a new link. Who was never
/// heard of by then has gone. A message that somebody heard is never sent twice: without an answer it's unknown what became of it.
package struct PostExchange {
    package enum Action: Equatable {
        case send(StreamPost, number: UInt64, to: Name)
        case tell(StreamPostOutcome, tag: RequestTag)
    }

    /// What became of handing a post to the broker.
    package enum Sending: Equatable {
        /// How many heard it.
        case heard(Int)
        /// It didn't leave.
        case refused
        /// The link was lost after it left.
        case uncertain
    }

    package static let deadline: Span = .seconds(3)
    package static let resendInterval: Span = .milliseconds(250)
    package static let postsMax = 1024
    package static let bytesMax = 16 << 20
    /// Posts that nobody heard and that are kept for sending again. Beyond it, as under a flood of made-up keys, nobody heard means unknown at once, so
    /// that those can't keep others' posts out.
    package static let unheardMax = 64

    private struct Waiting {
        var post: StreamPost
        var node: Name
        var tag: RequestTag
        var deadline: Instant
        /// When it's sent again; nil: not by now.
        var resendAt: Instant?
    }

    private var waiting: [UInt64: Waiting] = [:]
    /// In the order of their deadlines, those that were answered among them.
    private var order = Queue<UInt64>()
    private var unheard: Set<UInt64> = []
    private var lastNumber: UInt64 = 0
    private var bytes = 0

    private let unheardLimit: Int

    /// `isAlone`: there are no other nodes to wait for.
    package init(isAlone: Bool = false) { unheardLimit = isAlone ? 0 : Self.unheardMax }

    package var count: Int { waiting.count }

    /// Begins a post to a node; nil: there are too many.
    package mutating func begin(_ post: StreamPost, to node: Name, tag: RequestTag, at now: Instant) -> Action? {
        guard waiting.count < Self.postsMax, bytes + post.body.count <= Self.bytesMax else { return nil }
        lastNumber += 1
        waiting[lastNumber] = Waiting(post: post, node: node, tag: tag, deadline: now + Self.deadline)
        order.append(lastNumber)
        bytes += post.body.count
        return .send(post, number: lastNumber, to: node)
    }

    package mutating func sent(_ number: UInt64, _ sending: Sending, at now: Instant) -> Action? {
        guard waiting[number] != nil else { return nil }
        if sending == .refused {
            // What was sent before and not heard wasn't delivered either.
            return end(number, .refused)
        } else if sending != .heard(0) {
            unheard.remove(number)
            // It isn't needed any more, only its answer is.
            bytes -= waiting[number]?.post.body.count ?? 0
            waiting[number]?.post.body = []
        } else if unheard.count >= unheardLimit && !unheard.contains(number) {
            return end(number, .unknown)
        } else {
            waiting[number]?.resendAt = now + Self.resendInterval
            unheard.insert(number)
        }
        return nil
    }

    /// The node's answer. Others' answers, and late ones, are nobody's.
    package mutating func answered(_ outcome: StreamPostOutcome, _ number: UInt64, by node: Name) -> Action? {
        guard waiting[number]?.node == node else { return nil }
        return end(number, outcome)
    }

    /// What is due. Called a few times a second at least.
    package mutating func advance(at now: Instant) -> [Action] {
        var actions: [Action] = []
        while let number = order.first {
            if let next = waiting[number] {
                guard next.deadline <= now else { break }
                // One that is on its way again may be heard yet.
                let action = end(number, unheard.contains(number) && next.resendAt != nil ? .unknown : .late)
                if let action { actions.append(action) }
            }
            _ = order.popFirst()
        }
        for number in unheard {
            guard let next = waiting[number], let resendAt = next.resendAt, resendAt <= now,
                now + Self.resendInterval <= next.deadline
            else { continue }
            waiting[number]?.resendAt = nil
            actions.append(.send(next.post, number: number, to: next.node))
        }
        return actions
    }

    private mutating func end(_ number: UInt64, _ outcome: StreamPostOutcome) -> Action? {
        guard let ended = waiting.removeValue(forKey: number) else { return nil }
        bytes -= ended.post.body.count
        unheard.remove(number)
        return .tell(outcome, tag: ended.tag)
    }
}
