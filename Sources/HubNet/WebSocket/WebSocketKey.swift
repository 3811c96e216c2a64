import HubBase

/// `Sec-WebSocket-Key`: 16 bytes in base64 (RFC 6455 §4.1).
package struct WebSocketKey: Sendable {
    package let text: InlineArray<24, UInt8>

    /// A client's key, from 16 bytes of chance.
    package init(nonce: (UInt64, UInt64)) {
        var text = InlineArray<24, UInt8>(repeating: 0)
        withUnsafeBytes(of: nonce) { bytes in
            withUnsafeMutableBytes(of: &text) { Base64.encode(bytes, into: $0) }
        }
        self.text = text
    }

    /// A key from the wire; nil when it isn't the base64 of 16 bytes. The last digit's unused bits may be anything: some clients draw 24
    /// characters rather than 16 bytes.
    init?(_ bytes: UnsafeRawBufferPointer) {
        guard bytes.count == 24, bytes[22] == UInt8(ascii: "="), bytes[23] == UInt8(ascii: "=") else { return nil }
        for byte in bytes[..<22] where !Base64.isDigit(byte) { return nil }
        var text = InlineArray<24, UInt8>(repeating: 0)
        withUnsafeMutableBytes(of: &text) { $0.copyMemory(from: bytes) }
        self.text = text
    }

    /// What the server has to answer to this key.
    package var acceptKey: AcceptKey {
        let guid: StaticString = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
        var input = InlineArray<60, UInt8>(repeating: 0)
        withUnsafeMutableBytes(of: &input) { target in
            withUnsafeBytes(of: self.text) { target.copyMemory(from: $0) }
            UnsafeMutableRawBufferPointer(rebasing: target[24...]).copyMemory(
                from: UnsafeRawBufferPointer(start: guid.utf8Start, count: guid.utf8CodeUnitCount))
        }
        let digest = withUnsafeBytes(of: input) { SHA1.digest($0) }
        var text = InlineArray<28, UInt8>(repeating: 0)
        withUnsafeBytes(of: digest) { bytes in
            withUnsafeMutableBytes(of: &text) { Base64.encode(bytes, into: $0) }
        }
        return AcceptKey(text: text)
    }
}

/// `Sec-WebSocket-Accept`: SHA-1 of the key and a fixed GUID, in base64 (RFC 6455 §4.2.2).
package struct AcceptKey: Sendable {
    package let text: InlineArray<28, UInt8>

    func equals(_ bytes: UnsafeRawBufferPointer) -> Bool {
        withUnsafeBytes(of: text) { $0.elementsEqual(bytes) }
    }
}
