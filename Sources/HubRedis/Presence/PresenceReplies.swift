import HubBase
import HubCore
import HubWire

/// Replies to the presence scripts, read without trusting them.
enum PresenceReplies {
    /// `apply`: a version for each operation. Failure: what isn't ours, or the first refusal; `foreign` for a key that holds something else.
    static func versions(_ reply: borrowing Reply, count: Int, foreign: WireError) -> Result<[UInt64], WireError> {
        guard reply.elements(0) == count, reply.count == count + 1 else { return .failure(.notOurs) }
        var versions: [UInt64] = []
        versions.reserveCapacity(count)
        for index in 1..<reply.count {
            guard let text = reply.string(index) else { return .failure(.notOurs) }
            if text.first == UInt8(ascii: "!") {
                let error = UnsafeRawBufferPointer(rebasing: text.dropFirst())
                return .failure(RedisFault(error).wireError(String(decoding: error.prefix(200), as: UTF8.self), foreign: foreign))
            }
            guard let version = text.decimal, version < 1 << 53 else { return .failure(.notOurs) }
            versions.append(version)
        }
        return .success(versions)
    }

    /// The operations of `apply` whose user's record is somebody else's.
    static func foreign(_ reply: borrowing Reply) -> [Int] {
        (1..<max(1, reply.count)).filter { index in
            guard let text = reply.string(index), text.first == UInt8(ascii: "!") else { return false }
            return RedisFault(UnsafeRawBufferPointer(rebasing: text.dropFirst())) == .foreign
        }.map { $0 - 1 }
    }

    /// `refresh`: indexes below `count`.
    static func indexes(_ reply: borrowing Reply, count: Int) -> Result<[Int], WireError> {
        guard reply.elements(0) == reply.count - 1 else { return .failure(.notOurs) }
        var indexes: [Int] = []
        for place in 1..<max(1, reply.count) {
            guard let index = reply.integer(place), index >= 0, index < Int64(count) else { return .failure(.notOurs) }
            indexes.append(Int(index))
        }
        return .success(indexes)
    }

    /// `find`: fills the sweep; false when it isn't ours to read. No entries: there's nothing to do.
    static func found(_ reply: borrowing Reply, into sweep: inout Sweep) -> Bool {
        sweep.entries = []
        sweep.isFull = false
        guard let elements = reply.elements(0) else { return false }
        sweep.warm = reply.string(1)?.decimal
        guard elements >= 2, let now = reply.string(2) else { return elements <= 1 }
        sweep.now = [UInt8](now)
        sweep.time = now.decimal
        if elements == 2 { return true }
        guard elements == 4 else { return false }
        let leases = 3
        let grace = reply.end(of: leases)
        guard entries(reply, leases, isLease: true, into: &sweep), entries(reply, grace, isLease: false, into: &sweep) else { return false }
        sweep.isFull = sweep.entries.count >= CommandEncoder.sweepLimit
        return true
    }

    private static func entries(_ reply: borrowing Reply, _ list: Int, isLease: Bool, into sweep: inout Sweep) -> Bool {
        guard let count = reply.elements(list), count % 2 == 0, count <= 2 * CommandEncoder.sweepLimit else { return false }
        for index in stride(from: list + 1, to: list + 1 + count, by: 2) {
            guard let member = reply.string(index), let score = reply.string(index + 1) else { return false }
            // Connection ids hold no bar, users may.
            let bar = isLease ? member.lastIndex(of: UInt8(ascii: "|")) : member.count
            guard let bar else { continue }
            sweep.entries.append(
                Sweep.Entry(
                    isLease: isLease, score: [UInt8](score), connection: [UInt8](member[min(bar + 1, member.count)...]),
                    user: [UInt8](member[..<bar])))
        }
        return true
    }

    /// One `HMGET record s v t`. nil when it isn't ours.
    static func state(_ reply: borrowing Reply, of user: Name) -> PresenceChange? {
        guard reply.elements(0) == 3, reply.count == 4 else { return nil }
        guard let text = reply.string(1) else { return PresenceChange(user: user, status: .offline, version: 0, lastSeen: 0) }
        guard let status = PresenceStatus(text), let version = reply.string(2)?.decimal, let moment = reply.string(3)?.decimal,
            version < 1 << 53, moment < 1 << 53
        else { return nil }
        return PresenceChange(user: user, status: status, version: version, lastSeen: moment)
    }

    /// `TIME`, in milliseconds.
    static func time(_ reply: borrowing Reply) -> UInt64? {
        guard reply.elements(0) == 2, let seconds = reply.string(1)?.decimal, let micros = reply.string(2)?.decimal,
            seconds < 1 << 43
        else { return nil }
        return seconds * 1000 + micros / 1000
    }

