import HubBase
import HubCore

/// How a node stands to its broker.
package enum NodeHealth: Sendable, Equatable {
    case up
    /// The path holds and nothing new can be kept: durable publications and newcomers' presence are refused, all else goes on (decision 0140).
    case full(String)
    case down(String)
}

/// Whether the data path is proven: a probe through the publish path every two seconds, and none may be older than five (protocol: HTTP,
/// `/readyz`). A link that says it's down needs no waiting. A machine: no clock, no I/O.
package struct HealthMachine {
    package init() {}

    package static let interval = Span.seconds(2)
    /// A probe is given up after this, so that losing the path shows within five seconds of the last good probe.
    package static let patience = Span.milliseconds(2_800)

    /// nil until the broker has said anything: the node is starting, not degraded.
    package private(set) var broker: BackendHealth?
    private var sentAt: Instant?
    private var returnedAt: Instant?
    /// The first of the probes that came back since the broker is up.
    private var provedAt: Instant?
    private var failure: String?
    private var isFull = false
    /// Probes that came back, and found room, since one found none.
    private var roomy = 0
    private var lookedAt: Instant?
    private var told: NodeHealth?
    /// The broker is still down, and says why once more: what's told beside its own words may be something else now.
    private var isRestated = false
    /// Who doesn't know which tokens were revoked must let nobody in, and isn't ready.
    package var lacksRevocations = false

    /// A store at its limit has room now and then: it's said to have some again when this many probes in a row found it.
    static let roomyMin = 2

    package mutating func brokerChanged(_ health: BackendHealth, at now: Instant) {
        if case .down? = broker, case .down = health { isRestated = true }
        broker = health
        failure = nil
        returnedAt = nil
        sentAt = nil
        isFull = false
    }

    /// The node looks at its health many times a second; when it didn't, it was the one that stood still (a stopped process, a machine that
    /// slept), which says nothing about the path: that time doesn't count.
    package mutating func look(at now: Instant) {
        if let lookedAt, now.since(lookedAt) > .milliseconds(500) {
            let pause = now.since(lookedAt)
            returnedAt = returnedAt.map { $0 + pause }
            sentAt = sentAt.map { $0 + pause }
        }
        lookedAt = now
    }

    /// True when a probe should leave now; it counts as sent.
    package mutating func probeIsDue(at now: Instant) -> Bool {
        guard broker == .up else { return false }
        if let sentAt, now.since(sentAt) < HealthMachine.interval { return false }
        sentAt = now
        return true
    }

    package mutating func probeReturned(at now: Instant) {
        if returnedAt == nil { provedAt = now }
        returnedAt = now
        failure = nil
        roomy += 1
        if roomy >= HealthMachine.roomyMin { isFull = false }
    }

    /// It came back, and said that nothing more can be kept.
    package mutating func probeFoundFull(at now: Instant) {
        if returnedAt == nil { provedAt = now }
        returnedAt = now
        failure = nil
        roomy = 0
        isFull = true
    }

    package mutating func probeFailed(_ reason: String) { failure = reason }

    /// What the world is told: a link's own words name addresses, which are the operator's business (the log has them).
    /// `outage`: what the broker has to say to everybody.
    package static func publicly(_ health: NodeHealth, isLink: Bool, outage: String? = nil) -> NodeHealth {
        if case .down = health, isLink { return .down(outage ?? "the link to Redis is down") }
        return health
    }

    /// Whether it's the link's own word that it's down.
    package var isLinkDown: Bool {
        if case .down? = broker { return true }
        return false
    }

    private func current(at now: Instant) -> NodeHealth? {
        guard let broker else { return nil }
        if case .down(let reason) = broker { return .down(reason) }
        if let failure { return .down(failure) }
        guard let returnedAt else {
            // Nothing is proven yet; before the first probe is late there's nothing to say either.
            guard let sentAt, now.since(sentAt) > HealthMachine.patience else { return nil }
            return .down("a probe through the publish path hasn't come back")
        }
        if now.since(returnedAt) > HealthMachine.interval + HealthMachine.patience {
            let silence = HealthMachine.interval + HealthMachine.patience
            return .down("no probe through the publish path has come back for \(silence.milliseconds) ms")
        }
        // Reading them takes a moment after the start, and after the path was lost; a node that is ready stays so meanwhile.
        if lacksRevocations, !isToldReady {
            return now.since(provedAt ?? now) > HealthMachine.patience ? .down("the revocations of tokens can't be read") : nil
        }
        return isFull ? .full("the store is full (storeFull): chat and event are refused until there is room") : .up
    }

    private var isToldReady: Bool {
        switch told {
        case .up, .full: true
        case .down, nil: false
        }
    }

    /// The new state, when it isn't the one told last: another reason for being down is one too.
    package mutating func takeChange(at now: Instant) -> NodeHealth? {
        guard let current = current(at: now) else { return nil }
        switch (told, current) {
        case (.up?, .up), (.full?, .full): return nil
        case (.down(let before)?, .down(let reason)) where before == reason && !isRestated: return nil
        default:
            isRestated = false
            told = current
            return current
        }
    }
}
