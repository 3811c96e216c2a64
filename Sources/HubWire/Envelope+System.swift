import HubBase

// What the hub says by itself, besides publications.

struct PresenceChanges: Envelope {
    let changes: [PresenceChange]

    func write<Writer: EnvelopeWriter>(to writer: inout Writer) {
        let outer = writer.begin(type: .presence)
        writer.key(.changes)
        writer.list(changes)
        writer.end(outer)
    }
}

extension Welcome: Envelope {
    func write<Writer: EnvelopeWriter>(to writer: inout Writer) {
        let outer = writer.begin(type: .system)
        writer.field(.event, .welcome)
        writer.field(.connection, connection)
        writer.field(.node, node)
        writer.field(.user, user)
        writer.field(.device, device)
        writer.field(.ping, pingMilliseconds)
        writer.key(.limits)
        let limits = writer.begin()
        writer.firstKey(.messageBytes)
        writer.value(messageBytesMax)
        writer.field(.channels, channelsMax)
        writer.end(limits)
        writer.key(.channels)
        writer.beginDictionary(channels.count)
        var isFirst = true
        for subscription in channels {
            writer.beginEntry(subscription.channel, isFirst: isFirst)
            writer.object(subscription)
            isFirst = false
        }
        writer.endDictionary()
        if let tokenExpires { writer.field(.tokenExpires, tokenExpires) }
        writer.end(outer)
    }
}

extension SystemEvent: Envelope {
    func write<Writer: EnvelopeWriter>(to writer: inout Writer) {
        let outer = writer.begin(type: .system)
        writer.field(.event, word)
        switch self {
        case .degraded(let reason):
            writer.field(.reason, word: reason)
        case .restored: break
        case .resync(let channel, let position, let reason):
            writer.field(.channel, channel)
            writer.field(.position, position)
            writer.field(.reason, word: reason)
        case .drain(let returnAfter):
            writer.field(.returnAfter, returnAfter)
        case .tokenExpiring(let remaining):
            writer.field(.in, remaining)
        case .unsubscribed(let channel, let code):
            writer.field(.channel, channel)
            writer.field(.code, word: code.rawValue)
        case .dropped(let name, let count):
            writer.field(.class, word: name)
            writer.field(.count, count)
        case .stream(let key):
            writer.field(.key, key)
        }
        writer.end(outer)
    }

    private var word: WireWord {
        switch self {
        case .degraded: .degraded
        case .restored: .restored
        case .resync: .resync
        case .drain: .drain
        case .tokenExpiring: .tokenExpiring
        case .unsubscribed: .unsubscribed
        case .dropped: .dropped
        case .stream: .stream
        }
    }
}
