/// Finds the borders of what we wrote ourselves, in queues: where one may be cut without breaking the wire.
package enum FrameWalk {
    /// WebSocket frames, whose headers tell their lengths.
    case frames
    /// Server-sent events, which end at an empty line and hold none.
    case events

    /// The whole length of the frame that begins at `offset`; the rest of the bytes when its end isn't to be seen.
    func length(_ bytes: UnsafeRawBufferPointer, at offset: Int) -> Int {
        if self == .events { return EventEncoder.length(bytes, at: offset) }
        let rest = bytes.count - offset
        guard rest >= 2 else { return rest }
        let second = bytes[offset + 1]
        let mask = second & 0x80 != 0 ? 4 : 0
        switch second & 0x7F {
        case 127:
            guard rest >= 10 else { return rest }
            // Our own frames are below 2^32.
            let low = bytes.loadUnaligned(fromByteOffset: offset + 6, as: UInt32.self)
            return 10 + mask + Int(UInt32(bigEndian: low))
        case 126:
            guard rest >= 4 else { return rest }
            let short = bytes.loadUnaligned(fromByteOffset: offset + 2, as: UInt16.self)
            return 4 + mask + Int(UInt16(bigEndian: short))
        case let count: return 2 + mask + Int(count)
        }
    }

    /// With frames from `border` on: how much of the frame that holds the byte at `position` comes at or after it; 0 at a border.
    func restOfFrame(_ bytes: UnsafeRawBufferPointer, from border: Int, at position: Int) -> Int {
        var offset = border
        while offset < position { offset += max(length(bytes, at: offset), 1) }
        return offset - position
    }

    /// How many frames begin in `bytes`.
    func count(_ bytes: UnsafeRawBufferPointer) -> Int {
        var offset = 0
        var count = 0
        while offset < bytes.count {
            offset += max(length(bytes, at: offset), 1)
            count += 1
        }
        return count
    }
}
