import HubBase

/// What the sentinels say about where the master is, and which of them is believed: the one with the newest configuration epoch, since a
/// sentinel that was cut off goes on naming the old master. A value; it has no sockets and no clock.
package struct SentinelView {
    package struct Word: Equatable, Sendable {
        package var place: RedisURL.Place
        /// Grows with each failover (Redis Sentinel documentation, "Configuration epochs").
        package var epoch: UInt64

        package init(place: RedisURL.Place, epoch: UInt64) {
            self.place = place
            self.epoch = epoch
        }
    }

    private var words: [Word?]

    package init(count: Int) { words = Array(repeating: nil, count: count) }

    /// nil: it can't be asked, or doesn't know.
    package mutating func told(_ sentinel: Int, _ word: Word?) { words[sentinel] = word }

    /// Of several with the same epoch the first in the configuration's order.
    package var best: Word? {
        var best: Word?
        for case let word? in words where word.epoch > best?.epoch ?? 0 || best == nil { best = word }
        return best
    }
}

extension SentinelView.Word {
    /// The answer to SENTINEL MASTER: names and values by turns. nil when it names no address.
    package init?(_ reply: borrowing Reply, asked: RedisURL.Place?) {
        guard let count = reply.elements(0) else { return nil }
        var host: UnsafeRawBufferPointer?
        var port: UInt64?
        epoch = 0
        var index = 1
        while index + 1 <= count {
            guard let name = reply.string(index), let value = reply.string(index + 1) else { return nil }
            if name.equals("ip") { host = value }
            if name.equals("port") { port = value.decimal }
            if name.equals("config-epoch") { epoch = value.decimal ?? 0 }
            index += 2
        }
        guard let host, !host.isEmpty, let port, let place = Redirect.place(host: host, port: port, asked: asked) else { return nil }
        self.place = place
    }
}
