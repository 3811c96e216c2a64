import HubBase
import HubWire

// False offlines: counted where they can be known, on the node that holds the connection.
extension PresenceMachine {
    /// A node that isn't asked to tick for so long stood still. (With heartbeats of tests less than that makes a renewal late for a hold.)
    private var pauseMin: Span { min(.seconds(1), timers.heartbeat.scaled(by: 0.5)) }

    mutating func watchSoundness(at now: Instant) {
        let pause = now.since(tickedAt)
        if pause > pauseMin { soundSince = now }
        if pause > timers.lease.minus(timers.heartbeat.scaled(by: 1.1)) {
            for partition in partitions.indices { doubt(partition) }
        }
        tickedAt = now
    }

    /// The partition's leases may be over, and their users offline: until the next refresh says which, no connection is written again that only
    /// turned idle, or active, meanwhile.
    mutating func doubt(_ partition: Int) {
        partitions[partition].isDoubtful = !partitions[partition].leases.isEmpty
        partitions[partition].doubtEndsWith = 0
    }

    mutating func endDoubt(_ partition: Int) {
        partitions[partition].isDoubtful = false
        for place in partitions[partition].leases { queue(Int(place)) }
    }

    /// What the feed says of a user with a connection here: offline is false if for a whole lease nothing was wrong with this node, and the store
    /// has acknowledged a connection that others may see, with nothing under way that could change it.
    /// After a pause the news that piled up comes before the next tick.
    mutating func judge(_ change: PresenceChange, of place: Int, at now: Instant) {
        watchSoundness(at: now)
        guard change.status == .offline, users[place].connections > 0, isUp, now.since(soundSince) > timers.lease,
            // One that is older than what our own operation was answered with is news of the past.
            change.version > users[place].floor
        else { return }
        let isShown = partitions[Int(users[place].partition)].leases.contains { lease in
            let connection = connections[Int(lease)]
            return Int(connection.user) == place && connection.phase == .open && connection.errand == .none && connection.proof == .fine
                && connection.state != .invisible && connection.stored == .holds(connection.state)
        }
        if isShown { falseOfflines += 1 }
    }
}
