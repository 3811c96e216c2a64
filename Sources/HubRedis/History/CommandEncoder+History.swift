import HubBase
import HubCore
import HubWire

extension CommandEncoder {
    func history(_ call: HistoryCall, _ out: inout ByteBuffer, _ scripts: ScriptTable) {
        let query = call.query
        let prefix = keys.partitions[Partition.of(call.channel)]
        var continued: Position?
        if case .position(let position)? = query.after { continued = position }
        out.call(.history, scripts, keys: 3, arguments: continued == nil ? 10 : 13)
        out.argument(key: prefix, KeySpace.Kind.meta, call.channel.bytes)
        out.argument(key: prefix, KeySpace.Kind.stream, call.channel.bytes)
        out.argument(key: prefix, KeySpace.Kind.generation)
        out.argument(chance.mark())
        out.argument(decimal: CommandEncoder.exact(query.after?.place ?? 0) + 1)
        // Offset 0 is before the first: nothing lies between.
        let before = query.before?.place.map { CommandEncoder.exact($0) }
        out.argument(decimal: before.map { $0 == 0 ? 0 : $0 - 1 } ?? CommandEncoder.exactMax)
        time(query.after, &out)
        time(query.before, &out)
        out.argument(query.isReverse ? "1" : "0")
        out.argument(decimal: UInt64(min(max(1, query.limit), HistoryReads.limitMax)))
        out.argument(decimal: UInt64(min(max(0, query.bytesMax), HistoryReads.bytesMax)))
        if case .position(let place)? = query.before, !place.isOrigin {
            out.argument(decimal: CommandEncoder.exact(place.offset))
            out.argument(place.tag)
        } else {
            out.argument("")
            out.argument("")
        }
        if let continued {
            out.argument(continued.epoch)
            out.argument(decimal: CommandEncoder.exact(continued.offset))
            out.argument(continued.tag)
        }
    }

    private func time(_ bound: HistoryQuery.Bound?, _ out: inout ByteBuffer) {
        if case .time(let time)? = bound { out.argument(decimal: CommandEncoder.exact(time)) } else { out.argument("") }
    }

    /// Where a channel stands that has no record.
    func tip(_ channel: Name, _ out: inout ByteBuffer, _ scripts: ScriptTable) {
        let prefix = keys.partitions[Partition.of(channel)]
        out.call(.tip, scripts, keys: 3, arguments: 1)
        out.argument(key: prefix, KeySpace.Kind.meta, channel.bytes)
        out.argument(key: prefix, KeySpace.Kind.stream, channel.bytes)
        out.argument(key: prefix, KeySpace.Kind.generation)
        out.argument(chance.mark())
    }

    func marks(_ call: MarksCall, _ out: inout ByteBuffer, _ scripts: ScriptTable) {
        let prefix = keys.partitions[Partition.of(call.channel)]
        out.call(.marks, scripts, keys: 2, arguments: 2)
        out.argument(key: prefix, KeySpace.Kind.meta, call.channel.bytes)
        out.argument(key: prefix, KeySpace.Kind.reads, call.channel.bytes)
        out.argument(call.user.bytes)
        out.argument(decimal: UInt64(min(max(1, call.limit), ReadMark.perChannel)))
    }

    /// Where the sender of a retry knew the channel to be: what history is searched from.
    func since(_ position: Position?, _ out: inout ByteBuffer) {
        out.argument(position?.epoch ?? .none)
        if let position { out.argument(decimal: CommandEncoder.exact(position.offset)) } else { out.argument("") }
        out.argument(position?.tag ?? .none)
    }

    /// Lua's numbers are exact up to here; no offset and no time of ours is larger, so what is cut to it is still beyond all of them.
    static let exactMax: UInt64 = 1 << 53

    static func exact(_ value: UInt64) -> UInt64 { min(value, exactMax) }
}
