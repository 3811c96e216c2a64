import HubBase

/// MessagePack's values, between the wire's bytes and ours.
package enum MessagePack {
    /// A number's token that is an integer from 0 to 2^53 − 1; nil for all else, a double without a fraction too.
    package static func unsigned(_ token: UnsafeRawBufferPointer) -> UInt64? {
        var cursor = MessagePackCursor(token, range: ByteRange(offset: 0, count: token.count), depthMax: 0)
        guard let head = try? cursor.head(), head.kind == .number, head.number == .unsigned, cursor.index == token.count else { return nil }
        return head.bits < 1 &<< 53 ? head.bits : nil
    }

    /// Whether the bytes are one value nested at most `depthMax` deep, and one that JSON can carry (`MessagePackCursor`). UTF-8 is checked.
    package static func isValue(_ bytes: UnsafeRawBufferPointer, depthMax: Int) -> Bool {
        guard bytes.count < Int(UInt32.max) else { return false }
        var cursor = MessagePackCursor(bytes, range: ByteRange(offset: 0, count: bytes.count), depthMax: depthMax)
        guard (try? cursor.value(at: 0)) != nil else { return false }
        return cursor.index == cursor.end
    }
}
