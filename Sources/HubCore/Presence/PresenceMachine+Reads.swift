import HubBase
import HubWire

// What a read that isn't the machine's own (HTTP) is worth: the same rules that watchers are told by.
extension PresenceMachine {
    /// Since the store came back there wasn't time yet for all nodes to write again what it may have lost.
    func isSettling(at now: Instant) -> Bool { settledAt.map { now < $0 } ?? false }

    /// What this node's watchers know of the user where the store stands behind it: the record is lost, or older.
    private func known(insteadOf change: PresenceChange) -> (change: PresenceChange, isSuspect: Bool)? {
        guard let place = users.place(of: change.user), users[place].isWatched, users[place].knowledge != .none,
            change.version < users[place].version
        else { return nil }
        return (users[place].change, users[place].knowledge != .current)
    }

    /// Puts what is known in the place of what is behind it. True: the answer isn't sure, and says so.
    package func judge(_ snapshot: inout PresenceSnapshot, at now: Instant) -> Bool {
        var isUnsure = isStale || isSettling(at: now)
        for index in snapshot.changes.indices where !snapshot.unreadable.contains(snapshot.changes[index].user) {
            if weigh(&snapshot.changes[index], isWarming: snapshot.isWarming) { isUnsure = true }
        }
        return isUnsure
    }

    /// The same of one user's record. What its leases add up to counts only once their nodes had time to renew them.
    package func judge(_ record: inout PresenceRecord, at now: Instant) -> Bool {
        if isSettling(at: now) { record.change = record.kept }
        return weigh(&record.change, isWarming: record.isWarming) || isStale || isSettling(at: now)
    }

    private func weigh(_ change: inout PresenceChange, isWarming: Bool) -> Bool {
        if let known = known(insteadOf: change) {
            change = known.change
            return known.isSuspect
        }
        // Who is missing from a store that has lost its data may only not have been written again. A node that saw no loss can't tell that from
        // a store that is new.
        return change.version == 0 && isWarming && settledAt != nil
    }
}
