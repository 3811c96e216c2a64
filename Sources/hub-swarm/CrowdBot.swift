import HubBase
import HubSwarm
import HubWire

/// One bot beside its client machine: where it is in its day, what it said, what it couldn't say yet.
struct CrowdBot {
    /// A message that was due while its bot had no connection: sent as soon as it has one, late as it is.
    struct Waiting {
        var due: UInt64
        var room: Int
    }

    var machine: BotMachine
    /// Of the share's users, from 0.
    let user: Int
    let device: Int
    /// Of its last message, and of its last sign of typing; the first has 1.
    var sequence: UInt32 = 0
    var typing: UInt32 = 0
    /// The last of its messages that anybody was handed (`RoomJournal.deliver`).
    var lastDelivered: UInt32 = 0
    /// When its present connection was begun.
    var attempted = Instant(nanoseconds: 0)
    var hasStarted = false
    /// Welcomed, ever.
    var wasIn = false
    /// Counted among its user's connections.
    var isIn = false
    /// What it last asked to be shown as, and when it was to.
    var shown = PresenceStatus.online
    var shownSince = Instant(nanoseconds: 0)
    /// In this session; each connection of it asks again.
    var hasAskedStatus = false
    /// What it asked to be shown as isn't answered yet, or its connection isn't there yet.
    var isStatusUnsure = false
    /// What it saw of others' typing before this stands no more.
    var signsSince = Instant(nanoseconds: 0)
    /// It has no connection because its plan says so.
    var isAwayByPlan = false
    /// A clean leave is under way.
    var isLeaving = false
    /// It was to come back while it was still on its way out.
    var wantsBack = false
    /// The hub took a subscription away, so places in its list aren't those of its rooms any more.
    var hasShifted = false
    var backlog: [Waiting] = []

    static let backlogMax = 64
}

struct CrowdRoom {
    let name: Name
    /// Bots that follow it, and those of them that speak.
    var bots = 0
    var speakers = 0
    var epoch: Mark?
    /// The highest offset of this epoch that a sender got an ack for.
    var acknowledged: UInt64 = 0
    /// Where deliveries aren't remembered one by one.
    var journal = RoomJournal()
}

/// What is counted beside the recorder.
struct CrowdTally {
    var delivered: UInt64 = 0
    var lost: UInt64 = 0
    var duplicated: UInt64 = 0
    var outOfOrder: UInt64 = 0
    var contradictions: UInt64 = 0
    var unasked: UInt64 = 0
    var reconnects: UInt64 = 0
    var recovered: UInt64 = 0
    var notRecovered: UInt64 = 0
    var recoveredMessages: UInt64 = 0
    var resyncs: UInt64 = 0
    var restarts: UInt64 = 0
    var foreign: UInt64 = 0
    var typingSent: UInt64 = 0
    var readsSent: UInt64 = 0
    var everIn: UInt64 = 0
    var notLetIn: UInt64 = 0
    var hostileWelcomes: UInt64 = 0
    var hostileErrors: UInt64 = 0
    var hostileEnds: UInt64 = 0
    var hostileSent: UInt64 = 0

    var counters: [String: UInt64] {
        [
            "reconnects": reconnects, "recovered": recovered, "notRecovered": notRecovered, "recoveredMessages": recoveredMessages,
            "resyncs": resyncs, "restarts": restarts, "foreign": foreign, "typingSent": typingSent, "readsSent": readsSent,
            Measures.Counter.notLetIn: notLetIn,
            Measures.Counter.hostileWelcomes: hostileWelcomes, Measures.Counter.hostileErrors: hostileErrors,
            Measures.Counter.hostileEnds: hostileEnds, Measures.Counter.hostileSent: hostileSent,
        ]
    }
}

/// What the run's users and rooms are called, and back.
struct CrowdNames {
    private let run: String
    private let userPrefix: [UInt8]
    private let roomPrefix: [UInt8]

    init(run: UInt64) {
        self.run = String(run, radix: 36)
        userPrefix = Array("s\(self.run)-".utf8)
        roomPrefix = Array("swarm:\(self.run).".utf8)
    }

    func user(_ number: Int) -> Name { Name(trusted: userPrefix + Array("\(number)".utf8)) }
    func room(_ number: Int) -> Name { Name(trusted: roomPrefix + Array("\(number)".utf8)) }
    func hostile(_ number: Int, of share: Int) -> Name { Name(trusted: userPrefix + Array("h\(share)-\(number)".utf8)) }
    func flood(_ number: Int, of share: Int) -> Name { Name(trusted: Array("swarm:\(run)-flood-\(share)-\(number)".utf8)) }

    /// By whom and when: due times of one bot differ.
    func message(_ bot: Int, of share: Int, due: UInt64) -> Name {
        Name(trusted: Array("\(run)-\(share)-\(bot)-\(String(due, radix: 36))".utf8))
    }

    /// What stands in an envelope: names of a run hold nothing that JSON escapes.
    func isInbox(_ channel: UnsafeRawBufferPointer, of user: Int) -> Bool {
        channel.elementsEqual(Array("user:".utf8) + self.user(user).bytes)
    }

    func userNumber(_ name: UnsafeRawBufferPointer) -> Int? { Self.number(name, behind: userPrefix) }
    func roomNumber(_ name: UnsafeRawBufferPointer) -> Int? { Self.number(name, behind: roomPrefix) }

    private static func number(_ name: UnsafeRawBufferPointer, behind prefix: [UInt8]) -> Int? {
        guard name.count > prefix.count, name.count < prefix.count + 10, name.starts(with: prefix) else { return nil }
        var number = 0
        for byte in name[prefix.count...] {
            guard byte >= 48, byte <= 57 else { return nil }
            number = number * 10 + Int(byte - 48)
        }
        return number
    }
}
