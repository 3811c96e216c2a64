import HubBase
import HubWire

// Reading what is kept. Answered from memory within the call, told in the order of calls like all else.
extension MemoryBroker {
    package func readHistory(of name: Name, _ query: HistoryQuery, tag: RequestTag, at now: Instant) {
        if let error = faults.refusal() { return outputs.append(.historyRead(name, .failure(error), tag)) }
        let page: HistoryPage
        if let channel = channels[name] {
            expire(channel, at: now, idsMax: 4)
            page = channel.page(query, origin)
        } else {
            // Reading makes no channel.
            page = MemoryChannel(name: name, options: SharedOptions(HistoryOptions()), place: 0).page(query, origin)
        }
        outputs.append(.historyRead(name, .success(page), tag))
    }

    package func readMarks(of name: Name, user: Name, limit: Int, tag: RequestTag, at now: Instant) {
        if let error = faults.refusal() { return outputs.append(.readMarks(name, .failure(error), tag)) }
        guard let channel = channels[name] else { return outputs.append(.readMarks(name, .success([]), tag)) }
        expire(channel, at: now, idsMax: 4)
        outputs.append(.readMarks(name, .success(channel.marks(of: user, limit: limit)), tag))
    }
}
