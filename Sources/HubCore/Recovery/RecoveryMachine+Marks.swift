import HubBase
import HubWire

/// Read marks at subscribe: the subscriber's own, then others.
extension RecoveryMachine {
    /// Whether `readPassed` would make use of it.
    package func keepsMarks(of channel: Name) -> Bool { feeds.slot(of: channel).map { feeds[$0].marks != nil } ?? false }

    /// A `read` passed on the channel.
    package func readPassed(_ mark: ReadMark, channel: Name) {
        guard let slot = feeds.slot(of: channel), feeds[slot].marks != nil else { return }
        let before = feeds[slot].marks?.marks.count ?? 0
        let limit = limits.marks
        feeds[slot].changeMarks { $0.pass(mark, limit: limit) }
        marksKept += (feeds[slot].marks?.marks.count ?? 0) - before
    }

    /// Some may have passed unheard. Cost: a look at every channel.
    package func forgetAllMarks() {
        for slot in feeds.all { forgetMarks(slot) }
    }

    func forgetMarks(_ slot: Int) {
        // What is being read now is new enough: readings are asked and answered in order.
        guard let marks = feeds[slot].marks, marks.isLoaded else { return }
        marksKept -= marks.marks.count
        feeds[slot].marks = nil
    }

    package func marksRead(_ result: Result<[ReadMark], WireError>, key: UInt64) {
        guard let reading = markReadings.removeValue(forKey: key) else { return }
        let marks = try? result.get()
        let isThere = feeds[reading.slot].id == reading.feed
        guard reading.isLoad else {
            recoveries[reading.recovery]?.isAskingMarks = false
            let user = recoveries[reading.recovery]?.user
            let own = marks?.filter { $0.user == user }
            let kept = isThere ? feeds[reading.slot].marks?.marks ?? [:] : [:]
            let others = kept.filter { $0.key != user }.map { ReadMark(user: $0.key, offset: $0.value) }
            recoveries[reading.recovery]?.marks = own.map { $0 + others }
            if own == nil { recoveries[reading.recovery]?.wantsMarks = false }
            return proceed(reading.recovery)
        }
        var waiting = [reading.recovery]
        if isThere, let before = feeds[reading.slot].marks {
            waiting += before.waiting
            let limit = limits.marks + 1
            feeds[reading.slot].changeMarks { kept in
                kept.waiting = []
                if let marks { kept.load(marks, limit: limit) }
            }
            if marks != nil {
                marksKept += (feeds[reading.slot].marks?.marks.count ?? 0) - before.marks.count
            }
        }
        for key in waiting {
            guard let recovery = recoveries[key] else { continue }
            recoveries[key]?.isAskingMarks = false
            // They can't be had: the subscriber is answered all the same.
            if marks == nil {
                recoveries[key]?.wantsMarks = false
                if key == reading.recovery { numbers.marksMissing += 1 }
            }
            if key == reading.recovery { recoveries[key]?.marks = marks } else if marks != nil, isThere { readMarks(key) }
            if !isThere { recoveries[key]?.marks = marks?.filter { $0.user == recovery.user } }
            proceed(key)
        }
        // Too much is kept already, or there was nothing to keep: the next one asks again.
        if isThere, marks == nil || marksKept > limits.marksKept {
            marksKept -= feeds[reading.slot].marks?.marks.count ?? 0
            feeds[reading.slot].marks = nil
        }
    }

    /// Finds the marks for one subscriber, or asks for them.
    func readMarks(_ key: UInt64) {
        guard let recovery = recoveries[key], recovery.marks == nil, !recovery.isAskingMarks else { return }
        let slot = recovery.slot
        guard let marks = feeds[slot].marks else {
            feeds[slot].marks = ReadMarks()
            ask(key, recovery, isLoad: true)
            return
        }
        guard marks.isLoaded else {
            feeds[slot].changeMarks { $0.waiting.append(key) }
            recoveries[key]?.isAskingMarks = true
            return
        }
        guard let own = marks.own(recovery.user) else { return ask(key, recovery, isLoad: false) }
        let others = marks.marks.filter { $0.key != recovery.user }.map { ReadMark(user: $0.key, offset: $0.value) }
        recoveries[key]?.marks = (own.map { [$0] } ?? []) + others
    }

    private func ask(_ key: UInt64, _ recovery: Recovery, isLoad: Bool) {
        recoveries[key]?.isAskingMarks = true
        let number = makeKey()
        markReadings[number] = (recovery.slot, recovery.feed, key, isLoad)
        actions.append(
            .readMarks(recovery.channel, user: recovery.user, limit: isLoad ? limits.marks + 1 : 1, key: number))
    }

    /// One's own always, others as the budget allows.
    func fit(_ recovery: Recovery) -> [ReadMark]? {
        recovery.marks.map { marks in
            var left = limits.marks
            return marks.filter { mark in
                if mark.user == recovery.user { return true }
                guard left > 0, recovery.budget.takes(mark) else { return false }
                left -= 1
                return true
            }
        }
    }
}
