/// Monotonic counts since start; read from any thread with relaxed order would be wrong, so the loop's owner copies them out.
package struct NetCounters: Sendable {
    package var accepted: UInt64 = 0
    package var refused: UInt64 = 0
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

    /// Times that a client couldn't be accepted for want of descriptors or memory; each is followed by a pause of 100 ms.
    package var outOfDescriptors: UInt64 = 0

    package init() {}
}
