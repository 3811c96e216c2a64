import HubBase
import HubWire

/// A channel that the application wants to follow, over all connections that it takes.
package struct Subscription: Sendable, Equatable {
    package enum State: Sendable, Equatable {
        /// To be asked for as soon as there's a connection, and not before `at`.
        case wanted(at: Instant)
        case asked(request: UInt64)
        /// It missed more than a page; the next one is to be asked for, or has been.
        case behind(request: UInt64?)
        case active
    }

    package let channel: Name
    package internal(set) var state: State
    /// The last publication that was seen, or where the subscription began: what a resubscription asks to recover from.
    package internal(set) var position: Position?
    /// An answer to it was given up on this connection, and may come all the same, with what follows it.
    var isAnswerLate = false

    /// Where a publication stands beside the last one.
    package enum Order: Sendable, Equatable {
        /// Nothing to compare with: no position yet, or a publication without one (`typing`, `read`).
        case unknown
        case next
        /// Not above the last offset: it came before.
        case again
        /// So many are missing between the last one and this.
        case gap(UInt64)
        /// The channel began anew.
        case otherEpoch
    }

    /// Compares, and keeps the position unless it's an older one.
    mutating func advance(to next: Position?) -> Order {
        guard let next else { return .unknown }
        guard let last = position else {
            position = next
            return .unknown
        }
        // A channel that has nothing has no epoch yet: the first message makes one, and it's the next all the same.
        guard next.epoch == last.epoch || last.isOrigin else {
            position = next
            return .otherEpoch
        }
        guard next.offset > last.offset else { return .again }
        position = next
        let missed = next.offset - last.offset - 1
        return missed == 0 ? .next : .gap(missed)
    }
}

/// The desired set: what isn't active is asked for whenever there's a connection (field-faults, rule 2: reconcile, never trust
/// increments). Small, so a list: lookups are linear in the channels of one client.
struct Subscriptions: Sendable {
    private(set) var list: [Subscription] = []

    func index(of channel: Name) -> Int? { list.firstIndex { $0.channel == channel } }

    /// The raw text of a JSON string, compared without a copy unless it holds escapes.
    func index(of raw: UnsafeRawBufferPointer, hasEscapes: Bool) -> Int? {
        if hasEscapes, raw.contains(UInt8(ascii: "\\")) {
            guard let name = JSONText.name(raw, hasEscapes: true, limit: Name.lengthMax) else { return nil }
            return index(of: name)
        }
        return list.firstIndex { $0.channel.bytes.count == raw.count && $0.channel.bytes.elementsEqual(raw) }
    }

    func index(asked request: UInt64) -> Int? {
        list.firstIndex { $0.state == .asked(request: request) || $0.state == .behind(request: request) }
    }

    /// Those of one request for several.
    func indexes(asked request: UInt64) -> [Int] { list.indices.filter { list[$0].state == .asked(request: request) } }

    func nextBehind() -> Int? { list.firstIndex { $0.state == .behind(request: nil) } }

    func wanted(_ now: Instant, limit: Int) -> [Int] {
        Array(list.indices.lazy.filter { if case .wanted(let at) = list[$0].state { at <= now } else { false } }.prefix(limit))
    }

    mutating func want(_ channel: Name, from position: Position?) {
        guard index(of: channel) == nil else { return }
        list.append(Subscription(channel: channel, state: .wanted(at: Instant(nanoseconds: 0)), position: position))
    }

    mutating func remove(at index: Int) -> Subscription { list.remove(at: index) }

    /// A connection ended: nothing is active any more.
    mutating func reset() {
        for index in list.indices {
            list[index].state = .wanted(at: Instant(nanoseconds: 0))
            list[index].isAnswerLate = false
        }
    }

    /// When the next postponed one may be asked for.
    var retryAt: Instant? {
        var earliest: Instant?
        for case .wanted(let at) in list.lazy.map(\.state) where at < earliest ?? .distantFuture { earliest = at }
        return earliest
    }

    mutating func set(_ state: Subscription.State, at index: Int) { list[index].state = state }
    /// No answer came in time.
    mutating func giveUp(at index: Int, until now: Instant) {
        list[index].state = .wanted(at: now)
        list[index].isAnswerLate = true
    }

    mutating func set(position: Position, at index: Int) { list[index].position = position }
    mutating func advance(at index: Int, to position: Position?) -> Subscription.Order { list[index].advance(to: position) }
}
