import HubBase
import HubWire

/// What can go wrong with a backend, for tests and simulations (redis-design §6). Nothing here is called otherwise.
struct Faults {
    var feedDrops = 0
    var failures = 0
    var failure = WireError(.unavailable, "made to fail", retryAfter: 2_000)
    var isDown = false
    var answersLost = 0

    mutating func refusal() -> WireError? {
        if isDown { return failure }
        guard failures > 0 else { return nil }
        failures -= 1
        return failure
    }

    /// What takes the place of an answer to what was carried out.
    mutating func lost() -> WireError? {
        guard answersLost > 0 else { return nil }
        answersLost -= 1
        return failure
    }

    mutating func dropsFeed() -> Bool {
        guard feedDrops > 0 else { return false }
        feedDrops -= 1
        return true
    }
}

extension MemoryBroker {
    /// The next `count` publications reach history but no subscriber.
    package func dropFeed(_ count: Int) { faults.feedDrops += count }

    /// The next `count` calls are refused, without effect.
    package func failNext(_ count: Int, with error: WireError) {
        faults.failures += count
        faults.failure = error
    }

    /// Positions, history, ids and read positions are gone; channels begin with new epochs.
    package func loseAllData() {
        eachChannel { $0.loseData() }
        endGeneration()
    }

    /// As after five days: what stood at an origin can't be proved any more.
    package func endGeneration() { generation = Generation(word: newEpoch(), ends: .distantFuture) }

    /// As after a failover that lost the last `count` writes of a channel: its offsets are given out again. Bounded by what history holds.
    package func rollBack(_ channel: Name, by count: Int) { rollBackChannel(channel, by: count) }

    package func setHealth(_ health: BackendHealth) {
        faults.isDown = health != .up
        queueHealth(health)
    }
}

extension MemoryBroker {
    /// What is kept right now.
    package struct Held: Equatable, Sendable {
        package var channels: Int
        package var publications: Int
        package var messageIds: Int
        package var readPositions: Int
        package var bytes: Int

        package init(channels: Int, publications: Int, messageIds: Int, readPositions: Int, bytes: Int) {
            self.channels = channels
            self.publications = publications
            self.messageIds = messageIds
            self.readPositions = readPositions
            self.bytes = bytes
        }
    }
}
