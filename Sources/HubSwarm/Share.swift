import HubBase

/// What one process of a run does: the whole of it, or one worker's part. All of a run's processes have the same seed and beginning.
package struct Share: Sendable, Equatable {
    package var scenario: Scenario
    package var seed: UInt64
    /// Tells this run's rooms, users and messages from those of any other.
    package var run: UInt64
    /// Which of how many, from 0.
    package var index: Int
    package var count: Int
    /// On the host's monotonic clock.
    package var start: Instant

    package init(_ scenario: Scenario, seed: UInt64, run: UInt64, index: Int = 0, of count: Int = 1, start: Instant) {
        precondition(index >= 0 && index < count, "a share beyond the last")
        self.scenario = scenario
        self.seed = seed
        self.run = run
        self.index = index
        self.count = count
        self.start = start
    }

    /// The numbers of its users. What is left over goes to the first ones.
    package var users: Range<Int> { Self.part(scenario.users, index, count) }

    /// Its rooms: people meet within a share, so that each process can judge what its own were owed without asking the others. A run
    /// with fewer rooms than processes shares them all: then what others said last isn't known to be owed (`sharesRooms`).
    package var rooms: Range<Int> { sharesRooms ? 0..<scenario.rooms.count : Self.part(scenario.rooms.count, index, count) }

    package var sharesRooms: Bool { count > 1 && scenario.rooms.count / count < max(scenario.rooms.joined, 1) }

    package func part(of number: Int) -> Int { Self.part(number, index, count).count }

    /// Connections: a bot for each device, and the hostile ones.
    package var bots: Int { scenario.bots(of: users) + hostile.count }

    package var hostile: Scenario.Hostile {
        var hostile = scenario.hostile
        hostile.slow = part(of: hostile.slow)
        hostile.halfOpen = part(of: hostile.halfOpen)
        hostile.silent = part(of: hostile.silent)
        hostile.halfHead = part(of: hostile.halfHead)
        hostile.floods = part(of: hostile.floods)
        hostile.garbage = part(of: hostile.garbage)
        return hostile
    }

    /// Of a bot: far apart for neighbours, because `Chance` mixes it.
    package func seed(of bot: Int) -> UInt64 {
        (seed &+ UInt64(index) &* 0x9E37_79B9) &* 0x2545_F491_4F6C_DD1D &+ UInt64(bitPattern: Int64(bot))
    }

    /// Who speaks: the first ones of all.
    package func isSpeaker(user: Int) -> Bool { scenario.talk.speakers.map { user < $0 } ?? true }

    private static func part(_ number: Int, _ index: Int, _ count: Int) -> Range<Int> {
        let each = number / count
        let rest = number % count
        let first = index * each + min(index, rest)
        return first..<first + each + (index < rest ? 1 : 0)
    }
}
