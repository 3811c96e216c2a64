import HubBase
import HubCore
import HubWire

/// A call of the members' scripts, all on the same keys of a channel.
struct MembersCall {
    enum Kind {
        case change([MemberCount], MembersKnown, mayBeLate: Bool)
        case refresh(MemberRole, MembersKnown)
        case reap(Name)
        case list(cursor: String, limit: Int, whole: Int)
        case look
    }

    var channel: Name
    var kind: Kind
    var tag: RequestTag
    /// When it was decided on: it may wait before it leaves.
    var at: Instant
    /// A look, and a reap that comes of it, are steps of a sweep.
    var sweep: MemberSweep?
    /// Of a reap: users who left so far, and steps taken.
    var reaped = 0
    var steps = 0
    /// Where the next step begins.
    var cursor = [UInt8]("0".utf8)
}

extension CommandEncoder {
    func members(_ call: MembersCall, _ out: inout ByteBuffer, _ scripts: ScriptTable) {
        switch call.kind {
        case .change(let users, let known, let mayBeLate):
            out.call(.members, scripts, keys: 8, arguments: 11 + 2 * users.count)
            membersKeys(call.channel, of: incarnation, &out)
            out.argument(incarnation.bytes)
            out.argument(decimal: timers.lease(as: .host).milliseconds)
            out.argument(decimal: membersTTL.milliseconds)
            out.argument(hookRules)
            out.argument(call.channel.bytes)
            memberStart(&out)
            out.argument(decimal: known.sequence)
            out.argument(decimal: known.call)
            out.argument(decimal: call.tag.low)
            if !mayBeLate, let time = clocks.time(Partition.of(call.channel), at: call.at) {
                out.argument(decimal: time)
            } else {
                out.argument("")
            }
            for user in users {
                out.argument(decimal: UInt64(user.devices))
                out.argument(user.user.bytes)
            }
        case .refresh(let role, let known):
            out.call(.memberLease, scripts, keys: 9, arguments: 12)
            membersKeys(call.channel, of: incarnation, asksSweeps: true, &out)
            out.argument(incarnation.bytes)
            out.argument(decimal: timers.longestInChannels.milliseconds)
            out.argument(decimal: membersTTL.milliseconds)
            out.argument(decimal: timers.hold.milliseconds)
            out.argument(role == .observer ? "1" : "0")
            out.argument(call.channel.bytes)
            out.argument(decimal: known.sequence)
            out.argument(decimal: known.call)
            memberStart(&out)
            out.argument(decimal: timers.gapMax.milliseconds)
            out.argument(decimal: timers.lease(as: role).milliseconds)
        case .reap(let node):
            out.call(.memberReap, scripts, keys: 9, arguments: 10)
            membersKeys(call.channel, of: node, asksSweeps: true, &out)
            out.argument(node.bytes)
            out.argument(decimal: membersTTL.milliseconds)
            out.argument(decimal: timers.hold.milliseconds)
            out.argument(decimal: UInt64(MemberLimits.reaped))
            out.argument(call.cursor)
            out.argument(hookRules)
            out.argument(call.channel.bytes)
            memberStart(&out)
            out.argument(decimal: timers.gapMax.milliseconds)
        case .list(let cursor, let limit, let whole):
            out.call(.memberList, scripts, keys: 8, arguments: 3)
            membersKeys(call.channel, of: incarnation, &out)
            out.argument([UInt8](cursor.utf8))
            out.argument(decimal: UInt64(max(1, limit)))
            out.argument(decimal: UInt64(max(0, whole)))
        case .look:
            out.call(.memberLook, scripts, keys: 9, arguments: 9)
            membersKeys(call.channel, of: incarnation, asksSweeps: true, &out)
            out.argument(call.sweep?.mark ?? [])
            out.argument(decimal: timers.longestInChannels.milliseconds)
            out.argument(decimal: membersTTL.milliseconds)
            out.argument(decimal: timers.hold.milliseconds)
            out.argument(hookRules)
            out.argument(call.channel.bytes)
            memberStart(&out)
            out.argument(decimal: timers.gapMax.milliseconds)
        }
    }

    /// Where a channel's sequence begins if it begins now.
    private func memberStart(_ out: inout ByteBuffer) {
        out.argument(decimal: timers.sequenceStep)
        out.argument(decimal: UInt64.random(in: 0..<timers.sequenceStep))
    }

    func memberFind(_ sweep: MemberSweep, _ out: inout ByteBuffer, _ scripts: ScriptTable) {
        let prefix = keys.partitions[sweep.partition]
        out.call(.memberFind, scripts, keys: 2, arguments: 6)
        out.argument(key: prefix, KeySpace.Kind.occupied)
        out.argument(key: prefix, KeySpace.Kind.memberSweeps)
        out.argument(decimal: UInt64(MemberSweep.limit))
        // A sweep that goes on isn't held up by its own beginning.
        out.argument(decimal: sweep.rounds == 0 ? timers.memberSweepInterval.milliseconds : 0)
        out.argument(decimal: timers.gapMax.milliseconds)
        out.argument(decimal: timers.hold.milliseconds)
        out.argument(decimal: timers.longestInChannels.milliseconds)
        out.argument(decimal: membersTTL.milliseconds)
    }

    /// More than lease and hold together, so that nothing ends before its node may be taken for dead.
    private var membersTTL: Span { max(MemberLimits.ttl, timers.userTTL) }

    /// `asksSweeps`: scripts that may take a node for dead, and ask first when its partition was swept.
    private func membersKeys(_ channel: Name, of node: Name, asksSweeps: Bool = false, _ out: inout ByteBuffer) {
        let prefix = keys.partitions[Partition.of(channel)]
        out.argument(key: prefix, KeySpace.Kind.memberLeases, channel.bytes)
        out.argument(key: prefix, KeySpace.Kind.memberMeta, channel.bytes)
        out.argument(key: prefix, KeySpace.Kind.memberUsers, channel.bytes)
        out.argument(key: prefix, KeySpace.Kind.live, channel.bytes)
        // No incarnation holds a colon: the last one divides the two.
        out.argument(key: prefix, KeySpace.Kind.memberNode, channel.bytes + [UInt8(ascii: ":")] + node.bytes)
        out.argument(key: prefix, KeySpace.Kind.hookQueue)
        out.argument(key: prefix, KeySpace.Kind.hookCounts)
        out.argument(key: prefix, KeySpace.Kind.occupied)
        if asksSweeps { out.argument(key: prefix, KeySpace.Kind.memberSweeps) }
    }
}
