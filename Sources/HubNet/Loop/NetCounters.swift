/// Monotonic counts since start; read from any thread with relaxed order would be wrong, so the loop's owner copies them out.
package struct NetCounters: Sendable {
    package var accepted: UInt64 = 0
    package var refused: UInt64 = 0
    /// Of those: by the limit for one address.
    package var refusedByAddress: UInt64 = 0
    /// And by the pace of one address.
    package var refusedByAddressPace: UInt64 = 0
    package var closed: UInt64 = 0
    package var messagesIn: UInt64 = 0
    package var bytesIn: UInt64 = 0
    package var framesOut: UInt64 = 0
    package var bytesOut: UInt64 = 0
    package var writes: UInt64 = 0
    /// Frames that were queued for a connection that then was closed as too slow.
    package var framesDropped: UInt64 = 0
    package var closedTooSlow: UInt64 = 0
    /// Frames that were left out of queues that went on.
    package var dropped = DroppedFrames()

    /// Deadlines that passed: for a request's head or body (or a first byte), for authentication, for the answer to a ping, for the closing
    /// handshake.
    package var requestTimeouts: UInt64 = 0
    package var authenticationTimeouts: UInt64 = 0
    package var pongTimeouts: UInt64 = 0
    package var closeTimeouts: UInt64 = 0

    /// Times that a client couldn't be accepted for want of descriptors or memory; each is followed by a pause of 100 ms.
    package var outOfDescriptors: UInt64 = 0

    /// TLS handshakes that were completed, and those of them that resumed a session.
    package var tlsHandshakes: UInt64 = 0
    package var tlsResumptions: UInt64 = 0
    /// Clients whose TLS handshake had to wait for the node's pace, and those of them who waited in vain.
    package var tlsWaited: UInt64 = 0
    package var tlsTurnedAway: UInt64 = 0
    /// Connections that ended before HTTP: their TLS handshake or PROXY header was wrong or too late.
    package var arrivalsFailed: UInt64 = 0
    /// Connections that agreed to permessage-deflate.
    package var deflateAgreed: UInt64 = 0
    /// Frames that were compressed (a broadcast's once for each window in use), their payloads' bytes before and after.
    package var deflated: UInt64 = 0
    package var deflateBytesIn: UInt64 = 0
    package var deflateBytesOut: UInt64 = 0
    /// Streams of events that were opened, and frames that were made into events (a broadcast's once; once more with its label).
    package var streamsOpened: UInt64 = 0
    package var events: UInt64 = 0
    /// Compressed messages that came, their bytes before and after.
    package var inflated: UInt64 = 0
    package var inflateBytesIn: UInt64 = 0
    package var inflateBytesOut: UInt64 = 0
    /// Compressed messages that inflate past the limit, or aren't deflate.
    package var inflateRefused: UInt64 = 0

    package init() {}
}
