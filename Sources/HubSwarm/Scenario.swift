import HubBase

/// What a crowd does, and for how long: a file of JSON5 (docs/swarm.md), read by `ScenarioReader` and bounded by `ScenarioField`.
///
/// All "every" are means of exponential gaps; an absent one means never.
package struct Scenario: Sendable, Equatable {
    package var name = "unnamed"
    package var about = ""
    /// People. Each has one device or several, and each device is a bot with a connection of its own.
    package var users = 100
    /// How many people out of all have one device, two, …: in any unit, since only the relation counts.
    package var devices = [1.0]

    package var rampUp: Span = .seconds(10)
    package var warmUp: Span = .seconds(5)
    package var steady: Span = .seconds(30)
    package var coolDown: Span = .seconds(5)

    package var rooms = Rooms()
    package var session = Session()
    package var talk = Talk()
    /// Mean time between two read marks of a device in a room that had something new.
    package var readEvery: Span?
    /// Mean time until a device says that its user is away, and how long that lasts.
    package var away = Absence()
    package var roster = Roster()
    /// The network goes away without a word, and comes back: the device resumes from where it stood.
    package var loss = Absence()
    /// The same for longer: what came meanwhile is recovered by position.
    package var sleep = Absence()
    package var herd = Herd()
    package var hostile = Hostile()

    package init() {}

    package struct Rooms: Sendable, Equatable {
        package var count = 10
        /// Zipf's exponent: 0 makes all rooms alike, 1 gives the n-th room an n-th of the first one's people.
        package var popularity = 0.0
        /// How many a user is in.
        package var joined = 1
    }

    package struct Session: Sendable, Equatable {
        package enum Shape: String, Sendable, CaseIterable { case exponential, logNormal }
        /// nil: whoever comes stays.
        package var length: Span?
        package var shape = Shape.logNormal
        /// Of the log-normal shape: the standard deviation of the logarithm.
        package var spread = 1.0
        /// Mean time between two sessions of a device.
        package var pause: Span = .seconds(30)
    }

    package struct Talk: Sendable, Equatable {
        package enum Class: String, Sendable, CaseIterable { case chat, event }
        /// Mean time between two messages of a device.
        package var every: Span?
        package var kind = Class.chat
        /// Bytes of a payload; its own fields need some 80 anyway.
        package var size = 0
        /// How many users speak at all; nil: everybody.
        package var speakers: Int?
        /// How long before a message the device says that its user is typing; nil: it doesn't.
        package var typing: Span?
        /// Who was seen typing is to be seen to have stopped so long after the last sign: it has to be above the hub's `typing.expire`.
        package var stopsWithin: Span = .seconds(10)
    }

    package struct Absence: Sendable, Equatable {
        package var every: Span?
        package var lasts: Span = .seconds(5)

        package init(every: Span? = nil, lasts: Span = .seconds(5)) {
            self.every = every
            self.lasts = lasts
        }
    }

    package struct Roster: Sendable, Equatable {
        /// How many others each device watches.
        package var users = 0
        /// How late a watcher may learn that somebody came, and that somebody left: later is stale.
        package var onlineWithin: Span = .seconds(10)
        package var offlineWithin: Span = .seconds(45)
    }

    /// Everybody loses the connection at once and wants it back.
    package struct Herd: Sendable, Equatable {
        /// After the steady time began; nil: no herd.
        package var at: Span?
        /// How often it comes again; nil: once.
        package var every: Span?
        /// Of all devices.
        package var share = 1.0
        /// For how long they have no network, and then all at the same instant have it again. Zero: only the connections break, and the
        /// clients' own backoff spreads them.
        package var lasts: Span = .zero
    }

    /// Connections beside the normal ones, whose latency isn't counted.
    package struct Hostile: Sendable, Equatable {
        package var slow = 0
        package var halfOpen = 0
        /// Sockets that never say a word, and such that say half a request's head.
        package var silent = 0
        package var halfHead = 0
        package var floods = 0
        package var garbage = 0
        /// Messages a second of each that floods.
        package var rate = 1000.0

        package var count: Int { slow + halfOpen + silent + halfHead + floods + garbage }
    }

    // MARK: What follows from it

    /// From the first connection until nobody says anything any more.
    package var talkingEnds: Span { rampUp + warmUp + steady }
    /// When what is measured counts.
    package var measuredFrom: Span { rampUp + warmUp }

    /// For people who look on.
    package func phase(at elapsed: Span) -> String {
        if elapsed < rampUp { return "ramp-up" }
        if elapsed < measuredFrom { return "warm-up" }
        return elapsed < talkingEnds ? "steady" : "cool-down"
    }

    /// How many devices a user has, the same for everyone who asks: shares are dealt out by number, not drawn, so that a thousand users have
    /// exactly as many devices as the file says, and everybody knows everybody's.
    package func devices(of user: Int) -> Int {
        guard devices.count > 1 else { return 1 }
        let total = devices.reduce(0, +)
        // A step that has no common factor with anything runs through the shares evenly.
        let place = (Double(user) * 0.618_033_988_749_894_9).truncatingRemainder(dividingBy: 1) * total
        var passed = 0.0
        for (index, share) in devices.enumerated() {
            passed += share
            if place < passed { return index + 1 }
        }
        return devices.count
    }

    /// Bots of users `range`, the hostile ones not among them.
    package func bots(of range: Range<Int>) -> Int { range.reduce(0) { $0 + devices(of: $1) } }
}
