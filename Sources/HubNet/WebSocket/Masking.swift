/// The XOR of RFC 6455 §5.3: masking and unmasking are the same.
package enum Masking {
    /// Masks `bytes` in place, eight at a time.
    /// - Parameters:
    ///   - key: the four key bytes as they lie in memory (a native load of them).
    ///   - offset: how many bytes of the payload come before `bytes`.
    package static func apply(_ key: UInt32, to bytes: UnsafeMutableRawBufferPointer, offset: Int = 0) { fatalError("skeleton") }
}
