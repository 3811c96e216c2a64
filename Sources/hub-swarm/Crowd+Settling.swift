import HubBase
import HubCheck
import HubSwarm

/// What it came to in the end.
extension Crowd {
    /// How many publications that were acknowledged haven't come to bots that are there. `isFirstEnough`: one is as good as all.
    func missingAtTheEnd(isFirstEnough: Bool) -> UInt64 {
        var missing: UInt64 = 0
        for bot in bots.indices where bots[bot].isIn {
            for followed in fleet.followed(bot) {
                guard case .active = followed.state, let position = followed.position,
                    let number = followed.channel.bytes.withUnsafeBytes({ names.roomNumber($0) })
                else { continue }
                let room = rooms[number - share.rooms.lowerBound]
                // At the origin of a channel that has begun meanwhile, all of it is missing.
                let isOwed = position.epoch == room.epoch || (position.isOrigin && room.epoch != nil)
                guard isOwed, room.acknowledged > position.offset else { continue }
                missing += room.acknowledged - position.offset
                if isFirstEnough { return missing }
            }
        }
        return missing
    }

    /// Bots that should have a connection and have none. An attempt that has only begun is no proof.
    func cutOff(_ now: Instant) -> UInt64 {
        var count: UInt64 = 0
        for (index, bot) in bots.enumerated() where bot.hasStarted && !bot.isIn && !bot.isAwayByPlan && !bot.isLeaving {
            switch fleet.state(index) {
            case .connecting, .greeting: if now.since(bot.attempted) > Self.openingMax { count += 1 }
            default: count += 1
            }
        }
        return count
    }

    private static let openingMax: Span = .seconds(2)
    /// With less to cool down in, what was said last can't have its answer yet.
    private static let answerMax: Span = .seconds(1)

    /// All is quiet, or was waited for long enough: what isn't here by now is lost.
    func settle(_ now: Instant) {
        let missing = missingAtTheEnd(isFirstEnough: false)
        tally.lost += missing
        presence?.judge(now)
        ephemeral.ended(ended)
        ephemeral.judge(now)
        let unsent = bots.reduce(0) { $0 + $1.backlog.count }
        if unsent > 0 { recorder.failed("unsent", UInt64(unsent)) }
        if outstanding > 0, scenario.coolDown >= Self.answerMax, settings.interrupts.received < 2 {
            recorder.failed("unanswered", UInt64(outstanding))
        }
        let requests = bots.indices.reduce(0) { $0 + fleet.requestsMade($1) }
        let report = check?.finish()
        recorder.update { measures in
            measures.violations = violations(report)
            measures.findings = findings(report)
            for (name, count) in tally.counters { measures.counters[name] = count }
            measures.counters[Measures.Counter.joined] = tally.everIn
            measures.counters[Measures.Counter.delivered] = tally.delivered
            measures.counters[Measures.Counter.expected] = tally.delivered + tally.lost
            measures.counters[Measures.Counter.requests] =
                requests + tally.typingSent + tally.readsSent + (measures.errors["unsent"] ?? 0)
            measures.counters[Measures.Counter.cutOff] = cutOff(now)
            measures.counters[Measures.Counter.checked] = report?.delivered ?? 0
            measures.counters[Measures.Counter.presenceTold] = presence?.told ?? 0
            measures.counters["presenceJudged"] = presence?.judged ?? 0
            measures.counters["ephemeralJudged"] = ephemeral.judged
            for (why, count) in hostileEnds { measures.counters[Measures.Counter.hostileEnd(why)] = count }
            for (name, count) in mutes.counters(now) { measures.counters[name] = count }
        }
    }

    /// By kind. Where each delivery was remembered the checker's word counts, else what offsets show.
    private func violations(_ report: CheckReport?) -> [String: UInt64] {
        var found: [String: UInt64] = [:]
        func add(_ name: String, _ count: UInt64) { if count > 0 { found[name, default: 0] += count } }
        if let report {
            for fault in CheckReport.Fault.allCases {
                switch fault {
                case .lost, .gap: add("lost", report.count(fault))
                case .twice: add("duplicated", report.count(fault))
                default: add(fault.rawValue, report.count(fault))
                }
            }
        } else {
            add("lost", tally.lost)
            add("duplicated", tally.duplicated)
            add("outOfOrder", tally.outOfOrder)
            add("contradiction", tally.contradictions)
            add("unasked", tally.unasked)
        }
        for (fault, count) in presence?.counts ?? [:] { add(fault.rawValue, count) }
        for (fault, count) in ephemeral.counts { add(fault.rawValue, count) }
        return found
    }

    private func findings(_ report: CheckReport?) -> [String] {
        var lines = (report?.findings ?? []).map { "\($0.fault.rawValue): \($0.channel): bot \($0.client) \($0.text)" }
        lines += (presence?.findings ?? []).map { "\($0.fault.rawValue): bot \($0.watcher) of user \($0.user): \($0.text)" }
        return Array(lines.prefix(Measures.findingsMax))
    }
}
