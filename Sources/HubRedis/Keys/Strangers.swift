import HubBase
import HubCore
import HubWire

/// Keys of ours that somebody else has: found out by name once a call has failed for one, and told to whoever runs the hub.
struct Strangers {
    /// A key is told again after this; so many keys at most in that time, whatever Redis holds.
    static let interval: Span = .seconds(60)
    static let toldMax = 64
    /// Look-ups under way at once: each costs as much as a call.
    static let looksMax = 4

    private var told: [[UInt8]: Instant] = [:]
    private var looks = 0

    /// Whether a look-up may be made; it counts as under way.
    mutating func begin() -> Bool {
        guard looks < Strangers.looksMax else { return false }
        looks += 1
        return true
    }

    mutating func ended() { looks -= 1 }

    /// Whether the key is news.
    mutating func tells(_ key: [UInt8], at now: Instant) -> Bool {
        if let last = told[key], now.since(last) < Strangers.interval { return false }
        if told.count >= Strangers.toldMax { told = told.filter { now.since($0.value) < Strangers.interval } }
        guard told.count < Strangers.toldMax else { return false }
        told[key] = now
        return true
    }
}

/// A key with what it should hold.
struct KeyOfOurs {
    enum Kind {
        case hash, sortedSet, stream, string

        /// As strangers.lua has it.
        var letter: StaticString {
            switch self {
            case .hash: "h"
            case .sortedSet: "z"
            case .stream: "x"
            case .string: "s"
            }
        }
    }

    var kind: Kind
    var key: [UInt8]
    /// By which a script's error names it, where it's of the right type and all the same not ours.
    var word: StaticString
}

struct StrangersCall {
    var keys: [KeyOfOurs]
    var lane: Int
    /// The error that made us look.
    var text: String
}

extension RedisBackend {
    /// One of a call's keys holds something else, as `text` says: which one is asked, unless it's said.
    func foreign(_ call: Call, _ text: String) {
        let keys = encoder.keys(of: call)
        if let named = keys.first(where: { text.contains("\($0.word)") }) ?? (keys.count == 1 ? keys.first : nil),
            !text.contains("WRONGTYPE")
        {
            return tell(named.key)
        }
        guard !keys.isEmpty, link.refusal() == nil, strangers.begin() else { return }
        link.send(.strangers(StrangersCall(keys: keys, lane: call.lane, text: text)))
    }

    /// The key of one of its replies does.
    func foreign(_ call: Call, reply place: Int) {
        let keys = encoder.keys(of: call)
        if place >= 1, place <= keys.count { tell(keys[place - 1].key) }
    }

    /// The record of one of its users is.
    func tellForeign(_ call: Call, user place: Int) {
        let records = encoder.keys(of: call).filter { "\($0.word)" == "\(CommandEncoder.recordWord)" }
        if place < records.count { tell(records[place].key) }
    }

    func strangersFound(_ call: StrangersCall, _ reply: borrowing Reply) {
        strangers.ended()
        for place in 1..<max(1, reply.count) {
            guard let index = reply.integer(place), index >= 0, index < Int64(call.keys.count) else { continue }
            tell(call.keys[Int(index)].key)
        }
    }

    private func tell(_ key: [UInt8]) { if strangers.tells(key, at: loop.now) { broker?.delegate?.foreignKey(key) } }
}
