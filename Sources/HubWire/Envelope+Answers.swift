import HubBase

// The answers to requests. Each is a value for as long as it's being written.

struct Ack: BoundedEnvelope {
    let id: UnsafeRawBufferPointer
    let channel: Name?

    var namesLength: Int { channel?.bytes.count ?? 0 }

    func write<Writer: EnvelopeWriter>(to writer: inout Writer) {
        let outer = writer.begin(type: .ack, id: id)
        if let channel { writer.field(.channel, channel) }
        writer.end(outer)
    }
}

struct ConnectAck: BoundedEnvelope {
    let id: UnsafeRawBufferPointer
    let user: Name

    var namesLength: Int { user.bytes.count }

    func write<Writer: EnvelopeWriter>(to writer: inout Writer) {
        let outer = writer.begin(type: .ack, id: id)
        writer.field(.user, user)
        writer.end(outer)
    }
}

struct SubscribeAck: Envelope {
    let id: UnsafeRawBufferPointer
    let result: SubscribeResult

    func write<Writer: EnvelopeWriter>(to writer: inout Writer) {
        let outer = writer.begin(type: .ack, id: id)
        writer.field(.channel, result.channel)
        writer.rest(of: result)
        writer.end(outer)
    }
}

struct SubscribeListAck: Envelope {
    let id: UnsafeRawBufferPointer
    let results: [SubscribeResult]

    func write<Writer: EnvelopeWriter>(to writer: inout Writer) {
        let outer = writer.begin(type: .ack, id: id)
        writer.key(.channels)
        writer.beginList(results.count)
        var isFirst = true
        for result in results {
            writer.beginElement(isFirst: isFirst)
            writer.object(result)
            isFirst = false
        }
        writer.endList()
        writer.end(outer)
    }
}

/// The ack of `history`; without an id and its type, the answer of the API.
struct HistoryAck: Envelope {
    /// nil: the API's answer.
    let id: UnsafeRawBufferPointer?
    let result: HistoryResult

    func write<Writer: EnvelopeWriter>(to writer: inout Writer) {
        let outer: Int
        if let id {
            outer = writer.begin(type: .ack, id: id)
            writer.field(.channel, result.channel)
        } else {
            outer = writer.begin()
            writer.firstKey(.channel)
            writer.value(result.channel)
        }
        writer.field(.offset, result.position.offset)
        writer.field(.position, result.position)
        if let recovered = result.recovered { writer.field(.recovered, recovered) }
        if let reason = result.reason { writer.field(.reason, word: reason) }
        writer.list(.publications, result.publications, channel: result.channel)
        if result.hasMore { writer.field(.more, true) }
        writer.end(outer)
    }
}

struct PublishAck: BoundedEnvelope {
    let id: UnsafeRawBufferPointer
    let channel: Name
    let messageId: Name
    let position: Position
    let isDuplicate: Bool

    var namesLength: Int { channel.bytes.count + messageId.bytes.count }

    func write<Writer: EnvelopeWriter>(to writer: inout Writer) {
        let outer = writer.begin(type: .ack, id: id)
        writer.field(.channel, channel)
        writer.field(.messageId, messageId)
        writer.field(.offset, position.offset)
        writer.field(.position, position)
        if isDuplicate { writer.field(.duplicate, true) }
        writer.end(outer)
    }
}

struct ReadAck: BoundedEnvelope {
    let id: UnsafeRawBufferPointer
    let channel: Name
    let offset: UInt64

    var namesLength: Int { channel.bytes.count }

    func write<Writer: EnvelopeWriter>(to writer: inout Writer) {
        let outer = writer.begin(type: .ack, id: id)
        writer.field(.channel, channel)
        writer.field(.offset, offset)
        writer.end(outer)
    }
}

struct PresenceAck: BoundedEnvelope {
    let id: UnsafeRawBufferPointer
    let version: UInt64

    var namesLength: Int { 0 }

    func write<Writer: EnvelopeWriter>(to writer: inout Writer) {
        let outer = writer.begin(type: .ack, id: id)
        writer.field(.version, version)
        writer.end(outer)
    }
}

