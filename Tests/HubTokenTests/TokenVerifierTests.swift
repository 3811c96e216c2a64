import HubBase
import HubCore
import HubToken
import HubWire
import Testing

@Suite("Tokens")
struct TokenVerifierTests {
    private static let key = TokenKey(id: nil, secret: Secret(Array("0123456789abcdef0123456789abcdef".utf8)))
    /// Seconds since 1970.
    private static let now: UInt64 = 1_950_000_000
    private static let plain = #"{"alg":"HS256","typ":"JWT"}"#

    private func verify(_ token: [UInt8], keys: [TokenKey] = [key], now: UInt64 = now) -> Result<TokenClaims, WireError> {
        var rules = TokenVerifier.Rules()
        // Tokens of tests live for years.
        rules.lifeMax = .seconds(10 * 365 * 86_400)
        return TokenVerifier(keys: keys, rules: rules).verify(token, nowMilliseconds: now * 1000)
    }

    private func token(_ claims: String, header: String = plain, key: TokenKey = key) -> [UInt8] {
        // A secret always signs.
        (try? TokenMinter.sign(header: Array(header.utf8), claims: Array(claims.utf8), key: key)) ?? []
    }

    private func code(_ result: Result<TokenClaims, WireError>) -> ErrorCode? {
        guard case .failure(let error) = result else { return nil }
        return error.code
    }

    @Test("what we mint we take, with the user's name in any script", arguments: ["alice", "zoë", "a\"b\\c", "名前"])
    func minted(user: String) throws {
        let name = try #require(Name(validating: user))
        let token = try TokenMinter.mint(user: name, issued: Self.now, expires: Self.now + 60, key: Self.key)
        let claims = try verify(token).get()
        #expect(claims == TokenClaims(user: name, expires: (Self.now + 60) * 1000, issued: Self.now * 1000))
    }

    @Test("a token of PyJWT is taken, its kid chooses the key")
    func foreign() throws {
        let token =
            "eyJhbGciOiJIUzI1NiIsImtpZCI6Im1haW4iLCJ0eXAiOiJKV1QifQ.eyJzdWIiOiJ6b1x1MDBlYiIsImV4cCI6MjAwMDAwMDAwMCwiaWF0IjoxOTAwMDAwMDAwfQ.70doiu8_us_D6_ZURvLvBU-FeuTkWRvP4zUKR87f9C4"
        var named = Self.key
        named.id = "main"
        var other = Self.key
        other.id = "other"
        let claims = try verify(Array(token.utf8), keys: [other, named]).get()
        #expect(claims.user == Name(validating: "zoë"))
        #expect(code(verify(Array(token.utf8), keys: [other])) == .tokenInvalid)
        #expect(code(verify(Array(token.utf8), keys: [])) == .tokenInvalid)
    }

