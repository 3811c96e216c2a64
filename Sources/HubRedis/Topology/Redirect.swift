import HubBase

/// What a cluster's node says about keys that it can't serve (Redis Cluster specification, "MOVED redirection").
package enum Redirect: Equatable {
    /// The slot is another node's; nil: at an address that the reply doesn't name, as before a node knows its own.
    case moved(slot: Int, RedisURL.Place?)
    /// The slot is on its way from one master to another, and what we want is in neither alone (ASK, TRYAGAIN): to be asked again later. ASK isn't followed: a script's keys, of which some never exist, are then in neither master
    /// alone, so that the other one would answer TRYAGAIN.
    case later
    /// Nobody may serve it now (CLUSTERDOWN).
    case down

    /// `asked`: who says it, for a reply that names a port alone.
    package init?(_ text: UnsafeRawBufferPointer, asked: RedisURL.Place?) {
        var rest = text
        guard let word = rest.take(until: UInt8(ascii: " "), limit: 16) else { return nil }
        if word.equals("ASK") || word.equals("TRYAGAIN") {
            self = .later
            return
        }
        if word.equals("CLUSTERDOWN") {
            self = .down
            return
        }
        guard word.equals("MOVED"), let digits = rest.take(until: UInt8(ascii: " "), limit: 5), let slot = digits.decimal,
            slot < UInt64(Slot.count)
        else { return nil }
        self = .moved(slot: Int(slot), Redirect.place(rest, asked: asked))
    }

    /// `HOST:PORT`, with an IPv6 address as it is; an empty host is the asked one's.
    private static func place(_ text: UnsafeRawBufferPointer, asked: RedisURL.Place?) -> RedisURL.Place? {
        guard text.count <= 300, let colon = text.lastIndex(of: UInt8(ascii: ":")),
            let port = UnsafeRawBufferPointer(rebasing: text[(colon + 1)...]).decimal
        else { return nil }
        return place(host: UnsafeRawBufferPointer(rebasing: text[..<colon]), port: port, asked: asked)
    }

    /// nil when it's no address to connect to.
    static func place(host: UnsafeRawBufferPointer, port: UInt64, asked: RedisURL.Place?) -> RedisURL.Place? {
        guard (1...65_535).contains(port), host.count <= 255 else { return nil }
        if host.isEmpty || host.equals("?") {
            guard case .host(let name, _)? = asked else { return nil }
            return .host(name, port: Int(port))
        }
        // It goes into a resolver and into logs.
        guard host.allSatisfy({ $0 > 32 && $0 < 127 }) else { return nil }
        return .host(String(decoding: host, as: UTF8.self), port: Int(port))
    }
}
