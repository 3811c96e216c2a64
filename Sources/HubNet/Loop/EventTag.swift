import CHubShims

/// What an epoll event belongs to, in its 64 bits of data: a kind, an index and a generation, so that an event which is late can't reach
/// a descriptor's next user.
struct EventTag {
    enum Kind: UInt64 { case connection, stream, listener, signal }

    let kind: Kind
    let index: UInt32
    let generation: UInt32

    static let signal = EventTag(.signal, index: 0)

    init(_ kind: Kind, index: UInt32, generation: UInt32 = 0) {
        self.kind = kind
        self.index = index
        self.generation = generation
    }

    /// Indexes are below 2^28.
    var data: UInt64 { UInt64(generation) << 32 | kind.rawValue << 28 | UInt64(index) }

    init(data: UInt64) {
        // Two bits: every value is a kind.
        kind = Kind(rawValue: data >> 28 & 3) ?? .signal
        index = UInt32(truncatingIfNeeded: data & 0x0FFF_FFFF)
        generation = UInt32(truncatingIfNeeded: data >> 32)
    }
}

/// Readiness bits. Level-triggered.
enum Readiness {
    static let input = EPOLLIN.rawValue
    static let output = EPOLLOUT.rawValue
    /// Told whether asked for or not.
    static let broken = EPOLLERR.rawValue | EPOLLHUP.rawValue
}