    @Test("the signature of RFC 7515, appendix A.1, is found right: the refusal is about the claims")
    func vector() throws {
        let secret = "AyM1SysPpbyDfgZld3umj1qzKObwVMkoqQ-EstJQLr_T-1qS0gZH75aKtMN3Yj0iPS4hcgUuTwjAzZr1Z9CAow"
        let token =
            "eyJ0eXAiOiJKV1QiLA0KICJhbGciOiJIUzI1NiJ9.eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFtcGxlLmNvbS9pc19yb290Ijp0cnVlfQ.dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk"
        let key = TokenKey(id: nil, secret: Secret(try #require(Base64URL.decode(Array(secret.utf8)))))
        guard case .failure(let error) = verify(Array(token.utf8), keys: [key]) else {
            Issue.record("a token without sub was taken")
            return
        }
        #expect(error.message == "the token's sub must be a user id of 1 to 250 bytes without control characters")
    }

    private static let good = #"{"sub":"alice","exp":1950000060}"#

    @Test(
        "a header of another kind is refused, RFC 8725 §§3.1-3.2, RFC 7515 §4.1.11",
        arguments: [
            #"{"alg":"none"}"#, #"{"alg":"None"}"#, #"{"alg":"HS512"}"#, #"{"alg":"RS256"}"#, #"{"alg":"hs256"}"#, #"{"alg":256}"#,
            #"{"alg":null}"#,
            #"{"typ":"JWT"}"#, #"{"alg":"HS256","crit":["exp"],"exp":1}"#, #"{"alg":"HS256","crit":[]}"#, #"{"alg":"HS256","alg":"HS256"}"#,
            #"{"alg":"HS256","\u0061lg":"none"}"#, #"{"alg":"HS256","kid":7}"#, #"["HS256"]"#, #""HS256""#, "", "{", #"{"alg":"HS256"} x"#,
            "null",
        ])
    func headers(header: String) {
        #expect(code(verify(token(Self.good, header: header))) == .tokenInvalid)
    }

    @Test("a header may say more than we need")
    func richHeader() {
        #expect(code(verify(token(Self.good, header: #"{"alg":"HS256","typ":"at+jwt","x":{"y":[1,2]},"kid":"any"}"#))) == nil)
    }

    @Test(
        "claims that are missing, doubled or of the wrong kind are refused, RFC 7519 §4.1, field-faults B67",
        arguments: [
            (#"{"exp":1950000060}"#, ErrorCode.tokenInvalid), (#"{"sub":"","exp":1950000060}"#, .tokenInvalid),
            (#"{"sub":7,"exp":1950000060}"#, .tokenInvalid),
            (#"{"sub":"a\u0000b","exp":1950000060}"#, .tokenInvalid), (#"{"sub":"\ud800","exp":1950000060}"#, .tokenInvalid),
            (#"{"sub":["a"],"exp":1950000060}"#, .tokenInvalid), (#"{"sub":"alice"}"#, .tokenInvalid),
            (#"{"sub":"alice","exp":"1950000060"}"#, .tokenInvalid), (#"{"sub":"alice","exp":1e400}"#, .tokenInvalid),
            (#"{"sub":"alice","exp":1.7976931348623157e308}"#, .tokenInvalid), (#"{"sub":"alice","exp":1950000060.5}"#, .tokenInvalid),
            (#"{"sub":"alice","exp":-1}"#, .tokenInvalid), (#"{"sub":"alice","exp":18446744073709551616}"#, .tokenInvalid),
            (#"{"sub":"alice","exp":9223372036854775808}"#, .tokenInvalid), (#"{"sub":"alice","exp":true}"#, .tokenInvalid),
            (#"{"sub":"alice","exp":null}"#, .tokenInvalid), (#"{"sub":"alice","exp":NaN}"#, .tokenInvalid),
            (#"{"sub":"alice","exp":1950000060,"exp":1950000061}"#, .tokenInvalid),
            (#"{"sub":"alice","sub":"bob","exp":1950000060}"#, .tokenInvalid),
            (#"{"sub":"alice","s\u0075b":"bob","exp":1950000060}"#, .tokenInvalid),
            (#"{"sub":"alice","exp":1950000060,"nbf":1950000061000}"#, .tokenInvalid),
            (#"{"sub":"alice","exp":1950000160,"nbf":1950000061}"#, .tokenInvalid),
            (#"{"sub":"alice","exp":1950000060,"nbf":"0"}"#, .tokenInvalid),
            (#"{"sub":"alice","exp":1950000060,"iat":1e400}"#, .tokenInvalid),
            (#"{"sub":"alice","exp":1950000060,"aud":"billing"}"#, .tokenInvalid), ("[]", .tokenInvalid), ("", .tokenInvalid),
            (#"{"sub":"alice","exp":1950000000}"#, .tokenExpired), (#"{"sub":"alice","exp":0}"#, .tokenExpired),
        ])
    func claims(claims: String, expected: ErrorCode) {
        #expect(code(verify(token(claims))) == expected)
    }

    @Test("nbf may be a minute ahead, since clocks differ; exp ends to the second")
    func leeway() throws {
        #expect(code(verify(token(#"{"sub":"alice","exp":1950000100,"nbf":1950000060}"#))) == nil)
        #expect(code(verify(token(#"{"sub":"alice","exp":1950000001}"#))) == nil)
        #expect(try verify(token(#"{"sub":"alice","exp":1950000100,"jti":"x"}"#)).get().tokenId == "x")
        #expect(
            code(verify(token(#"{"sub":"alice","exp":9007199254741}"#))) == .tokenInvalid, "milliseconds of it are no JSON number any more")
    }

    @Test("nested claims and headers are refused from a small depth upward, field-faults B66", arguments: [15, 16, 512, 2000])
    func depth(levels: Int) {
        let nest = String(repeating: "[", count: levels) + String(repeating: "]", count: levels)
        let result = code(verify(token(#"{"sub":"alice","exp":1950000060,"x":\#(nest)}"#)))
        #expect(result == (levels <= 15 ? nil : .tokenInvalid))
        #expect(code(verify(token(Self.good, header: #"{"alg":"HS256","x":\#(nest)}"#))) == (levels <= 15 ? nil : .tokenInvalid))
    }

    @Test("too long, too many fields: refused before the work")
    func size() {
        let long = String(repeating: "x", count: 9000)
        #expect(code(verify(token(#"{"sub":"alice","exp":1950000060,"x":"\#(long)"}"#))) == .tokenInvalid)
        let many = (0..<70).map { #","k\#($0)":1"# }.joined()
        #expect(code(verify(token(#"{"sub":"alice","exp":1950000060\#(many)}"#))) == .tokenInvalid)
    }

    @Test("one changed character anywhere makes the token worthless")
    func tampered() {
        let token = token(Self.good)
        #expect(code(verify(token)) == nil)
        for index in token.indices {
            var changed = token
            changed[index] = changed[index] == UInt8(ascii: "A") ? UInt8(ascii: "B") : UInt8(ascii: "A")
            #expect(code(verify(changed)) == .tokenInvalid, "character \(index)")
        }
    }

    @Test("cut off anywhere, lengthened or in other parts it's refused, all with the same words")
    func shapes() {
        let token = token(Self.good)
        var shapes = (0..<token.count).map { Array(token.prefix($0)) }
        let text = String(decoding: token, as: UTF8.self)
        shapes += [".", "..", "...", text + ".", "." + text, text + "=", text + "A", " " + text, text + "\n", text + ".x", text + text].map
        { Array($0.utf8) }
        shapes += [[0xFF, 0x2E, 0xFE, 0x2E, 0x00], token + [0]]
        for shape in shapes {
            guard case .failure(let error) = verify(shape) else {
                Issue.record("taken: \(String(decoding: shape, as: UTF8.self))")
                continue
            }
            #expect(
                error.code == .tokenInvalid
                    && error.message == "the token isn't one that this hub accepts: its form, its signature or its key is wrong")
        }
    }

    @Test("another key's token is refused; of two keys without kid either may have signed")
    func keys() {
        let other = TokenKey(id: nil, secret: Secret(Array("ffffffffffffffffffffffffffffffff".utf8)))
        let token = token(Self.good, key: other)
        #expect(code(verify(token)) == .tokenInvalid)
        #expect(code(verify(token, keys: [Self.key, other])) == nil)
    }

    @Test("an error never holds the token")
    func redacted() {
        let marker = "m4rker"
        for claims in [#"{"sub":7,"x":"\#(marker)"}"#, #"{"sub":"\#(marker)","exp":"\#(marker)"}"#, #"{"sub":"\#(marker)","exp":1}"#] {
            guard case .failure(let error) = verify(token(claims)) else {
                Issue.record("taken: \(claims)")
                continue
            }
            #expect(!error.message.contains(marker))
        }
        #expect(!"\(Self.key)".contains("0123"))
    }
}

@Suite("base64url")
struct Base64URLTests {
    @Test(
        "the vectors of RFC 4648 §10, without padding",
        arguments: [
            ("", ""), ("f", "Zg"), ("fo", "Zm8"), ("foo", "Zm9v"), ("foob", "Zm9vYg"), ("fooba", "Zm9vYmE"), ("foobar", "Zm9vYmFy"),
        ])
    func vectors(bytes: String, text: String) {
        #expect(Base64URL.encode(Array(bytes.utf8)) == Array(text.utf8))
        #expect(Base64URL.decode(Array(text.utf8)) == Array(bytes.utf8))
    }

    @Test("all bytes come back", arguments: 0...64)
    func roundTrip(count: Int) {
        let bytes = (0..<count).map { UInt8(truncatingIfNeeded: 255 - $0 * 7) }
        #expect(Base64URL.decode(Base64URL.encode(bytes)) == bytes)
    }

    @Test(
        "a second way to write the same bytes is none",
        arguments: ["Zh", "Zg==", "Zm8=", "Zm9", "Z", "Zm9vY", "Zm+v", "Zm/v", "Zm 9v", "Zm9v\n", "é"])
    func strict(text: String) {
        #expect(Base64URL.decode(Array(text.utf8)) == nil)
    }
}
