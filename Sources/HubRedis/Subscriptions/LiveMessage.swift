import HubBase
import HubCore
import HubWire

/// What comes over the pub/sub channel of a hub channel or of a partition's feed. The bytes come from Redis, where others may write:
/// anything that isn't ours is nil.
package enum LiveMessage {
    /// `offset:epoch:previous tag:tag:` and then the body.
    case positioned(Position, previous: Mark, body: UnsafeRawBufferPointer)
    /// `E:` and then the body: no place in the channel.
    case ephemeral(body: UnsafeRawBufferPointer)

    /// `N:` and the channel's place: it has another epoch from here on (renew.lua).
    case renewed

    /// `J:`, `L:`, `U:` and `R:`: what happened to the channel's members.
    case members(MembersNews)

    package init?(_ bytes: UnsafeRawBufferPointer) {
        var rest = bytes
        if rest.hasPrefix("E:") {
            self = .ephemeral(body: UnsafeRawBufferPointer(rebasing: rest[2...]))
            return
        }
        if rest.hasPrefix("N:") {
            self = .renewed
            return
        }
        if let first = bytes.first, first >= UInt8(ascii: "A") {
            guard let news = MembersNews(bytes) else { return nil }
            self = .members(news)
            return
        }
        let colon = UInt8(ascii: ":")
        guard let offset = rest.take(until: colon, limit: 16)?.decimal, offset >= 1, offset < 1 << 53,
            let epoch = rest.take(until: colon, limit: 8).flatMap({ Mark($0) }), epoch != .none,
            let previous = rest.take(until: colon, limit: 8).flatMap({ Mark($0) }),
            let tag = rest.take(until: colon, limit: 8).flatMap({ Mark($0) }), tag != .none
        else { return nil }
        self = .positioned(Position(epoch: epoch, offset: offset, tag: tag), previous: previous, body: rest)
    }
}

extension Position {
    /// The reply to `HMGET meta e s g`, from three strings or nulls; a channel that has none is at `.start`. nil for anything else.
    package init?(meta reply: borrowing Reply, at index: Int) {
        guard reply.elements(index) == 3, reply.count >= index + 4 else { return nil }
        if reply.kind(index + 1) == .null || reply.kind(index + 2) == .null {
            self = .start
            return
        }
        guard let epoch = reply.string(index + 1).flatMap({ Mark($0) }), let offset = reply.string(index + 2)?.offsetOfRecord else {
            return nil
        }
        var tag = Mark.none
        if let text = reply.string(index + 3) {
            guard let mark = Mark(text) else { return nil }
            tag = mark
        }
        self.init(epoch: epoch, offset: offset, tag: tag)
    }

    /// `offset:epoch:tag`, and behind it the fingerprint where there is one.
    package init?(reply text: UnsafeRawBufferPointer, fingerprint: inout Mark) {
        var rest = text
        let colon = UInt8(ascii: ":")
        guard let offset = rest.take(until: colon, limit: 16)?.decimal, offset < 1 << 53,
            let epoch = rest.take(until: colon, limit: 8).flatMap({ Mark($0) })
        else { return nil }
        if let tag = rest.take(until: colon, limit: 8) {
            guard let tag = Mark(tag), let content = Mark(rest) else { return nil }
            fingerprint = content
            self.init(epoch: epoch, offset: offset, tag: tag)
        } else {
            guard let tag = Mark(rest) else { return nil }
            self.init(epoch: epoch, offset: offset, tag: tag)
        }
    }
}
