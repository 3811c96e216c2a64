import HubBase
import HubWire

// False offlines: counted where they can be known, on the node that holds the connection.
extension PresenceMachine {
    /// A node that isn't asked to tick for so long stood still.
    private static let pauseMin = Span.seconds(1)

    mutating func watchSoundness(at now: Instant) {
        if now.since(tickedAt) > PresenceMachine.pauseMin { soundSince = now }
        tickedAt = now
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
