import HubNet
import Testing

@Suite struct SocketAddressTests {
    @Test(
        "a literal address reads back as it was written",
        arguments: ["127.0.0.1:8080", "0.0.0.0:0", "255.255.255.255:65535", "[::1]:8080", "[2001:db8::7]:443"])
    func literals(text: String) throws {
        let address = try #require(SocketAddress(text))
        #expect(address.description == text)
        #expect(address.port == Int(text.split(separator: ":").last ?? ""))
    }

    @Test(
        "what isn't a literal address isn't taken",
        arguments: [
            "", ":", "127.0.0.1", "127.0.0.1:", "127.0.0.1:65536", "127.0.0.1:-1", "127.0.0.1:+1", "127.0.0.1: 1", "127.0.0.1:000001",
            "256.0.0.1:1",
            "localhost:80", "::1:80", "[::1]", "[::1:80", "[127.0.0.1]:80", "127.0.0.1:9999999999999999999999",
        ])
    func notLiterals(text: String) { #expect(SocketAddress(text) == nil) }

    @Test(
        "loopback is 127.0.0.0/8, ::1, the mapped form, and a Unix path",
        arguments: [
            ("127.0.0.1:1", true), ("127.255.0.3:1", true), ("128.0.0.1:1", false), ("0.0.0.0:1", false), ("[::1]:1", true),
            ("[::]:1", false),
            ("[::ffff:127.0.0.1]:1", true), ("[::ffff:10.0.0.1]:1", false), ("[fe80::1]:1", false),
        ])
    func loopback(text: String, isLoopback: Bool) throws {
        #expect(try #require(SocketAddress(text)).isLoopback == isLoopback)
        #expect(SocketAddress(unixPath: "/run/x").isLoopback)
    }

    @Test("a name is resolved with its port; one that isn't there is an error that names it")
    func resolver() throws {
        let addresses = try Resolver.resolve(host: "localhost", port: 6379)
        #expect(addresses.contains { $0.isLoopback && $0.port == 6379 })
        #expect(try Resolver.resolve(host: "127.0.0.1", port: 80).map(\.description) == ["127.0.0.1:80"])
        #expect(throws: NetError.self) { _ = try Resolver.resolve(host: "no such host", port: 80) }
        #expect(throws: NetError.self) { _ = try Resolver.resolve(host: "localhost", port: 65536) }
        let answers = Watch<Result<[SocketAddress], NetError>>()
        Resolver.resolve(host: "localhost", port: 80) { answers.note($0) }
        #expect(try answers.wait(for: 1).first?.get().isEmpty == false)
    }
}
