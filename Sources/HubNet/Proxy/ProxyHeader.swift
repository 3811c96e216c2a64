import HubBase

/// The header that a load balancer sends before anything else, PROXY protocol version 2 (haproxy's doc/proxy-protocol.txt §2.2): who the client is.
/// A pure value: bytes in, an outcome out.
package enum ProxyHeader {
    package enum Outcome: Equatable {
        /// More bytes are needed, `wanted` in all.
        case needMore(wanted: Int)
        /// The header's bytes, and the client that it names; nil where it names none that counts: the balancer's own connection (LOCAL), an unknown
        /// family, a Unix socket. Then the connection's own address stands.
        case header(byteCount: Int, client: SocketAddress?)
        case refused(String)
    }

    private static let signature: [UInt8] = [0x0D, 0x0A, 0x0D, 0x0A, 0x00, 0x0D, 0x0A, 0x51, 0x55, 0x49, 0x54, 0x0A]
    private static let fixedBytes = 16
    /// Addresses take 216 bytes at most; the rest is for extensions (TLVs), which aren't read.
    package static let bytesMax = 4096

    /// Judges the first bytes of a connection. A wrong byte is refused as soon as it's there.
    package static func parse(_ bytes: UnsafeRawBufferPointer) -> Outcome {
        for (place, expected) in signature.enumerated() {
            guard place < bytes.count else { return .needMore(wanted: fixedBytes) }
            guard bytes[place] == expected else {
                return bytes[0] == UInt8(ascii: "P")
                    ? .refused("PROXY protocol version 1, or none: version 2 is taken") : .refused("no PROXY header where one must be")
            }
        }
        guard bytes.count > 12 else { return .needMore(wanted: fixedBytes) }
        guard bytes[12] >> 4 == 2 else { return .refused("a PROXY header of an unknown version") }
        let command = bytes[12] & 0x0F
        guard command <= 1 else { return .refused("a PROXY header with an unknown command") }
        guard bytes.count >= fixedBytes else { return .needMore(wanted: fixedBytes) }
        let family = bytes[13] >> 4
        let transport = bytes[13] & 0x0F
        guard family <= 3, transport <= 2 else { return .refused("a PROXY header with an unknown family") }
        let length = Int(bytes[14]) << 8 | Int(bytes[15])
        let total = fixedBytes + length
        guard total <= bytesMax else { return .refused("a PROXY header that is too long") }
        // LOCAL: whatever it says of addresses is to be ignored.
        let addressBytes = command == 0 ? 0 : [0, 12, 36, 216][Int(family)]
        guard length >= addressBytes else { return .refused("a PROXY header too short for its addresses") }
        if command == 1, family != 0, transport == 2 { return .refused("a PROXY header for datagrams") }
        guard bytes.count >= total else { return .needMore(wanted: total) }
        return .header(byteCount: total, client: command == 1 && transport == 1 ? client(family, bytes) : nil)
    }

    private static func client(_ family: UInt8, _ bytes: UnsafeRawBufferPointer) -> SocketAddress? {
        func word(_ place: Int) -> UInt64 { UInt64(bigEndian: bytes.loadUnaligned(fromByteOffset: place, as: UInt64.self)) }
        func port(_ place: Int) -> UInt16 { UInt16(bytes[place]) << 8 | UInt16(bytes[place + 1]) }
        switch family {
        case 1: return SocketAddress(IPAddress(v4: UInt32(truncatingIfNeeded: word(16) >> 32)), port: port(24))
        case 2: return SocketAddress(IPAddress(high: word(16), low: word(24)), port: port(48))
        default: return nil
        }
    }
}
