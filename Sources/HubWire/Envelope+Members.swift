import HubBase

// Who is in a channel: answers and what the hub says by itself.

extension MembersChange: Envelope {
    func write<Writer: EnvelopeWriter>(to writer: inout Writer) {
        let outer = writer.begin(type: .members)
        writer.field(.channel, channel)
        writer.field(.mode, mode.word)
        if let members { writer.list(.members, members) }
        if !joined.isEmpty { writer.list(.joined, joined) }
        if !left.isEmpty { writer.list(.left, left) }
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
        list(label, members) { writer, member in
            let outer = writer.begin()
            writer.firstKey(.user)
            writer.value(member.user)
            writer.field(.devices, UInt64(member.devices))
            writer.end(outer)
        }
    }

    mutating func list(_ label: FieldLabel, _ names: [Name]) { list(label, names) { writer, name in writer.value(name) } }

    private mutating func list<Element>(_ label: FieldLabel, _ elements: [Element], _ write: (inout Self, Element) -> Void) {
        key(label)
        beginList(elements.count)
        var isFirst = true
        for element in elements {
            beginElement(isFirst: isFirst)
            write(&self, element)
            isFirst = false
        }
        endList()
    }
}
