/// The owner of a `ByteStream`. Called on the loop's thread, never from within one of the stream's own calls; may close the stream, and
/// open others, within any of these.
package protocol StreamHandler: AnyObject {
    func streamOpened(_ stream: ByteStream)
    /// Valid during the call only.
    func streamReceived(_ stream: ByteStream, _ bytes: UnsafeRawBufferPointer)
    /// Failed to connect, reset, end of stream: once. The stream is closed.
    func streamEnded(_ stream: ByteStream, _ reason: NetError)
}
