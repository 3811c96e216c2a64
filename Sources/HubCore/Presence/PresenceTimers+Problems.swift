import HubBase

extension PresenceTimers {
    /// After a reconnect to the store each partition is refreshed within this time: 5 s, at most a sixth of the heartbeat.
    package var refreshJitter: Span { min(.seconds(5), heartbeat.scaled(by: 1.0 / 6)) }

    /// Every so many heartbeats the users' records are renewed beside the leases: a record has to outlive the leases that were renewed since, and a
    /// hold. Four at most (redis-design.md §9), so that a record which is lost alone is found within four heartbeats (decision 0295).
    package var beatsOfRecord: Int {
        let longestBeat = heartbeat.scaled(by: 1.1)
        return max(1, min(4, Int(userTTL.minus(lease).minus(hold).nanoseconds / longestBeat.nanoseconds)))
    }

    /// Every broken relation between the timers, as a sentence for people that names the settings. Empty: all is well.
    package func problems() -> [String] {
        var problems: [String] = []
        func require(_ holds: Bool, _ sentence: String) {
            if !holds { problems.append(sentence) }
        }

        let named: [(String, Span)] = [
            ("heartbeat", heartbeat), ("lease", lease), ("userTTL", userTTL), ("sweepInterval", sweepInterval), ("gapMax", gapMax),
            ("hold", hold), ("awayAfter", awayAfter), ("tombstoneTTL", tombstoneTTL),
        ]
        for (name, span) in named {
            require(span >= .milliseconds(10), "presence.\(name) is \(span); it must be at least 10ms")
            // Keeps every sum of timers far below what Redis takes as an expiry.
            require(span <= .seconds(10 * 365 * 86_400), "presence.\(name) is \(span); it must be at most ten years")
        }
        require(grace <= .seconds(60), "presence.grace is \(grace); it must be from 0 to 60s")
        // What follows compares sums; with one of the above broken it would only repeat it in a longer sentence.
        guard problems.isEmpty else { return problems }

        // Two refreshes may get lost before a lease ends.
        require(
            lease >= heartbeat.scaled(by: 2.5),
            "presence.lease (\(lease)) must be at least 2.5 times presence.heartbeat (\(heartbeat)), so at least \(heartbeat.scaled(by: 2.5))"
        )
        // The record must outlive its leases also when nobody sweeps for a hold.
        let userTTLMin = lease + hold + heartbeat
        require(
            userTTL > userTTLMin,
            "presence.userTTL (\(userTTL)) must be longer than presence.lease + presence.hold + presence.heartbeat (\(userTTLMin))")
        // So must that of a user who is awaited, counted from the end of the last connection (nobody renews it any more), until a sweep.
        let awaitedMin = grace + hold + gapMax
        require(
            userTTL > awaitedMin,
            "presence.userTTL (\(userTTL)) must be longer than presence.grace + presence.hold + presence.gapMax (\(awaitedMin))")
        // Sweeps of a lone node: uniform(0.5, 1.5) times two intervals. A gap shorter than three of the longest pauses would see an outage in
        // ordinary bad luck.
        let gapMin = sweepInterval.scaled(by: 9)
        require(
            gapMax > gapMin,
            "presence.gapMax (\(gapMax)) must be more than 9 times presence.sweepInterval (\(gapMin)): three of the longest pauses between sweeps"
        )
        // Leases may only end while some node was seen to sweep: a longer gap must start a hold.
        let longestBeat = heartbeat.scaled(by: 1.1)
        require(
            gapMax + longestBeat < lease,
            "presence.gapMax (\(gapMax)) must be less than presence.lease - 1.1 * presence.heartbeat (\(lease.minus(longestBeat)))")
        // During a hold every node that lives has refreshed each of its leases once.
        let holdMin = (longestBeat + refreshJitter).inWholeMilliseconds
        require(
            hold >= holdMin,
            "presence.hold (\(hold)) must be at least 1.1 * presence.heartbeat plus the refresh jitter (\(holdMin))")
        require(
            tombstoneTTL >= userTTL,
            "presence.tombstoneTTL (\(tombstoneTTL)) must be at least presence.userTTL (\(userTTL)), or a user's last seen is forgotten first"
        )
        return problems
    }
}

extension Span {
    /// Rounded up to what can be configured.
    fileprivate var inWholeMilliseconds: Span { Span(nanoseconds: (nanoseconds + 999_999) / 1_000_000 * 1_000_000) }

    /// Zero when `other` is longer.
    package func minus(_ other: Span) -> Span {
        Span(nanoseconds: nanoseconds > other.nanoseconds ? nanoseconds - other.nanoseconds : 0)
    }
}
