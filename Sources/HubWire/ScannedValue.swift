import HubBase

/// What an envelope scanner needs of a value, so that its rules stand once for both formats. Generic inside this target only, where
/// the compiler makes one copy for each format.
protocol ScannedValue {
    var kind: WireKind { get }
    /// Of a string its content, of all else the whole token.
    var range: ByteRange { get }
    var hasEscapes: Bool { get }
    /// The value as it was written, a string with its quotes or its header.
    var token: ByteRange { get }

    /// An integer from 0 to 2^53 − 1, of a value that is a number; nil for all else.
    func unsigned(in message: UnsafeRawBufferPointer) -> UInt64?
    /// Of a value that is a bool.
    func isTrue(in message: UnsafeRawBufferPointer) -> Bool
}

extension JSONValue: ScannedValue {
    @inline(__always) func unsigned(in message: UnsafeRawBufferPointer) -> UInt64? {
        kind == .number ? JSONText.unsigned(range.bytes(in: message)) : nil
    }

    @inline(__always) func isTrue(in message: UnsafeRawBufferPointer) -> Bool { range.bytes(in: message).first == UInt8(ascii: "t") }
}

extension MessagePackValue: ScannedValue {
    @inline(__always) var hasEscapes: Bool { false }

    @inline(__always) func unsigned(in message: UnsafeRawBufferPointer) -> UInt64? {
        guard kind == .number else { return nil }
        let bytes = range.bytes(in: message)
        // Nearly always the number itself.
        if bytes.count == 1, bytes[0] < 0x80 { return UInt64(bytes[0]) }
        return MessagePack.unsigned(bytes)
    }

    @inline(__always) func isTrue(in message: UnsafeRawBufferPointer) -> Bool { range.bytes(in: message).first == 0xC3 }
}
