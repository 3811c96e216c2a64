import HubBase

/// A request that awaits its ack or error.
package struct PendingRequest: Sendable, Equatable {
    package enum Kind: Sendable, Equatable {
        case connect
        case subscribe
        case unsubscribe
        /// `begin` made it: whether it's sent again is the caller's business.
        case publish
        /// Of the machine's own outbox, which sends it until it's answered.
        case outbox
        /// The next page for a subscription that's catching up.
        case history
        case presence
        case watch
        case other
    }

    package var id: UInt64
    package var kind: Kind
    /// The caller's own number, handed back with the answer.
    package var context: UInt64
    package var deadline: Instant
}

/// The requests in flight on one connection. Ids grow and all have the same time to live, so the oldest is always in front.
struct PendingRequests: Sendable {
    private var requests: [PendingRequest] = []

    var count: Int { requests.count }
    /// When the oldest is to be given up.
    var deadline: Instant? { requests.first?.deadline }

    mutating func add(_ request: PendingRequest) { requests.append(request) }

    /// The request that an answer belongs to; it is no longer pending. Cost: logarithmic, and a move of those behind it.
    mutating func take(_ id: UInt64) -> PendingRequest? {
        var low = 0
        var high = requests.count
        while low < high {
            let middle = (low + high) / 2
            if requests[middle].id < id { low = middle + 1 } else { high = middle }
        }
        guard low < requests.count, requests[low].id == id else { return nil }
        return requests.remove(at: low)
    }

    mutating func takeTimedOut(_ now: Instant) -> PendingRequest? {
        guard let oldest = requests.first, oldest.deadline <= now else { return nil }
        return requests.removeFirst()
    }

    mutating func takeAny() -> PendingRequest? { requests.isEmpty ? nil : requests.removeFirst() }
}