    /// `inspect`: the record, right even before any sweep: leases that ran out are shown and not counted.
    static func record(_ reply: borrowing Reply, of user: Name, lease: Span) -> PresenceRecord? {
        guard reply.elements(0) == 7, let now = reply.string(1)?.decimal, let fields = reply.elements(2), fields % 2 == 0 else {
            return nil
        }
        let deadlines = reply.end(of: 2)
        let grace = reply.end(of: deadlines)
        guard let deadlineCount = reply.elements(deadlines) else { return nil }
        let warm = reply.end(of: reply.end(of: grace))
        let holdUntil = reply.string(reply.end(of: warm))?.decimal ?? 0
        var change = PresenceChange(user: user, status: .offline, version: 0, lastSeen: 0)
        var connections: [PresenceRecord.Connection] = []
        var lastProof: UInt64 = 0
        var close: PresenceTransition?
        var awaited: [(connection: Name?, state: ConnectionState, until: UInt64)] = []
        var places = 0
        for index in stride(from: 3, to: 3 + fields, by: 2) {
            guard let name = reply.string(index), let value = reply.string(index + 1) else { return nil }
            if name.equals("s") {
                guard let status = PresenceStatus(value) else { return nil }
                change.status = status
            } else if name.equals("v") {
                change.version = value.decimal ?? 0
            } else if name.equals("t") {
                change.lastSeen = value.decimal ?? 0
            } else if name.equals("l") {
                close = TrailEntry.close(value)
            } else if name.hasPrefix("c:") {
                guard places < deadlineCount, let parsed = ConnectionValue.parse(value) else { return nil }
                let deadline = reply.string(deadlines + 1 + places)?.decimal ?? 0
                places += 1
                if name.count > 2, name[2] == UInt8(ascii: "~") {
                    let id = name[(name.count > 3 && name[3] == UInt8(ascii: "~") ? 4 : 3)...]
                    let connection = Name(validating: UnsafeRawBufferPointer(rebasing: id))
                    awaited.append((connection: connection, state: parsed.state, until: deadline))
                    continue
                }
                guard let connection = Name(validating: UnsafeRawBufferPointer(rebasing: name[2...])) else { return nil }
                if parsed.state != .invisible {
                    lastProof = max(lastProof, deadline > lease.milliseconds ? deadline - lease.milliseconds : 0)
                }
                connections.append(
                    PresenceRecord.Connection(
                        connection: connection, node: parsed.node, device: parsed.device, state: parsed.state, since: parsed.since,
                        leaseLeft: deadline > now ? deadline - now : 0))
            }
        }
        let goodbye = reply.string(grace)?.decimal
        let living = connections.lazy.filter { $0.leaseLeft > 0 }.map(\.state)
        let live: PresenceStatus = living.contains(.online) ? .online : living.contains(.away) ? .away : .offline
        let ends = max(awaited.map(\.until).max() ?? 0, goodbye ?? 0)
        let online = awaited.filter { $0.state == .online && $0.until > now }.max { $0.until < $1.until }
        let kept = change
        if now < holdUntil {
            // Nobody could renew anything: what has run out since ends only after the hold.
        } else if live != .offline {
            change.status = online != nil ? .online : live
        } else if ends <= now {
            if change.status != .offline, lastProof > 0 || close != nil { change.lastSeen = max(lastProof, close?.time ?? 0) }
            change.status = .offline
        }
        var record = PresenceRecord(change: change, connections: connections, graceLeft: nil, now: now)
        record.kept = kept
        record.isWarming = reply.string(warm)?.decimal.map { now < $0 } ?? true
        // What stands there of a close may be of one that came back.
        if live == .offline, ends > 0 {
            record.graceLeft = ends > now ? ends - now : 0
            record.close = close
        } else if live == .away, let online {
            record.awaitedLeft = online.until - now
            if close?.connection == online.connection { record.close = close }
        }
        return record
    }

    /// `inspect`: the trail at its end. An entry that isn't ours is left out.
    static func transitions(_ reply: borrowing Reply) -> [PresenceTransition] {
        let list = reply.end(of: reply.end(of: reply.end(of: 2)))
        guard let count = reply.elements(list), count <= PresenceTransition.kept else { return [] }
        return (list + 1..<list + 1 + count).compactMap { reply.string($0).flatMap { TrailEntry.parse($0) } }
    }

    /// `announce`: Redis's clock in milliseconds.
    static func announceTime(_ reply: borrowing Reply) -> UInt64? {
        guard (reply.elements(0) ?? 0) > 0, let now = reply.string(1)?.decimal, now < 1 << 53 else { return nil }
        return now
    }

    /// `announce`: behind that, incarnation, milliseconds left and facts of each living node.
    static func nodes(_ reply: borrowing Reply) -> [NodeEntry]? {
        guard let count = reply.elements(0), count % 3 == 1, reply.count == count + 1 else { return nil }
        var nodes: [NodeEntry] = []
        for index in stride(from: 2, to: 1 + count, by: 3) {
            guard let incarnation = reply.string(index).flatMap({ Name(validating: $0) }), let left = reply.string(index + 1)?.decimal,
                let text = reply.string(index + 2), let (facts, name) = NodeFactsText.parse(text)
            else { continue }
            nodes.append(NodeEntry(incarnation: incarnation, name: name ?? incarnation, left: left, facts: facts))
        }
        return nodes
    }
}
