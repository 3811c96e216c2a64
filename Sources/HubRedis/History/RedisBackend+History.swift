import HubBase
import HubCore
import HubWire

// Reads of history: for callers, and for channels whose live messages have a hole (redis-design §4).
extension RedisBackend {
    /// A hole is read in pages of this size.
    private static let fillPage = 256

    func readHistory(_ call: HistoryCall) -> WireError? {
        if let refusal = link.refusal() { return refusal }
        guard reads.waiting.count < HistoryReads.waitingMax else { return .redisFull }
        reads.waiting.append(call)
        return nil
    }

    /// Sends reads that are due, holes first: live messages wait behind them.
    func sendReads(at now: Instant) {
        let isAway = link.refusal() == .redisAway
        for master in masters.all where master.link.isUp {
            let lanes = link.openLanes(of: master)
            while reads.hasRoomToFill, let (index, position) = subscriber.set.takeFill(in: lanes) {
                let entry = subscriber.set[index]
                guard case .channel(let channel) = entry.subject else { continue }
                send(
                    HistoryCall(
                        channel: channel, query: HistoryQuery(after: .position(position), limit: RedisBackend.fillPage),
                        purpose: .fill(index: index, generation: entry.generation)))
            }
        }
        while reads.hasRoom || isAway, let call = reads.waiting.removeFirst() {
            if isAway { failedRead(call, .redisAway) } else { send(call) }
        }
    }

    private func send(_ call: HistoryCall) {
        reads.sent(call.purpose)
        link.send(.history(call))
    }

    /// Idle channels are compared with their tips, a few at a time: a lost last message has no successor to reveal it.
    func checkTips(at now: Instant) {
        for index in subscriber.set.takeTipChecks(at: now) {
            let entry = subscriber.set[index]
            guard let master = masters.master(of: masters.isCluster ? entry.lane : 0), link.openLanes(of: master).contains(entry.lane),
                master.link.owedReplies < RedisBackend.readHeadroom
            else { continue }
            link.send(.position(index: index, generation: entry.generation, entry.subject))
        }
    }

    // MARK: Replies

    func historyRead(_ call: HistoryCall, _ reply: borrowing Reply) {
        guard let page = StreamPage(reply, to: call.query) else {
            foreign(.history(call), "the stream")
            return historyFailed(call, .foreignKey(channel: call.channel))
        }
        reads.ended(call.purpose)
        switch call.purpose {
        case .request(let tag):
            broker?.delegate?.historyRead(
                call.channel, page.page(to: call.query).map { .success($0) } ?? .failure(.unreadable(channel: call.channel)), tag: tag)
        case .fill(let index, let generation):
            broker?.tell(subscriber.set.filled(index, generation, page, pings: subscriber.pings), call.channel)
        }
    }

    func historyFailed(_ call: HistoryCall, _ error: WireError) {
        reads.ended(call.purpose)
        failedRead(call, error)
    }

    private func failedRead(_ call: HistoryCall, _ error: WireError) {
        switch call.purpose {
        case .request(let tag): broker?.delegate?.historyRead(call.channel, .failure(error), tag: tag)
        case .fill(let index, let generation):
            let isLasting = error.code != .unavailable && error.code != .overloaded
            broker?.tell(subscriber.set.fillFailed(index, generation, isLasting: isLasting, pings: subscriber.pings), call.channel)
        }
    }

    func marksRead(_ call: MarksCall, _ reply: borrowing Reply) {
        guard let count = reply.elements(0), count % 2 == 0, reply.count == count + 1 else {
            broker?.delegate?.readMarks(call.channel, .failure(.notOurs), tag: call.tag)
            return
        }
        var marks: [ReadMark] = []
        for index in stride(from: 1, to: count, by: 2) {
            // What can't be read is nobody's mark. The backend's own name is empty.
            guard let bytes = reply.string(index), let offset = reply.string(index + 1)?.decimal, offset < 1 << 53,
                let user = bytes.isEmpty ? Name.empty : Name(validating: bytes)
            else { continue }
            marks.append(ReadMark(user: user, offset: offset))
        }
        if let index = subscriber.set.find(keys.liveChannel(call.channel)), let epoch = subscriber.set.position(of: index)?.epoch {
            readLedger.raise(&marks, of: call.channel, own: call.user, epoch: epoch)
        }
        broker?.delegate?.readMarks(call.channel, .success(marks), tag: call.tag)
    }
}
