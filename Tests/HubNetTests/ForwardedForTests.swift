import HubBase
import HubNet
import Testing

@Suite struct ForwardedForTests {
    static let ranges = ["10.0.0.0/8", "192.0.2.1", "2001:db8:aaaa::/48"].compactMap { AddressRange($0) }

    static func client(_ header: TrustedProxies.Header, _ lines: [String], from sender: String) -> IPAddress? {
        let bytes = [UInt8](("GET / HTTP/1.1\r\nHost: a\r\n" + lines.map { $0 + "\r\n" }.joined() + "\r\n").utf8)
        return bytes.withUnsafeBytes { bytes in
            var parser = HTTPHeadParser()
            guard case .head(let head) = parser.parse(bytes, limits: NetLimits()), let sender = IPAddress(sender) else { return nil }
            let request = HTTPRequest(head, in: bytes, body: UnsafeRawBufferPointer(start: nil, count: 0))
            return ForwardedFor(TrustedProxies(ranges: ranges, header: header)).client(of: request, from: sender)
        }
    }

    @Test(
        "from the right, the first address that isn't a trusted proxy's is the client",
        arguments: [
            (["X-Forwarded-For: 203.0.113.9"], "203.0.113.9"),
            (["x-forwarded-for: 1.1.1.1, 203.0.113.9"], "203.0.113.9"),
            (["X-Forwarded-For: 1.1.1.1, 203.0.113.9, 10.2.3.4"], "203.0.113.9"),
            (["X-Forwarded-For: 1.1.1.1", "X-Forwarded-For: 203.0.113.9", "X-Forwarded-For: 10.2.3.4,192.0.2.1"], "203.0.113.9"),
            (["X-Forwarded-For: 10.9.9.9, 10.2.3.4"], "10.9.9.9"),
            (["X-Forwarded-For: 203.0.113.9:4711"], "203.0.113.9"),
            (["X-Forwarded-For: 2001:db8::9, 2001:db8:aaaa::1"], "2001:db8::9"),
            (["X-Forwarded-For: [2001:db8::9]:80"], "2001:db8::9"),
            (["X-Forwarded-For: ::ffff:203.0.113.9"], "203.0.113.9"),
            (["X-Forwarded-For: , ,203.0.113.9 , "], "203.0.113.9"),
            // What can't be read stops the reading: the proxy before it is all that is known.
            (["X-Forwarded-For: 203.0.113.9, unknown"], "10.0.0.1"),
            (["X-Forwarded-For: 203.0.113.9, unknown, 10.2.3.4"], "10.2.3.4"),
            (["X-Forwarded-For: 203.0.113.9x"], "10.0.0.1"), (["X-Forwarded-For: "], "10.0.0.1"), ([], "10.0.0.1"),
            (["X-Forwarded-For: 203.0.113.9:"], "10.0.0.1"), (["X-Forwarded-For: 203.0.113.9:123456"], "10.0.0.1"),
            (["X-Forwarded-For: [203.0.113.9]"], "10.0.0.1"), (["X-Forwarded-For: [2001:db8::9"], "10.0.0.1"),
            (["X-Forwarded-For: fe80::1%eth0"], "10.0.0.1"),
            // A quote that a client opens hides nothing.
            (["X-Forwarded-For: \"1.1.1.1, 203.0.113.9"], "203.0.113.9"),
            // The other header is the client's own.
            (["Forwarded: for=1.1.1.1", "X-Forwarded-For: 203.0.113.9"], "203.0.113.9"), (["Forwarded: for=1.1.1.1"], "10.0.0.1"),
        ])
    func xForwardedFor(lines: [String], client: String) {
        #expect(Self.client(.xForwardedFor, lines, from: "10.0.0.1") == IPAddress(client))
    }

