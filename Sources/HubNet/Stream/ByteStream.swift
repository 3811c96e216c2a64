import HubBase

/// An outgoing byte stream on a loop: what Redis links are made of. What's written in a turn leaves in one system call at its end.
package final class ByteStream {
    package enum State: Sendable { case connecting, open, closed }
    package var state: State { fatalError("skeleton") }
    /// Appends to the outbound queue. Ignored once closed.
    package func write(_ bytes: UnsafeRawBufferPointer) { fatalError("skeleton") }
    /// Bytes that wait to leave: the owner's bound for pipelining.
    package var queuedBytes: Int { fatalError("skeleton") }
    /// No call to the handler follows.
    package func close() { fatalError("skeleton") }
}

package protocol StreamHandler: AnyObject {
    func streamOpened(_ stream: ByteStream)
    /// Valid during the call only.
    func streamReceived(_ stream: ByteStream, _ bytes: UnsafeRawBufferPointer)
    /// Failed to connect, reset, end of stream: once. The stream is closed.
    func streamEnded(_ stream: ByteStream, _ reason: NetError)
}
