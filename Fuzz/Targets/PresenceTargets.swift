import HubBase
import HubCore
import HubRedis
import HubWire

/// Whatever comes over a channel about its members, or is answered where the members' scripts were called.
func fuzzMembers(_ bytes: UnsafeRawBufferPointer) throws {
    if let news = MembersNews(bytes) {
        try require(news.sequence >= 1 && news.sequence < 1 << 53 && news.occupancy < 1 << 53, "numbers fit into what the wire carries")
        if case .rejoin = news.kind {
            try require(news.users.isEmpty, "a beginning names nobody")
        } else {
            try require((1...MembersNews.usersMax).contains(news.users.count), "as many users as a script can make")
            try require(
                news.users.allSatisfy { ($0.devices == 0) == (news.kind == .left) && !$0.user.isEmpty },
                "who left has no devices, others have")
        }
        try require(written(news).withUnsafeBytes { MembersNews($0) } == news, "news are read as others when they're written again")
    }
    let reader = ReplyReader()
    reader.feed(bytes)
    while case .reply = reader.next() {
        if let tip = MemberReplies.tip(reader.reply) { try require(tip.sequence < 1 << 53 && tip.begun < 1 << 53, "a tip fits") }
        if let lease = MemberReplies.lease(reader.reply) { try require(lease.dead.count <= 11, "as many dead as a script can name") }
        if let list = MemberReplies.list(reader.reply) {
            try require(list.members.allSatisfy { $0.devices > 0 && !$0.user.isEmpty }, "members are named, and there")
            try require(list.cursor.map { MemberLimits.isCursor($0.utf8) && $0 != "0" } ?? true, "a cursor is one that can be asked for")
        }
        let sweep = MemberSweep(partition: 0, tag: .none)
        if sweep.found(reader.reply) { try require(sweep.channels.count <= MemberSweep.limit, "as many channels as a script can find") }
        if sweep.looked(reader.reply) { try require(sweep.dead.count <= 10, "as many dead as a script can name") }
    }
}

/// As member.lua writes them.
private func written(_ news: MembersNews) -> [UInt8] {
    let (letter, node): (String, Name?) =
        switch news.kind {
        case .joined: ("J", nil)
        case .left: ("L", nil)
        case .updated: ("U", nil)
        case .rejoin(let by): ("R", by)
        }
    var text = [UInt8]("\(letter):\(news.sequence):\(news.occupancy):".utf8)
    for count in news.users { text += [UInt8]("\(count.devices):\(count.user.bytes.count):".utf8) + count.user.bytes }
    return text + (node?.bytes ?? [])
}

/// Whatever Redis answers where a page of the webhooks' queue is expected.
func fuzzHooks(_ bytes: UnsafeRawBufferPointer) throws {
    let reader = ReplyReader()
    reader.feed(bytes)
    while case .reply = reader.next() {
        guard let page = HookReply.page(reader.reply) else { continue }
        try require(page.now < 1 << 53, "the time fits into what the wire carries")
        if case .other(let left) = page.holder { try require(left <= .seconds(86_400), "no lease is longer than a day") }
        try require(page.events.allSatisfy { $0.version < 1 << 53 && $0.time < 1 << 53 }, "numbers fit into what the wire carries")
    }
}
