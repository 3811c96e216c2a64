import HubBase
import HubCore
import HubNet
import HubWire

/// Changes of presence on their way to those who watch: collected for a moment, then for each watcher one message, made once for all who are
/// told the same in the same format.
extension GatewayLoop {
    /// Changes of a user within this time reach a watcher as one, the last.
    static let conflation = Span.milliseconds(100)

    func presenceChanged(_ changes: [PresenceChange]) {
        if changesWaiting.isEmpty && !changes.isEmpty {
            _ = net.schedule(after: GatewayLoop.conflation, kind: TimerKind.presenceFlush.rawValue, value: 0)
        }
        noteCauses(of: changes)
        changesWaiting.append(contentsOf: toldToClients(changes))
    }

    /// Sends what was collected: for each user the newest version, for each watcher one message. Allocates for what has changed, nothing for
    /// a watcher.
    func flushPresence() {
        var newest: [(slot: Int, change: PresenceChange)] = []
        var places: [Int: Int] = [:]
        for change in changesWaiting {
            guard let slot = watched.slot(of: change.user) else { continue }
            if let place = places[slot] {
                if newest[place].change.version < change.version { newest[place].change = change }
            } else {
                places[slot] = newest.count
                newest.append((slot, change))
            }
        }
        changesWaiting.removeAll(keepingCapacity: true)
        noteWritten()
        if newest.count == 1 && changesHeld.isEmpty {
            // The usual case: one frame for all watchers of a format.
            let (slot, change) = newest[0]
            for format in WireFormat.allCases where watched.memberCount(of: slot, format) > 0 {
                let frame = net.makeFrame(format.messageKind) { EnvelopeEncoder.presence([change], format: format, into: &$0) }
                watched.withMembers(of: slot, format) { net.broadcast(frame, to: $0, as: .presence, key: Self.key(slot)) }
            }
            return
        }
        // Watcher and place, by watcher: a run for each, and a run that's like another is told the same.
        var pairs: [UInt64] = []
        swap(&pairs, &watcherScratch)
        for (place, entry) in newest.enumerated() {
            for format in WireFormat.allCases {
                watched.withMembers(of: entry.slot, format) { members in
                    for member in members { pairs.append(UInt64(member) << 32 | UInt64(place)) }
                }
            }
        }
        pairs.sort()
        var frames = PresenceFrames()
        var start = 0
        while start < pairs.count {
            let watcher = UInt32(truncatingIfNeeded: pairs[start] >> 32)
            var end = start + 1
            while end < pairs.count, pairs[end] >> 32 == UInt64(watcher) { end += 1 }
            tell(watcher, pairs[start..<end], of: newest, &frames)
            start = end
        }
        pairs.removeAllForReuse()
        swap(&pairs, &watcherScratch)
    }

    private func tell(
        _ watcher: UInt32, _ run: ArraySlice<UInt64>, of newest: [(slot: Int, change: PresenceChange)], _ frames: inout PresenceFrames
    ) {
        guard changePaces[watcher, default: ChangePace(at: net.now)].admits(run.count, at: net.now) else {
            return hold(run.map { newest[PresenceFrames.place($0)] }, for: watcher)
        }
        let id = id(of: watcher)
        let format = sessions[Int(watcher)].format
        if net.queuedBytes(id) == 0 {
            let frame = frames.frame(of: run, format) {
                let changes = run.map { newest[PresenceFrames.place($0)].change }
                return net.makeFrame(format.messageKind) { EnvelopeEncoder.presence(changes, format: format, into: &$0) }
            }
            net.send(frame, to: id, as: .presence)
            return
        }
        // Where messages wait already, each change is one of its own, so that the next one of this user can take its place.
        for place in run.indices {
            let (slot, change) = newest[PresenceFrames.place(run[place])]
            let frame = frames.frame(of: run[place...place], format) {
                net.makeFrame(format.messageKind) { EnvelopeEncoder.presence([change], format: format, into: &$0) }
            }
            net.send(frame, to: id, as: .presence, key: Self.key(slot))
        }
    }

    /// More than one can look at: the newest of each user waits for the second's message.
    private func hold(_ changes: [(slot: Int, change: PresenceChange)], for index: UInt32) {
        if changesHeld.isEmpty { _ = net.schedule(after: ChangePace.second, kind: TimerKind.presencePace.rawValue, value: 0) }
        for (slot, change) in changes { changesHeld[index, default: [:]][slot] = change }
    }

    func flushHeldPresence() {
        let held = changesHeld
        changesHeld = [:]
        for (index, changes) in held {
            // Whom it doesn't watch any more it needn't hear of.
            let wanted = changes.filter {
                watched.isUsed($0.key) && watched.name(at: $0.key) == $0.value.user && watched.contains(index, on: $0.key)
            }
            changePaces[index]?.told(wanted.count, at: net.now)
            guard !wanted.isEmpty else { continue }
            let id = id(of: index)
            if net.queuedBytes(id) == 0 {
                send(to: id, as: .presence) { EnvelopeEncoder.presence(Array(wanted.values), format: $0, into: &$1) }
                continue
            }
            for (slot, change) in wanted {
                send(to: id, as: .presence, key: Self.key(slot)) { EnvelopeEncoder.presence([change], format: $0, into: &$1) }
            }
        }
    }

    /// What makes a newer change stand for an older one that waits in a queue: the user. A slot gets another user only when nobody watches the
    /// first any more, and then nobody misses the older change either.
    private static func key(_ slot: Int) -> UInt64 { UInt64(slot) + 1 }

    private func id(of index: UInt32) -> ConnectionID { ConnectionID(index: index, generation: sessions[Int(index)].generation) }
}

/// The frames of one flush, by what they tell. A run holds the changes' places, each in the low half of a word.
private struct PresenceFrames {
    private struct Made {
        var run: ArraySlice<UInt64>
        var format: WireFormat
        var frame: OutFrame
    }

    private var made: [Made] = []
    private var byHash: [UInt64: Int] = [:]
    private var last = -1

    static func place(_ word: UInt64) -> Int { Int(word & 0xFFFF_FFFF) }

    /// Cost: a look at the run; two where its watcher is told otherwise than the one before.
    mutating func frame(of run: ArraySlice<UInt64>, _ format: WireFormat, make: () -> OutFrame) -> OutFrame {
        if last >= 0, isMade(last, run, format) { return made[last].frame }
        var hash = UInt64(format.rawValue) &+ 0x9E37_79B9_7F4A_7C15
        for word in run { hash = (hash ^ (word & 0xFFFF_FFFF)) &* 0x0000_0100_0000_01B3 }
        if let known = byHash[hash], isMade(known, run, format) {
            last = known
            return made[known].frame
        }
        last = made.count
        byHash[hash] = last
        made.append(Made(run: run, format: format, frame: make()))
        return made[last].frame
    }

    private func isMade(_ number: Int, _ run: ArraySlice<UInt64>, _ format: WireFormat) -> Bool {
        made[number].format == format && made[number].run.count == run.count
            && zip(made[number].run, run).allSatisfy { Self.place($0) == Self.place($1) }
    }
}