    @Test(
        "Forwarded, with all that RFC 7239 §4 and §6 let it hold",
        arguments: [
            (["Forwarded: for=203.0.113.9"], "203.0.113.9"), (["forwarded: FOR=203.0.113.9;proto=https;by=10.0.0.1"], "203.0.113.9"),
            (["Forwarded: proto=https; for=\"203.0.113.9:4711\""], "203.0.113.9"),
            (["Forwarded: for=\"[2001:db8::9]\""], "2001:db8::9"), (["Forwarded: for=\"[2001:db8::9]:4711\""], "2001:db8::9"),
            (["Forwarded: for=1.1.1.1, for=203.0.113.9, for=10.2.3.4"], "203.0.113.9"),
            (["Forwarded: for=1.1.1.1", "Forwarded: for=203.0.113.9"], "203.0.113.9"),
            (["Forwarded: for=203.0.113.9;host=\"a, for=1.1.1.1; b\\\"\""], "203.0.113.9"),
            (["Forwarded: for=203.0.113.9, for=unknown"], "10.0.0.1"), (["Forwarded: for=203.0.113.9, for=_hidden"], "10.0.0.1"),
            (["Forwarded: proto=https"], "10.0.0.1"), (["Forwarded: for"], "10.0.0.1"), (["Forwarded: for="], "10.0.0.1"),
            (["Forwarded: for=\""], "10.0.0.1"),
            // A quote that a client leaves open doesn't swallow what the proxy appends.
            (["Forwarded: for=\"1.1.1.1, for=203.0.113.9"], "203.0.113.9"),
            (["Forwarded: for=\"1.1.1.1\\, for=203.0.113.9"], "203.0.113.9"),
            (["Forwarded: for=\"1.1.1.1, for=\"[2001:db8::9]\""], "2001:db8::9"),
            (["X-Forwarded-For: 1.1.1.1", "Forwarded: for=203.0.113.9"], "203.0.113.9"),
        ])
    func forwarded(lines: [String], client: String) {
        #expect(Self.client(.forwarded, lines, from: "10.0.0.1") == IPAddress(client))
    }

    @Test("who isn't trusted speaks for itself only", arguments: ["203.0.113.77", "192.0.2.2", "2001:db8:aaab::1"])
    func untrusted(sender: String) {
        #expect(Self.client(.xForwardedFor, ["X-Forwarded-For: 1.1.1.1"], from: sender) == IPAddress(sender))
    }

    @Test(
        "a range holds what its prefix says, IPv4 in both of its forms",
        arguments: [
            ("10.0.0.0/8", ["10.0.0.0", "10.255.255.255", "::ffff:10.1.2.3"], ["9.255.255.255", "11.0.0.0", "::10.0.0.1"]),
            ("192.0.2.128/25", ["192.0.2.128", "192.0.2.255"], ["192.0.2.127", "192.0.3.128"]),
            ("192.0.2.1/32", ["192.0.2.1"], ["192.0.2.0"]),
            ("192.0.2.1", ["192.0.2.1"], ["192.0.2.3"]), ("0.0.0.0/0", ["1.2.3.4", "255.255.255.255"], ["::1"]),
            ("::/0", ["::1", "1.2.3.4"], []), ("2001:db8::/32", ["2001:db8::1", "2001:db8:ffff::"], ["2001:db9::"]),
            ("2001:db8::/65", ["2001:db8::7fff:0:0:1"], ["2001:db8::8000:0:0:1", "2001:db8:0:1::"]), ("::1", ["::1"], ["::2", "1::1"]),
            ("2001:db8::/64", ["2001:db8::ffff:0:0:1"], ["2001:db8:0:1::"]),
        ])
    func ranges(text: String, inside: [String], outside: [String]) throws {
        let range = try #require(AddressRange(text))
        for address in inside { #expect(range.contains(try #require(IPAddress(address))), "\(address)") }
        for address in outside { #expect(!range.contains(try #require(IPAddress(address))), "\(address)") }
    }

    @Test(
        "what isn't a range is none",
        arguments: [
            "", "/", "10.0.0.0/", "10.0.0.0/33", "10.0.0.0/-1", "10.0.0.0/+8", "10.0.0.0/08", "10.0.0.1/8", "10.0.0/8", "::/129", "::1/64",
            "a", "10.0.0.0/8/8", "[::1]", "1.2.3.4:80",
        ])
    func noRange(text: String) { #expect(AddressRange(text) == nil) }
}
