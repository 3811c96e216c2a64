import HubBase

/// The Lua scripts: all that must hold together in Redis is one of them (redis-design §1, §2, §4). Their files say what each does.
package enum Script: Int, CaseIterable {
    case publish, retry, history, tip, read, marks, apply, refresh, find, expire, inspect, announce, failover, settle, hooks, strangers
    case members, memberLease, memberReap, memberList, memberFind, memberLook, renew, rights

    /// What's loaded: apply and expire share three beginnings, the scripts of a channel others; what a retry doesn't settle is published as ever.
    package var source: [UInt8] {
        switch self {
        case .publish: PackageResources.form_lua + PackageResources.origin_lua + PackageResources.publish_lua
        case .retry:
            PackageResources.form_lua + PackageResources.origin_lua + PackageResources.chain_lua + PackageResources.retry_lua
                + PackageResources.publish_lua
        case .history: PackageResources.form_lua + PackageResources.origin_lua + PackageResources.chain_lua + PackageResources.history_lua
        case .tip: PackageResources.form_lua + PackageResources.origin_lua + PackageResources.chain_lua + PackageResources.tip_lua
        case .read: PackageResources.form_lua + PackageResources.read_lua
        case .marks: PackageResources.form_lua + PackageResources.marks_lua
        case .apply:
            PackageResources.hookqueue_lua + PackageResources.partition_lua + PackageResources.presence_lua + PackageResources.apply_lua
        case .refresh: PackageResources.refresh_lua
        case .find: PackageResources.partition_lua + PackageResources.find_lua
        case .expire:
            PackageResources.hookqueue_lua + PackageResources.partition_lua + PackageResources.presence_lua + PackageResources.expire_lua
        case .inspect: PackageResources.partition_lua + PackageResources.inspect_lua
        case .announce: PackageResources.announce_lua
        case .failover: PackageResources.failover_lua
        case .settle: PackageResources.settle_lua
        case .hooks: PackageResources.hooks_lua
        case .strangers: PackageResources.strangers_lua
        case .members: PackageResources.hookqueue_lua + PackageResources.member_lua + PackageResources.members_lua
        case .memberLease: PackageResources.hookqueue_lua + PackageResources.member_lua + PackageResources.memberlease_lua
        case .memberReap: PackageResources.hookqueue_lua + PackageResources.member_lua + PackageResources.memberreap_lua
        case .memberFind: PackageResources.memberfind_lua
        case .memberLook: PackageResources.hookqueue_lua + PackageResources.member_lua + PackageResources.memberlook_lua
        case .memberList: PackageResources.hookqueue_lua + PackageResources.member_lua + PackageResources.memberlist_lua
        case .renew: PackageResources.form_lua + PackageResources.renew_lua
        case .rights: PackageResources.rights_lua
        }
    }
}

extension Script {
    /// As it runs in a cluster: what it publishes goes to its shard alone (SPUBLISH, Redis 7), not to every node. Both commands have the same
    /// arguments.
    package var shardedSource: [UInt8] {
        let word = [UInt8]("'PUBLISH'".utf8)
        var source: [UInt8] = []
        var rest = self.source[...]
        while let quote = rest.firstIndex(of: word[0]) {
            source += rest[..<quote]
            rest = rest[quote...]
            if rest.starts(with: word) {
                source += [UInt8]("'SPUBLISH'".utf8)
                rest = rest.dropFirst(word.count)
            } else {
                source.append(rest.removeFirst())
            }
        }
        return source + rest
    }
}

/// The scripts' digests as Redis named them when it loaded them: that's what EVALSHA takes, so nobody computes a SHA-1 here.
package struct ScriptTable {
    private var digests = [[UInt8]](repeating: [], count: Script.allCases.count)

    /// False when it isn't a digest: 40 hex digits.
    package mutating func loaded(_ script: Script, digest: UnsafeRawBufferPointer) -> Bool {
        guard digest.count == 40, digest.allSatisfy({ (48...57).contains($0) || (97...102).contains($0) }) else { return false }
        digests[script.rawValue] = [UInt8](digest)
        return true
    }

    package func digest(_ script: Script) -> [UInt8] { digests[script.rawValue] }
}

extension ByteBuffer {
    /// `SCRIPT LOAD` of one script. `isSharded`: for a cluster. `name`, one line: makes it a text of its own, with a digest of its own, so that
    /// nobody else's load of the script is taken for this one.
    package mutating func load(_ script: Script, isSharded: Bool, as name: [UInt8]? = nil) {
        command(3)
        argument("SCRIPT")
        argument("LOAD")
        let source = isSharded ? script.shardedSource : script.source
        argument(name.map { source + [UInt8]("\n-- ".utf8) + $0 } ?? source)
    }

    /// The head of a call: `keys` keys and then `arguments` arguments follow.
    package mutating func call(_ script: Script, _ table: ScriptTable, keys: Int, arguments: Int) {
        command(3 + keys + arguments)
        argument("EVALSHA")
        argument(table.digest(script))
        argument(decimal: UInt64(keys))
    }
}
