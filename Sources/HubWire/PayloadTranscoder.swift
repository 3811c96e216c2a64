import HubBase

/// Rewrites an application's payload for subscribers who speak the other format (docs/protocol.md, MessagePack). Once for each loop and
/// publication, never for each subscriber.
package enum PayloadTranscoder {
    /// Appends what `payload` means. It must be a value that our own checks took: then it can't fail. One that can't be read is our own
    /// fault and goes out as null, so that the rest of the channel isn't lost with it.
    ///
    /// MessagePack as JSON is at most six times as long (a control character in a string), JSON as MessagePack five times (`-0`).
    package static func append(_ payload: [UInt8], from: PayloadFormat, to: PayloadFormat, into buffer: inout ByteBuffer) {
        payload.withUnsafeBytes { payload in
            guard !rewrite(payload, from: from, to: to, into: &buffer) else { return }
            switch to {
            case .json: buffer.append("null")
            case .messagePack: buffer.append(0xC0 as UInt8)
            }
        }
    }

    /// False when it isn't a value of that format that the other one can carry; then nothing was appended.
    package static func rewrite(_ payload: UnsafeRawBufferPointer, from: PayloadFormat, to: PayloadFormat, into buffer: inout ByteBuffer)
        -> Bool
    {
        guard payload.count < Int(UInt32.max) else { return false }
        let filled = buffer.count
        do {
            switch (from, to) {
            case (.json, .messagePack):
                var reader = JSONToMessagePack(payload)
                try reader.whole(into: &buffer)
            case (.messagePack, .json):
                var reader = MessagePackToJSON(payload)
                try reader.whole(into: &buffer)
            case (.json, .json), (.messagePack, .messagePack): buffer.append(payload)
            }
            return true
        } catch {
            buffer.count = filled
            return false
        }
    }
}
