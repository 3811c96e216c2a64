import HubBase
import HubNet
import Testing

@Suite struct TLSCertificateTests {
    static let one = TestCertificate.make(["Hub.Example", "*.hub.example"])
    static let other = TestCertificate.make(["other.example"])

    static func problem(_ chain: [UInt8], _ key: [UInt8], now: Int64 = TestCertificate.now()) -> TLSCertificate.Problem? {
        do throws(TLSCertificate.Problem) {
            _ = try TLSCertificate(chain: chain, key: Secret(key), names: nil, now: now)
            return nil
        } catch { return error }
    }

    @Test("names come from the certificate, lower-case, unless they're given")
    func names() throws {
        #expect(try Self.one.load().names == ["hub.example", "*.hub.example"])
        let given = try Self.one.load(names: ["X.hub.example", "*.hub.example", "else.example"])
        #expect(given.names == ["x.hub.example", "*.hub.example", "else.example"])
        #expect(given.namesNotCovered == ["else.example"])
        #expect(try TestCertificate.make([]).load().names.isEmpty)
    }

    @Test("a chain is read whole, and what follows PEM's end doesn't hurt")
    func chain() throws {
        let chain = Self.one.certificate + Self.other.certificate + [UInt8]("\n# the end\n".utf8)
        let certificate = try TLSCertificate(chain: chain, key: Secret(Self.one.key), names: nil, now: TestCertificate.now())
        #expect(certificate.names == ["hub.example", "*.hub.example"])
        #expect(certificate.fingerprint == (try Self.one.load().fingerprint))
        #expect(certificate.fingerprint.utf8.count == 64)
        #expect(certificate.notAfter > TestCertificate.now() && certificate.notBefore < TestCertificate.now())
    }

    @Test("what can't serve is refused in words")
    func refused() throws {
        #expect(Self.problem([], Self.one.key)?.description.contains("no certificate") == true)
        #expect(Self.problem([UInt8]("garbage".utf8), Self.one.key)?.isOfKey == false)
        #expect(Self.problem(Self.one.key, Self.one.key)?.description.contains("no certificate") == true)
        let mismatch = Self.problem(Self.one.certificate, Self.other.key)
        #expect(mismatch == .init(isOfKey: true, "doesn't belong to the certificate"))
        #expect(Self.problem(Self.one.certificate, [])?.isOfKey == true)
        #expect(Self.problem(Self.one.certificate, Self.one.certificate)?.isOfKey == true)
        // Without a terminal's question.
        #expect(Self.problem(Self.one.certificate, Self.one.lockedKey())?.description.contains("without a password") == true)
        let broken = Self.one.certificate + [UInt8]("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n".utf8)
        #expect(Self.problem(broken, Self.one.key)?.description.contains("broken certificate after the first 1") == true)
        let weak = TestCertificate.make(["weak.example"], kind: .rsa(bits: 1024))
        #expect(Self.problem(weak.certificate, weak.key)?.description.contains("ee key too small") == true)
    }

    @Test("one that has expired is refused, to the second")
    func expired() throws {
        let past = TestCertificate.make(["past.example"], days: -1)
        #expect(Self.problem(past.certificate, past.key)?.description.contains("has expired") == true)
        let end = try Self.one.load().notAfter
        #expect(Self.problem(Self.one.certificate, Self.one.key, now: end - 1) == nil)
        #expect(Self.problem(Self.one.certificate, Self.one.key, now: end)?.description.contains("has expired") == true)
    }

    @Test("every cut of a certificate and a key is refused and nothing worse", arguments: [true, false])
    func cuts(isOfKey: Bool) {
        let whole = isOfKey ? Self.one.key : Self.one.certificate
        for count in stride(from: 0, to: whole.count - 30, by: 7) {
            let cut = [UInt8](whole[..<count])
            #expect(Self.problem(isOfKey ? Self.one.certificate : cut, isOfKey ? cut : Self.one.key) != nil, "\(count)")
        }
    }

    @Test("the table of names: own names before wildcards, the first certificate of two, the first of all for the rest")
    func table() {
        let table = TLSNameTable([["a.example"], ["*.b.example", "A.example"], ["x.b.example", "b.example"]])
        for (host, index) in [
            ("a.example", 0), ("A.EXAMPLE", 0), ("y.b.example", 1), ("x.b.example", 2), ("b.example", 2), ("z.y.b.example", 0), ("", 0),
            (".b.example", 0), ("b.example.", 0), ("nobody", 0), ("*.b.example", 1),
        ] {
            #expect(table.index(of: host) == index, "\(host)")
        }
        #expect(table.repeated == ["a.example"])
    }

    @Test(
        "a name of the table is a host's, or a wildcard in its first label",
        arguments: [
            ("a", true), ("a.example", true), ("*.example", true), ("*.a-b.example", true), ("*", false), ("*.", false),
            ("*.*.example", false),
            ("a.*.example", false), ("", false), (".a", false), ("a..b", false), ("a.example.", false), ("a b", false),
            ("ä.example", false),
        ])
    func isName(text: String, expected: Bool) { #expect(TLSNameTable.isName(text) == expected) }

    @Test("ticket keys follow from secret and time alone; each opens for its own period, the one before and the one after")
    func ticketKeys() {
        let secret = Secret([UInt8](repeating: 3, count: 32))
        let keys = TicketKeys(secret: secret)
        let now = TicketKeys.period(at: 1_800_000_000)
        #expect(keys.key(period: now) == TicketKeys(secret: secret).key(period: now))
        #expect(keys.key(period: now) != keys.key(period: now + 1))
        #expect(TicketKeys().key(period: now) != keys.key(period: now))
        #expect(TicketKeys.period(at: 1_800_000_000 + TicketKeys.periodSeconds) == now + 1)
        let key = keys.key(period: now)
        #expect(Set([key.name, Array(key.cipher.prefix(16)), Array(key.mac.prefix(16))]).count == 3)
        for (period, isCurrent) in [(now - 2, nil), (now - 1, false), (now, true), (now + 1, false), (now + 2, nil)] as [(Int64, Bool?)] {
            let found = key.name.withUnsafeBytes { keys.key(named: $0, period: period) }
            #expect(found?.isCurrent == isCurrent)
            #expect(found == nil || found?.key == key)
        }
    }
}