struct WatchAck: Envelope {
    let id: UnsafeRawBufferPointer
    let users: [PresenceChange]
    let isStale: Bool

    func write<Writer: EnvelopeWriter>(to writer: inout Writer) {
        let outer = writer.begin(type: .ack, id: id)
        writer.key(.users)
        writer.list(users)
        if isStale { writer.field(.stale, true) }
        writer.end(outer)
    }
}

struct Refusal: Envelope {
    let id: UnsafeRawBufferPointer
    let error: WireError

    func write<Writer: EnvelopeWriter>(to writer: inout Writer) {
        let outer = writer.begin(type: .error, id: id)
        writer.rest(of: error)
        writer.end(outer)
    }
}

struct Pong: BoundedEnvelope {
    let id: UnsafeRawBufferPointer

    var namesLength: Int { 0 }

    func write<Writer: EnvelopeWriter>(to writer: inout Writer) {
        let outer = writer.begin(type: .pong, id: id)
        writer.end(outer)
    }
}

// What several envelopes hold.

extension EnvelopeWriter {
    /// One subscribed or refused channel.
    mutating func object(_ subscription: SubscribeResult) {
        let outer = begin()
        firstKey(.channel)
        value(subscription.channel)
        rest(of: subscription)
        end(outer)
    }

    /// All but the channel's name.
    mutating func rest(of subscription: SubscribeResult) {
        switch subscription.result {
        case .success(let position):
            field(.offset, position.offset)
            field(.position, position)
            if let recovered = subscription.recovered { field(.recovered, recovered) }
            if let reason = subscription.reason { field(.reason, word: reason) }
            if let publications = subscription.publications, !publications.isEmpty {
                list(.publications, publications, channel: subscription.channel)
            }
            if subscription.hasMore { field(.more, true) }
            if let reads = subscription.reads, !reads.isEmpty {
                key(.reads)
                list(reads)
            }
            if let members = subscription.members {
                fields(of: members)
            } else if let occupancy = subscription.occupancy {
                field(.occupancy, occupancy)
            }
        case .failure(let error): rest(of: error)
        }
    }

    mutating func rest(of error: WireError) {
        field(.code, word: error.code.rawValue)
        field(.message, error.message)
        field(.retry, error.mayRetry)
        if let retryAfter = error.retryAfter { field(.retryAfter, retryAfter) }
    }

    /// Publications as they're delivered live, each with all its fields.
    mutating func list(_ label: FieldLabel, _ publications: [PositionedPublication], channel: Name) {
        key(label)
        beginList(publications.count)
        var isFirst = true
        for positioned in publications {
            beginElement(isFirst: isFirst)
            let outer = fields(of: positioned.publication, channel: channel, position: positioned.position)
            value(payload: positioned.publication)
            end(outer)
            isFirst = false
        }
        endList()
    }

    /// A payload in this writer's format: as it is, or rewritten.
    private mutating func value(payload publication: Publication) {
        guard publication.payloadFormat != Self.format.payload else {
            publication.payload.withUnsafeBytes { value(raw: $0) }
            return
        }
        var rewritten = ByteBuffer(capacity: publication.payload.count * 2)
        PayloadTranscoder.append(publication.payload, from: publication.payloadFormat, to: Self.format.payload, into: &rewritten)
        value(raw: rewritten.bytes)
    }

    mutating func list(_ reads: [ReadMark]) {
        beginList(reads.count)
        var isFirst = true
        for read in reads {
            beginElement(isFirst: isFirst)
            let outer = begin()
            firstKey(.user)
            value(read.user)
            field(.offset, read.offset)
            end(outer)
            isFirst = false
        }
        endList()
    }

    mutating func list(_ changes: [PresenceChange]) {
        beginList(changes.count)
        var isFirst = true
        for change in changes {
            beginElement(isFirst: isFirst)
            let outer = begin()
            firstKey(.user)
            value(change.user)
            field(.status, change.status.word)
            field(.version, change.version)
            field(.lastSeen, change.lastSeen)
            end(outer)
            isFirst = false
        }
        endList()
    }
}
