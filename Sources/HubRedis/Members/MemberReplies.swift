import HubBase
import HubCore
import HubWire

/// Replies to the members' scripts, and what comes over a channel about its members, read without trusting them.
package enum MemberReplies {
    package static func tip(_ reply: borrowing Reply) -> MembersTip? {
        guard reply.elements(0) == 4, let (sequence, begun, occupancy) = place(reply, at: 1), let isNew = reply.integer(4) else {
            return nil
        }
        return MembersTip(sequence: sequence, begun: begun, occupancy: occupancy, isNew: isNew == 1)
    }

    package static func lease(_ reply: borrowing Reply) -> MembersLease? {
        guard let count = reply.elements(0), (5...16).contains(count), reply.count == count + 1, let isKnown = reply.integer(1),
            let (sequence, begun, occupancy) = place(reply, at: 2), let end = reply.string(5)
        else { return nil }
        var dead: [Name] = []
        for index in 6..<max(6, reply.count) {
            guard let node = reply.string(index).flatMap({ Name(validating: $0, limit: 64) }) else { return nil }
            dead.append(node)
        }
        return MembersLease(
            isKnown: isKnown == 1, sequence: sequence, begun: begun, occupancy: occupancy, othersEnd: end.decimal.map { .milliseconds($0) },
            dead: dead)
    }

    package static func list(_ reply: borrowing Reply) -> MembersList? {
        guard reply.elements(0) == 5, let (sequence, begun, occupancy) = place(reply, at: 1), let cursor = reply.string(4),
            MemberLimits.isCursor(cursor), let fields = reply.elements(5), fields % 2 == 0, reply.count == 6 + fields
        else { return nil }
        var members: [MemberEntry] = []
        members.reserveCapacity(fields / 2)
        for index in stride(from: 6, to: 6 + fields, by: 2) {
            guard let user = reply.string(index).flatMap({ Name(validating: $0) }),
                let devices = reply.string(index + 1)?.decimal.flatMap({ UInt32(exactly: $0) }), devices > 0
            else { return nil }
            members.append(MemberEntry(user: user, devices: devices))
        }
        let isLast = cursor.equals("0")
        return MembersList(
            members: members, sequence: sequence, begun: begun, occupancy: occupancy,
            cursor: isLast ? nil : String(decoding: cursor, as: UTF8.self))
    }

    private static func place(_ reply: borrowing Reply, at index: Int) -> (sequence: UInt64, begun: UInt64, occupancy: UInt64)? {
        guard let sequence = reply.string(index)?.decimal, sequence < 1 << 53, let begun = reply.string(index + 1)?.decimal,
            begun < 1 << 53,
            let occupancy = reply.integer(index + 2), occupancy >= 0
        else { return nil }
        return (sequence, begun, UInt64(occupancy))
    }
}

extension MembersNews {
    /// What one message may hold: a step of a reap, and the small hash that such a step may take whole.
    package static let usersMax = 1_024

    /// `J:`, `L:` or `U:`, sequence, `:`, occupancy, `:` and entries of `devices:length:user`; or `R:`, sequence, `:0:` and a node.
    package init?(_ message: UnsafeRawBufferPointer) {
        let colon = UInt8(ascii: ":")
        var rest = message
        guard let letter = rest.take(until: colon, limit: 1), letter.count == 1,
            let sequence = rest.take(until: colon, limit: 16)?.decimal, sequence >= 1, sequence < 1 << 53,
            let occupancy = rest.take(until: colon, limit: 16)?.decimal, occupancy < 1 << 53
        else { return nil }
        let kind: Kind
        switch letter[0] {
        case UInt8(ascii: "J"): kind = .joined
        case UInt8(ascii: "L"): kind = .left
        case UInt8(ascii: "U"): kind = .updated
        case UInt8(ascii: "R"):
            guard let node = Name(validating: rest, limit: 64) else { return nil }
            self.init(kind: .rejoin(by: node), sequence: sequence, occupancy: occupancy)
            return
        default: return nil
        }
        var users: [MemberCount] = []
        while rest.count > 0 {
            guard users.count < MembersNews.usersMax,
                let devices = rest.take(until: colon, limit: 10)?.decimal.flatMap({ UInt32(exactly: $0) }),
                (devices == 0) == (kind == .left), let length = rest.take(until: colon, limit: 3)?.decimal,
                let user = rest.take(count: Int(length)).flatMap({ Name(validating: $0) })
            else { return nil }
            users.append(MemberCount(user: user, devices: devices))
        }
        guard !users.isEmpty else { return nil }
        self.init(kind: kind, sequence: sequence, occupancy: occupancy, users: users)
    }
}
