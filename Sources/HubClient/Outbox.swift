import HubBase
import HubWire

/// A message on its way: with an id from birth, so that however often it's sent it's published once.
package struct OutgoingMessage: Sendable, Equatable {
    package var messageClass: MessageClass
    package var channel: Name
    package var messageId: Name
    /// JSON text.
    package var payload: [UInt8]
    /// The caller's own number, handed back with the answer.
    package var context: UInt64

    package init(_ messageClass: MessageClass = .chat, channel: Name, messageId: Name, payload: [UInt8], context: UInt64 = 0) {
        self.messageClass = messageClass
        self.channel = channel
        self.messageId = messageId
        self.payload = payload
        self.context = context
    }
}

/// What the application published and the hub hasn't answered: sent again on every new connection, in order, until it has.
///
/// From the second time on it says how old it is and where the channel stood when it was first sent: an id that the hub has forgotten
/// by then is settled by the channel's history, or the answer is `uncertain`.
struct Outbox: Sendable {
    private struct Entry: Sendable {
        var message: OutgoingMessage
        var request: UInt64?
        var firstSent: Instant?
        var since: Position?
        /// A refusal that may be different later named a time.
        var notBefore = Instant(nanoseconds: 0)
    }

    private var entries: [Entry] = []
    private var bytes = 0

    var count: Int { entries.count }

    /// False when it would be more than `countMax` messages or `bytesMax` bytes of payload.
    mutating func add(_ message: OutgoingMessage, countMax: Int, bytesMax: Int) -> Bool {
        guard entries.count < countMax, bytes + message.payload.count <= bytesMax else { return false }
        entries.append(Entry(message: message))
        bytes += message.payload.count
        return true
    }

    /// The next to be sent under the id that `makeId` gives. Those of one channel keep their order: none overtakes one that waits.
    mutating func next(_ now: Instant, position: (Name) -> Position?, makeId: (UInt64) -> UInt64) -> ClientRequest? {
        var waiting: [Name] = []
        for index in entries.indices where entries[index].request == nil {
            let message = entries[index].message
            guard entries[index].notBefore <= now, !waiting.contains(message.channel) else {
                waiting.append(message.channel)
                continue
            }
            let id = makeId(message.context)
            entries[index].request = id
            guard let first = entries[index].firstSent else {
                entries[index].firstSent = now
                entries[index].since = position(message.channel)
                return .publish(id: id, message, age: nil, since: nil)
            }
            return .publish(id: id, message, age: now.since(first).milliseconds, since: entries[index].since)
        }
        return nil
    }

    /// When one that was put off may go.
    var deadline: Instant? {
        entries.lazy.filter { $0.request == nil && $0.notBefore.nanoseconds > 0 }.map(\.notBefore).min()
    }

    /// It was answered: it's gone.
    mutating func settle(_ request: UInt64) {
        guard let index = entries.firstIndex(where: { $0.request == request }) else { return }
        bytes -= entries[index].message.payload.count
        entries.remove(at: index)
    }

    /// Its fate is unknown, or the hub asked for patience: it's sent again.
    mutating func retry(_ request: UInt64, notBefore: Instant) {
        guard let index = entries.firstIndex(where: { $0.request == request }) else { return }
        entries[index].request = nil
        entries[index].notBefore = notBefore
    }

    /// The connection is gone, and with it every answer.
    mutating func reset() {
        for index in entries.indices {
            entries[index].request = nil
            entries[index].notBefore = Instant(nanoseconds: 0)
        }
    }
}
