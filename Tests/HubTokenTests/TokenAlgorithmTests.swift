import HubBase
import HubCore
import HubToken
import HubWire
import Testing

@Suite("Tokens of every algorithm")
struct TokenAlgorithmTests {
    private static let now: UInt64 = 1_950_000_000
    private static let user = Name(trusted: Array("zoë".utf8))

    private func verify(_ token: [UInt8], _ keys: [TokenKey]) -> Result<TokenClaims, WireError> {
        TokenVerifier(keys: keys).verify(token, nowMilliseconds: Self.now * 1000)
    }

    private func isInvalid(_ result: Result<TokenClaims, WireError>) -> Bool {
        if case .failure(let error) = result { error.code == .tokenInvalid } else { false }
    }

    private func mint(_ key: TokenKey) throws -> [UInt8] {
        try TokenMinter.mint(user: Self.user, issued: Self.now, expires: Self.now + 60, key: key)
    }

    @Test("what PyJWT signed is taken, with its rights", arguments: TokenKey.Algorithm.allCases)
    func foreign(algorithm: TokenKey.Algorithm) throws {
        let token = Array(try #require(TestKeys.foreign[algorithm]).utf8)
        let claims = try verify(token, [TestKeys.pair(algorithm).checking]).get()
        #expect(
            claims.user == Self.user && claims.tokenId == "t1" && claims.issued == 1_949_999_990_000 && claims.expires == 1_950_000_060_000)
        let rights = Rights.token(claims.user, try #require(claims.grants))
        #expect(rights.mayPublish(to: "room:1") && !rights.mayReadHistory(of: "room:1") && !rights.maySubscribe(to: "hall"))
    }

    @Test("what we mint we take, and nothing of it may be changed", arguments: TokenKey.Algorithm.allCases)
    func own(algorithm: TokenKey.Algorithm) throws {
        let (signing, checking) = try TestKeys.pair(algorithm, id: "main")
        let token = try mint(signing)
        #expect(try verify(token, [checking]).get().user == Self.user)
        let signature = try #require(token.lastIndex(of: UInt8(ascii: ".")))
        // All of header and claims, and some of the signature: asymmetric checks take their time.
        for index in Array(token.indices.prefix(signature)) + token.indices.suffix(8) {
            var changed = token
            changed[index] = changed[index] == UInt8(ascii: "A") ? UInt8(ascii: "B") : UInt8(ascii: "A")
            #expect(isInvalid(verify(changed, [checking])), "character \(index)")
        }
        for count in [signature + 1, token.count - 4, token.count - 1] {
            #expect(isInvalid(verify(Array(token.prefix(count)), [checking])))
        }
        #expect(isInvalid(verify(token + Array("AAAA".utf8), [checking])), "a longer signature")
    }

    @Test("a key takes tokens of its own algorithm alone, RFC 8725 §3.1", arguments: TokenKey.Algorithm.allCases)
    func others(algorithm: TokenKey.Algorithm) throws {
        let token = try mint(TestKeys.pair(algorithm).signing)
        let others = try TokenKey.Algorithm.allCases.filter { $0 != algorithm }.map { try TestKeys.pair($0).checking }
        #expect(isInvalid(verify(token, others)))
    }

    @Test("a header that names another algorithm for the same key is refused, RFC 8725 §2.1")
    func renamed() throws {
        // The RSA key's PS256 and RS256 have the same key, and signatures of the same length.
        let signing = try TestKeys.pair(.rs256).signing
        let claims = Array(#"{"sub":"alice","exp":1950000060}"#.utf8)
        let named = try TokenMinter.sign(header: Array(#"{"alg":"PS256"}"#.utf8), claims: claims, key: signing)
        #expect(isInvalid(verify(named, try [TestKeys.pair(.rs256).checking, TestKeys.pair(.ps256).checking])))
    }

    @Test(
        "HMAC by the public key's own text is refused, RFC 8725 §2.1",
        arguments: [TokenKey.Algorithm.rs256, .ps256, .es256, .es384, .edDSA])
    func confusion(algorithm: TokenKey.Algorithm) throws {
        let checking = try TestKeys.pair(algorithm).checking
        let text: [UInt8] =
            switch algorithm {
            case .es256: TestKeys.p256Public
            case .es384: TestKeys.p384Public
            case .edDSA: TestKeys.edPublic
            default: TestKeys.rsaPublic
            }
        for form in [text, text + [10]] {
            let forged = try mint(TokenKey(id: nil, algorithm: .hs256, secret: Secret(form)))
            #expect(isInvalid(verify(forged, [checking])))
        }
        #expect(throws: TokenKey.Problem.self, "nor may it be configured so") {
            try TokenKey(id: nil, algorithm: .hs256, bytes: Secret(text))
        }
    }

    @Test(
        "numbers of an ECDSA signature that are zero, too large or too many are refused, CVE-2022-21449",
        arguments: [TokenKey.Algorithm.es256, .es384])
    func psychic(algorithm: TokenKey.Algorithm) throws {
        let (signing, checking) = try TestKeys.pair(algorithm)
        let token = try mint(signing)
        let body = token.prefix(through: try #require(token.lastIndex(of: UInt8(ascii: "."))))
        let width = algorithm == .es256 ? 32 : 48
        for bytes in [
            [UInt8](repeating: 0, count: width * 2), [UInt8](repeating: 0xFF, count: width * 2),
            [UInt8](repeating: 0, count: width * 2 + 2),
            [UInt8](repeating: 1, count: width), [0x30, 0x06, 0x02, 0x01, 0x01, 0x02, 0x01, 0x01], [],
        ] {
            #expect(isInvalid(verify(body + Base64URL.encode(bytes), [checking])))
        }
    }

    @Test("an example of RFC 8037, A.4, is found right")
    func ed25519() throws {
        let set = Array(#"{"keys":[{"kty":"OKP","crv":"Ed25519","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}]}"#.utf8)
        guard case .key(let key) = try #require(try KeySet(json: set).keys.first).material else {
            Issue.record("no public key")
            return
        }
        let signature = try #require(
            Base64URL.decode(Array("hgyY0il_MGCjP0JzlnLWG1PPOt7-09PGcvMg3AIbQR6dWbhijcNR4ki4iylGjg5BhVsPt9g7sVvpAr_MuM0KAg".utf8)))
        let message = Array("eyJhbGciOiJFZERTQSJ9.RXhhbXBsZSBvZiBFZDI1NTE5IHNpZ25pbmc".utf8)
        #expect(message.withUnsafeBytes { key.verifies(signature, of: $0, .edDSA) })
        #expect(!(message + [33]).withUnsafeBytes { key.verifies(signature, of: $0, .edDSA) })
    }

    // MARK: Keys

    @Test("a key of the wrong kind, curve or size, or a private one, is refused by name")
    func wrongKeys() {
        func problem(_ algorithm: TokenKey.Algorithm, _ bytes: [UInt8]) -> String? {
            do throws(TokenKey.Problem) {
                _ = try TokenKey(id: nil, algorithm: algorithm, bytes: Secret(bytes))
                return nil
            } catch { return error.message }
        }
        #expect(problem(.es256, TestKeys.p384Public)?.contains("P-384") == true)
        #expect(problem(.es256, TestKeys.k1Public)?.contains("another kind") == true, "secp256k1")
        #expect(problem(.es384, TestKeys.p521Public)?.contains("another kind") == true)
        #expect(problem(.rs256, TestKeys.smallPublic)?.contains("1024 bits") == true)
        #expect(problem(.rs256, TestKeys.edPublic)?.contains("Ed25519") == true)
        #expect(problem(.edDSA, TestKeys.rsaPublic)?.contains("RSA") == true)
        #expect(problem(.rs256, TestKeys.rsaPrivate.bytes)?.contains("private key") == true)
        #expect(problem(.rs256, Array("not a key".utf8))?.contains("PEM") == true)
        #expect(
            problem(.rs256, Array("-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----\n".utf8))?.contains("no public key") == true)
        #expect(problem(.hs256, TestKeys.rsaPublic)?.contains("secret") == true)
    }

    @Test("a public key can't sign; no key prints what it holds")
    func silent() throws {
        let checking = try TestKeys.pair(.es256).checking
        #expect(throws: TokenKey.Problem.self) { try mint(checking) }
        for key in try [TestKeys.pair(.hs256, id: "a").signing, TestKeys.pair(.rs256, id: "a").signing] {
            #expect(
                "\(key)".hasSuffix("<redacted>)") && !"\(key.material)".contains("0123")
                    && !String(reflecting: key.material).contains("MII"))
        }
    }
}

@Suite("Key sets")
struct KeySetTests {
    private func set(_ keys: String...) -> Result<KeySet, TokenKey.Problem> {
        do throws(TokenKey.Problem) { return .success(try KeySet(json: Array(#"{"keys":[\#(keys.joined(separator: ","))]}"#.utf8))) } catch
        {
            return .failure(error)
        }
    }

    private static let good = #"{"kty":"OKP","crv":"Ed25519","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo","kid":"d"}"#

    @Test("PyJWT's set of our public keys checks what PyJWT signed", arguments: [TokenKey.Algorithm.rs256, .ps256, .es256, .es384, .edDSA])
    func foreign(algorithm: TokenKey.Algorithm) throws {
        let keys = try KeySet(json: TestKeys.set)
        #expect(keys.keys.map(\.id) == ["r", "p", "e", "e3", "d"] && keys.skipped == 0)
        #expect(keys.keys.map(\.algorithm) == [.rs256, .ps256, .es256, .es384, .edDSA])
        let token = Array(try #require(TestKeys.foreign[algorithm]).utf8)
        #expect(try TokenVerifier(keys: keys.keys).verify(token, nowMilliseconds: 1_950_000_000_000).get().tokenId == "t1")
    }

    @Test(
        "what can't be used is left out, the rest is taken, RFC 7517 §5",
        arguments: [
            #"{"kty":"oct","k":"AAAA","kid":"s"}"#, #"{"kty":"AKP","alg":"ML-DSA-44","pub":"AA"}"#,
            #"{"kty":"OKP","crv":"X25519","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}"#,
            #"{"kty":"OKP","crv":"Ed25519","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo","use":"enc"}"#,
            #"{"kty":"OKP","crv":"Ed25519","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo","key_ops":["sign"]}"#,
            #"{"kty":"OKP","crv":"Ed25519","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo","alg":"RS256"}"#,
            #"{"kty":"OKP","crv":"Ed25519","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo","d":"AAAA"}"#,
            #"{"kty":"OKP","crv":"Ed25519","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHU"}"#,
            #"{"kty":"EC","crv":"P-521","x":"AA","y":"AA"}"#, #"{"kty":"EC","crv":"secp256k1","x":"AA","y":"AA"}"#,
            #"{"kty":"EC","crv":"P-256","x":"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA","y":"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"}"#,
            #"{"kty":"RSA","n":"AQAB","e":"AQAB"}"#, #"{"kty":"RSA","e":"AQAB"}"#, #"{"kty":7}"#, #"{}"#, #"{"kty":"RSA","kid":7}"#,
            "7", "null", #""text""#, "[]", #"{"kty":"RSA","kty":"EC"}"#,
        ])
    func leftOut(key: String) throws {
        let taken = try set(key, Self.good).get()
        #expect(taken.keys.count == 1 && taken.skipped == 1)
        #expect(throws: TokenKey.Problem.self) { try set(key).get() }
    }

    @Test(
        "what is no set is refused as a whole",
        arguments: [
            "", "[]", "null", "{}", #"{"keys":{}}"#, #"{"keys":[]}"#, #"{"keys":[1]}"#, #"{"keys":[{"kty":"RSA","kty":"EC"}]}"#,
            #"{"keys":[],"keys":[]}"#,
            "<html>", #"{"keys":[\#(good)]} x"#,
        ])
    func refused(text: String) {
        #expect(throws: TokenKey.Problem.self) { try KeySet(json: Array(text.utf8)) }
    }

    @Test("too many keys, too many bytes, too deep: refused before the work")
    func bounded() {
        let many = [String](repeating: Self.good, count: 65).joined(separator: ",")
        #expect(throws: TokenKey.Problem.self) { try KeySet(json: Array(#"{"keys":[\#(many)]}"#.utf8)) }
        #expect(throws: TokenKey.Problem.self) { try KeySet(json: [UInt8](repeating: 32, count: KeySet.byteCountMax + 1)) }
        let deep = String(repeating: "[", count: 1000)
        #expect(throws: TokenKey.Problem.self) { try KeySet(json: Array(#"{"x":\#(deep)}"#.utf8)) }
    }
}
