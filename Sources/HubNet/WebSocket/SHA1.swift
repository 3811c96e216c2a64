import COpenSSL

/// SHA-1, for `Sec-WebSocket-Accept` alone: there it's a checksum, not a secret.
enum SHA1 {
    static func digest(_ bytes: UnsafeRawBufferPointer) -> InlineArray<20, UInt8> {
        var digest = InlineArray<20, UInt8>(repeating: 0)
        withUnsafeMutableBytes(of: &digest) { target in
            _ = COpenSSL.SHA1(
                bytes.baseAddress?.assumingMemoryBound(to: UInt8.self), bytes.count,
                target.baseAddress?.assumingMemoryBound(to: UInt8.self))
        }
        return digest
    }
}
