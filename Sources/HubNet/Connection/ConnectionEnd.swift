import HubBase

package enum ConnectionEnd: Sendable, Equatable {
    /// The peer began the closing handshake. nil: without a code (1005).
    case peer(code: UInt16?)
    /// We began it.
    case us(code: UInt16)
    /// The server answered our opening handshake with this status instead of 101 (RFC 6455 §4.1). For people: what it said.
    case refused(status: Int, String)
    /// No closing handshake: reset, end of stream, a failed connect. For people.
    case lost(String)
    /// No answer to a ping, nor anything else in time: given up, long after the last sign of life. For people.
    case silent(lastHeard: Instant, String)
}
