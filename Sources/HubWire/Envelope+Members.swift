import HubBase

// Who is in a channel: answers and what the hub says by itself.

extension MembersChange: Envelope {
    func write<Writer: EnvelopeWriter>(to writer: inout Writer) {
        let outer = writer.begin(type: .members)
        writer.field(.channel, channel)
        writer.field(.mode, mode.word)
        if let members { writer.list(.members, members) }
        if !joined.isEmpty { writer.list(.joined, joined) }
        if !left.isEmpty {
            writer.key(.left)
            writer.beginList(left.count)
            var isFirst = true
            for user in left {
                writer.beginElement(isFirst: isFirst)
                writer.value(user)
                isFirst = false
            }
            writer.endList()
        }
        if !updated.isEmpty { writer.list(.updated, updated) }
        writer.field(.occupancy, occupancy)
        writer.field(.sequence, sequence)
        if let previous { writer.field(.previous, previous) }
        writer.end(outer)
    }
}

/// The ack of `members`; without an id and its type, the answer of the API.
struct MembersAck: Envelope {
    let id: UnsafeRawBufferPointer?
    let channel: Name
    let page: MembersPage

    func write<Writer: EnvelopeWriter>(to writer: inout Writer) {
        let outer: Int
        if let id {
            outer = writer.begin(type: .ack, id: id)
            writer.field(.channel, channel)
        } else {
            outer = writer.begin()
            writer.firstKey(.channel)
            writer.value(channel)
        }
        writer.fields(of: page)
        writer.end(outer)
    }
}

extension EnvelopeWriter {
    mutating func fields(of page: MembersPage) {
        field(.mode, page.mode.word)
        list(.members, page.members)
        field(.occupancy, page.occupancy)
        field(.sequence, page.sequence)
        if let cursor = page.cursor { field(.cursor, cursor) }
        if page.isStale { field(.stale, true) }
    }

    mutating func list(_ label: FieldLabel, _ members: [MemberEntry]) {
        key(label)
        beginList(members.count)
        var isFirst = true
        for member in members {
            beginElement(isFirst: isFirst)
            let outer = begin()
            firstKey(.user)
            value(member.user)
            field(.devices, UInt64(member.devices))
            end(outer)
            isFirst = false
        }
        endList()
    }
}
