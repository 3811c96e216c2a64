import HubNet
import Testing

@Suite struct ProxyHeaderTests {
    static let signature: [UInt8] = [0x0D, 0x0A, 0x0D, 0x0A, 0x00, 0x0D, 0x0A, 0x51, 0x55, 0x49, 0x54, 0x0A]

    static func header(_ command: UInt8, _ family: UInt8, _ rest: [UInt8], length: Int? = nil) -> [UInt8] {
        let count = length ?? rest.count
        return signature + [command, family, UInt8(count >> 8 & 255), UInt8(count & 255)] + rest
    }

    /// 192.0.2.7:51000 to 198.51.100.1:443.
    static let v4: [UInt8] = [192, 0, 2, 7, 198, 51, 100, 1, 0xC7, 0x38, 0x01, 0xBB]
    /// [2001:db8::7]:51000 to [2001:db8::1]:443.
    static let v6: [UInt8] =
        [0x20, 0x01, 0x0D, 0xB8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 7] + [0x20, 0x01, 0x0D, 0xB8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]
        + [0xC7, 0x38, 0x01, 0xBB]
    static let extensions: [UInt8] = [0x01, 0x00, 0x02, 0x68, 0x32, 0xEA, 0x00, 0x03, 1, 2, 3]

    static func parse(_ bytes: [UInt8]) -> ProxyHeader.Outcome { bytes.withUnsafeBytes { ProxyHeader.parse($0) } }

    @Test(
        "the client's address is read, extensions are passed over, §2.2",
        arguments: [
            (header(0x21, 0x11, v4), "192.0.2.7:51000"), (header(0x21, 0x11, v4 + extensions), "192.0.2.7:51000"),
            (header(0x21, 0x21, v6), "[2001:db8::7]:51000"), (header(0x21, 0x21, v6 + extensions), "[2001:db8::7]:51000"),
            (header(0x21, 0x21, [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xFF, 0xFF, 192, 0, 2, 7] + v6[16...]), "192.0.2.7:51000"),
        ])
    func addresses(bytes: [UInt8], client: String) {
        #expect(Self.parse(bytes) == .header(byteCount: bytes.count, client: SocketAddress(client)))
        #expect(Self.parse(bytes + [0x16, 0x03, 0x01]) == .header(byteCount: bytes.count, client: SocketAddress(client)))
    }

    @Test(
        "the connection's own address stands where the header names none: LOCAL, no family, a Unix socket",
        arguments: [
            header(0x20, 0x00, []), header(0x20, 0x11, v4), header(0x20, 0x11, []), header(0x20, 0x21, extensions), header(0x21, 0x00, []),
            header(0x21, 0x00, extensions), header(0x21, 0x10, v4), header(0x21, 0x31, [UInt8](repeating: 0x2F, count: 216)),
        ])
    func none(bytes: [UInt8]) {
        #expect(Self.parse(bytes) == .header(byteCount: bytes.count, client: nil))
    }

    @Test(
        "every cut asks for more, for 16 bytes first and then for exactly the header",
        arguments: [header(0x21, 0x11, v4), header(0x21, 0x21, v6 + extensions)])
    func cuts(bytes: [UInt8]) {
        for count in 0..<bytes.count {
            #expect(Self.parse([UInt8](bytes[..<count])) == .needMore(wanted: count < 16 ? 16 : bytes.count), "\(count)")
        }
    }

    @Test(
        "what can't be is refused",
        arguments: [
            header(0x11, 0x11, v4), header(0x31, 0x11, v4), header(0x22, 0x11, v4), header(0x2F, 0x11, v4), header(0x21, 0x41, v4),
            header(0x21, 0x13, v4), header(0x21, 0x12, v4), header(0x21, 0x11, [], length: 11), header(0x21, 0x21, [], length: 35),
            header(0x21, 0x31, [], length: 215), header(0x21, 0x11, [], length: 65535), header(0x20, 0x00, [], length: 4081),
            [UInt8]("GET / HTTP/1.1\r\n\r\n".utf8), [0x16, 0x03, 0x01], [0x0D, 0x0A, 0x0D, 0x0B],
        ])
    func refused(bytes: [UInt8]) {
        guard case .refused = Self.parse(bytes) else {
            Issue.record("\(Self.parse(bytes))")
            return
        }
    }

    @Test("the largest header is taken")
    func largest() {
        let bytes = Self.header(0x21, 0x11, Self.v4 + [UInt8](repeating: 0, count: 4080 - 12))
        #expect(Self.parse(bytes) == .header(byteCount: 4096, client: SocketAddress("192.0.2.7:51000")))
    }

    @Test("version 1 is refused with words that say which version is taken")
    func versionOne() {
        #expect(
            Self.parse([UInt8]("PROXY TCP4 192.0.2.7 198.51.100.1 1 2\r\n".utf8))
                == .refused("PROXY protocol version 1, or none: version 2 is taken"))
        #expect(Self.parse([UInt8]("P".utf8)) == .refused("PROXY protocol version 1, or none: version 2 is taken"))
    }

    @Test(
        "every single byte changed gives an outcome, and a length never more than the bytes",
        arguments: [header(0x21, 0x21, v6 + extensions)])
    func mutations(bytes: [UInt8]) {
        for place in bytes.indices {
            for value in 0...255 {
                var changed = bytes
                changed[place] = UInt8(value)
                if case .header(let count, _) = Self.parse(changed) { #expect(count <= changed.count) }
            }
        }
    }
}
