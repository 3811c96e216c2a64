import HubBase
import HubCore
import HubWire

extension CommandEncoder {
    /// Redis's time; of each partition five replies (`StatesCall.OfPartition`); of each user the record's head.
    func states(_ call: StatesCall, _ out: inout ByteBuffer) {
        out.command(1)
        out.argument("TIME")
        for partition in call.partitions {
            let prefix = keys.partitions[partition]
            out.command(8)
            out.argument("HMGET")
            out.argument(key: prefix, KeySpace.Kind.presenceMeta)
            for field: StaticString in ["wa", "e", "s", "sw", "ho", "v"] { out.argument(field) }
            out.command(2)
            out.argument("HLEN")
            out.argument(key: prefix, KeySpace.Kind.presenceMeta)
            for kind in [KeySpace.Kind.leases, KeySpace.Kind.grace] {
                out.command(3)
                out.argument("ZSCORE")
                out.argument(key: prefix, kind)
                out.argument("")
            }
            let users = call.usersOf[partition] ?? []
            out.command(1 + users.count)
            out.argument("EXISTS")
            for user in users { out.argument(key: prefix, KeySpace.Kind.user, user.bytes) }
        }
        for user in call.users {
            out.command(5)
            out.argument("HMGET")
            out.argument(key: keys.partitions[Partition.of(user)], KeySpace.Kind.user, user.bytes)
            out.argument("s")
            out.argument("v")
            out.argument("t")
        }
    }
}
