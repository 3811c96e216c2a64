import HubBase
import HubCore
import HubWire

// Read positions: a last value that never goes back, also where Redis does (decision 0320).
extension RedisBackend {
    func readMoved(_ call: ReadCall, _ reply: borrowing Reply) {
        guard let count = reply.elements(0), count >= 2, let text = reply.string(1), let epoch = reply.string(2).flatMap({ Mark($0) })
        else {
            return readFailed(call, .notOurs)
        }
        let offset = text.decimal.flatMap { $0 < 1 << 53 ? $0 : nil }
        if let again = call.again { return movedAgain(again, to: offset, epoch, counts: count == 2) }
        guard let offset else { return readFailed(call, .notOurs) }
        note(call.publication, offset: offset, epoch, in: call.channel)
        broker?.delegate?.readMoved(.success(offset), tag: call.tag)
    }

    func readFailed(_ call: ReadCall, _ error: WireError) {
        guard let again = call.again else { return broker?.delegate?.readMoved(.failure(error), tag: call.tag) ?? () }
        // Somebody else's key, or a channel with as many readers as it may have.
        let isLasting = error.code != .unavailable && error.code != .overloaded && !(error.code == .storeFull && error.mayRetry)
        readLedger.failed(again, isLasting: isLasting, at: loop.now)
    }

    /// A `read` passed on a channel that's carried here.
    func readPassed(_ publication: Publication, in channel: Name, epoch: Mark) {
        let offset = publication.payload.withUnsafeBytes { Payload.readOffset($0, format: publication.payloadFormat) }
        if let offset { note(publication, offset: offset, epoch, in: channel) }
    }

    private func note(_ publication: Publication, offset: UInt64, _ epoch: Mark, in channel: Name) {
        let entry = ReadLedger.Entry(
            channel: channel, user: publication.user, device: publication.device, offset: offset, epoch: epoch, time: publication.time,
            at: loop.now)
        // Another master has the lane already, which may never have got it.
        if link.isOnDetour(channel) { readLedger.doubt(entry, at: loop.now) } else { readLedger.note(entry) }
    }

    // MARK: Moved again

    /// Moves what is in doubt, some at a time.
    func moveAgain(at now: Instant) {
        guard readLedger.doubtful > 0 else { return }
        for master in masters.all where master.link.isUp {
            let lanes = link.openLanes(of: master)
            while master.link.owedReplies < RedisBackend.readHeadroom, let entry = readLedger.take(in: lanes, at: now) { moveAgain(entry) }
        }
    }

    /// What a reader said before goes before what they say now: both take the same way, in this order.
    func moveFirst(_ user: Name, in channel: Name) {
        if let entry = readLedger.take(of: user, in: channel) { moveAgain(entry) }
    }

    private func moveAgain(_ entry: ReadLedger.Entry) {
        let publication = Publication(
            messageClass: .read, user: entry.user, device: entry.device, messageId: .empty, time: entry.time,
            payload: [UInt8]("{\"offset\":\(entry.offset)}".utf8))
        link.send(.markRead(ReadCall(channel: entry.channel, publication: publication, offset: entry.offset, tag: .none, again: entry)))
    }

    /// `counts`: false where it's of the epoch before, and counts in this one up to that offset: that is said then.
    private func movedAgain(_ entry: ReadLedger.Entry, to offset: UInt64?, _ epoch: Mark, counts: Bool) {
        guard let offset else { return readLedger.ended(nil) }
        var entry = entry
        entry.offset = offset
        entry.epoch = epoch
        entry.at = loop.now
        // Nothing is left of it, or it's said in the words of the new epoch.
        guard counts || offset == 0 else { return moveAgain(entry) }
        readLedger.ended(counts ? entry : nil)
    }
}
