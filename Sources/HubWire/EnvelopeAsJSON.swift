import HubBase

/// The hub's envelopes in MessagePack as the JSON that clients read: for programs that have one reader and speak every format.
package enum EnvelopeAsJSON {
    /// Appends the envelope, its payload rewritten too. False when it isn't MessagePack that we take; then nothing was appended.
    /// Cost: one pass; the JSON is some twice as long, at most six times.
    package static func rewrite(_ message: UnsafeRawBufferPointer, isShort: Bool, into buffer: inout ByteBuffer) -> Bool {
        guard message.count < Int(UInt32.max) else { return false }
        let filled = buffer.count
        var reader = MessagePackToJSON(message, isShort: isShort)
        do throws(MessagePackFault) {
            try reader.whole(into: &buffer)
            return true
        } catch {
            buffer.count = filled
            return false
        }
    }
}
