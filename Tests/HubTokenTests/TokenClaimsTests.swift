import HubBase
import HubCore
import HubToken
import HubWire
import Testing

@Suite("Claims of tokens")
struct TokenClaimsTests {
    private static let now: UInt64 = 1_950_000_000
    private static let key = TokenKey(id: nil, secret: TestKeys.secret)

    private func verify(_ claims: String, _ change: (inout TokenVerifier.Rules) -> Void = { _ in }) throws -> Result<TokenClaims, WireError>
    {
        let token = try TokenMinter.sign(
            header: Array(#"{"alg":"HS256"}"#.utf8), claims: Array(#"{"sub":"alice",\#(claims)}"#.utf8), key: Self.key)
        var rules = TokenVerifier.Rules()
        change(&rules)
        return TokenVerifier(keys: [Self.key], rules: rules).verify(token, nowMilliseconds: Self.now * 1000)
    }

    private func code(_ result: Result<TokenClaims, WireError>) -> ErrorCode? {
        if case .failure(let error) = result { error.code } else { nil }
    }

    private static let exp = #""exp":1950000060"#

    @Test("a user has an inbox, and isn't called as the connections of API keys are")
    func users() throws {
        func taken(_ user: String) throws -> WireError? {
            let claims = Array(#"{"sub":"\#(user)",\#(Self.exp)}"#.utf8)
            let verifier = TokenVerifier(keys: [Self.key])
            #expect(
                verifier.problem(ofClaims: claims, nowMilliseconds: Self.now * 1000).map(\.message)
                    == TokenClaims.problem(ofUser: Name(validating: user)).map { "the token's sub must be " + $0 })
            let token = try TokenMinter.sign(header: Array(#"{"alg":"HS256"}"#.utf8), claims: claims, key: Self.key)
            if case .failure(let error) = verifier.verify(token, nowMilliseconds: Self.now * 1000) { return error }
            return nil
        }
        #expect(try taken(String(repeating: "u", count: 250)) == nil && taken("api") == nil && taken("API:pub") == nil)
        let long = try taken(String(repeating: "u", count: 251))
        #expect(long?.code == .tokenInvalid && long?.message.contains("1 to 250 bytes") == true)
        for user in ["api:pub", "api:"] {
            let error = try taken(user)
            #expect(error?.code == .tokenInvalid && error?.message.contains("kept for API keys") == true)
        }
    }

    @Test(
        "of iss only the one issuer's whole text will do, RFC 7519 §4.1.1, RFC 8725 §3.8",
        arguments: [
            (#""iss":"https://id.example""#, nil), (#""iss":"https://id.example/""#, ErrorCode.tokenInvalid),
            (#""iss":"HTTPS://id.example""#, .tokenInvalid),
            (#""iss":["https://id.example"]"#, .tokenInvalid), (#""iss":"""#, .tokenInvalid), (#""iss":null"#, .tokenInvalid),
            (#""x":1"#, .tokenInvalid),
        ])
    func issuer(claim: String, expected: ErrorCode?) throws {
        #expect(try code(verify("\(Self.exp),\(claim)") { $0.issuer = "https://id.example" }) == expected)
        #expect(try code(verify("\(Self.exp),\(claim)")) == nil, "who names no issuer takes any")
    }

    @Test(
        "aud must name this hub, alone or among others, RFC 7519 §4.1.3, RFC 8725 §3.9",
        arguments: [
            (#""aud":"hub""#, nil), (#""aud":["billing","hub"]"#, nil), (#""aud":"billing""#, ErrorCode.tokenInvalid),
            (#""aud":[]"#, .tokenInvalid),
            (#""aud":["hub",7]"#, .tokenInvalid), (#""aud":7"#, .tokenInvalid), (#""aud":{"hub":1}"#, .tokenInvalid),
            (#""aud":"hub2""#, .tokenInvalid),
            (#""aud":"HUB""#, .tokenInvalid), (#""x":1"#, .tokenInvalid),
        ])
    func audience(claim: String, expected: ErrorCode?) throws {
        #expect(
            try code(
                verify("\(Self.exp),\(claim)") {
                    $0.audience = ["hub", "other hub"]
                }) == expected)
        #expect(
            try code(verify("\(Self.exp),\(claim)")) == (claim.contains("aud") ? .tokenInvalid : nil), "a hub without a name isn't meant")
    }

    @Test("clocks may differ by the leeway, not by more: nbf and iat ahead of ours, exp behind where that's allowed")
    func leeway() throws {
        #expect(try code(verify(#""exp":1950000100,"iat":1950000060"#)) == nil)
        #expect(try code(verify(#""exp":1950000100,"iat":1950000061"#)) == .tokenInvalid)
        #expect(try code(verify(#""exp":1950000100,"iat":1950000061"#) { $0.leeway = .seconds(120) }) == nil)
        #expect(try code(verify(#""exp":1950000100,"nbf":1950000001"#) { $0.leeway = .zero }) == .tokenInvalid)
        #expect(try code(verify(#""exp":1949999999"#)) == .tokenExpired)
        #expect(try verify(#""exp":1949999999"#) { $0.expiryLeeway = .seconds(30) }.get().expires == 1_950_000_029_000)
        #expect(try code(verify(#""exp":1949999970"#) { $0.expiryLeeway = .seconds(30) }) == .tokenExpired)
    }

    @Test("a token that lives longer than revocations are kept is refused, from iat on or, without one, from now on")
    func life() throws {
        let day = { (rules: inout TokenVerifier.Rules) in rules.lifeMax = .seconds(86_400) }
        #expect(try code(verify(#""iat":1950000000,"exp":1950086400"#, day)) == nil)
        #expect(try code(verify(#""iat":1950000000,"exp":1950086401"#, day)) == .tokenInvalid)
        #expect(try code(verify(#""iat":1949913700,"exp":1950000101"#, day)) == .tokenInvalid, "almost over, and too long all the same")
        #expect(try code(verify(#""exp":1950086400"#, day)) == nil)
        #expect(try code(verify(#""exp":1950086401"#, day)) == .tokenInvalid)
        #expect(try code(verify(#""exp":9007199254740"#)) == .tokenInvalid)
        #expect(
            try code(verify(#""iat":1950000050,"exp":1950000040"#)) == nil,
            "issued after its end, by a clock that is ahead: it's short anyway")
    }

    @Test(
        "caps, channels and jti of the wrong form are refused, field-faults B67",
        arguments: [
            #""caps":[]"#, #""caps":"*""#, #""caps":null"#, #""caps":{"room:*":"subscribe"}"#, #""caps":{"room:*":["subscribe",1]}"#,
            #""caps":{"room:*":["suscribe"]}"#, #""caps":{"room:*":["SUBSCRIBE"]}"#, #""caps":{"":["subscribe"]}"#,
            #""caps":{"ro*m":["subscribe"]}"#,
            #""caps":{"**":["subscribe"]}"#, #""caps":{"a\u0000":["subscribe"]}"#, #""caps":{"a":["subscribe"],"a":["publish"]}"#,
            #""caps":{"a":["subscribe"],"\u0061":["publish"]}"#, #""caps":{"a":[["subscribe"]]}"#, #""channels":"room:1""#,
            #""channels":[1]"#,
            #""channels":[""]"#, #""channels":["a","a"]"#, #""channels":["room:*"]"#, #""channels":["a\u0001"]"#, #""channels":{}"#,
            #""jti":7"#,
            #""jti":"""#, #""jti":"a\u007f""#,
        ])
    func wrong(claim: String) throws {
        #expect(try code(verify("\(Self.exp),\(claim)")) == .tokenInvalid)
    }

    @Test("counts are bounded: patterns, words of one, channels")
    func bounded() throws {
        func caps(_ count: Int) -> String { #""caps":{\#((0..<count).map { #""c\#($0)":["*"]"# }.joined(separator: ","))}"# }
        #expect(try code(verify("\(Self.exp),\(caps(64))")) == nil)
        #expect(try code(verify("\(Self.exp),\(caps(65))")) == .tokenInvalid)
        func channels(_ count: Int) -> String { #""channels":[\#((0..<count).map { #""c\#($0)""# }.joined(separator: ","))]"# }
        #expect(try verify("\(Self.exp),\(channels(32))").get().channels.count == 32)
        #expect(try code(verify("\(Self.exp),\(channels(33))")) == .tokenInvalid)
        let words = [String](repeating: #""watch""#, count: 17).joined(separator: ",")
        #expect(try code(verify(#"\#(Self.exp),"caps":{"a":[\#(words)]}"#)) == .tokenInvalid)
    }

    @Test("caps grant what they say; without caps the rules do; channels may be heard")
    func grants() throws {
        let claims = try verify(#"\#(Self.exp),"caps":{"room:*":["subscribe","publish"],"user:bob":["watch"]},"channels":["news"]"#).get()
        let rights = Rights.token(claims.user, try #require(claims.grants))
        #expect(
            rights.maySubscribe(to: "room:1") && rights.mayWatch("bob", by: .listed) && rights.maySubscribe(to: "news")
                && !rights.mayPublish(to: "news")
        )
        #expect(try verify(#"\#(Self.exp),"channels":["news"]"#).get().grants == nil)
        #expect(try verify(#"\#(Self.exp),"caps":{}"#).get().grants == Grants.none)
    }

    @Test("a claim's refusal never holds what stands in it")
    func redacted() throws {
        for claim in [
            #""caps":{"m4rker":["m4rker"]}"#, #""channels":["m4rker*"]"#, #""jti":"m4rker\u0000""#, #""aud":"m4rker""#, #""iss":"m4rker""#,
        ] {
            guard case .failure(let error) = try verify("\(Self.exp),\(claim)", { $0.issuer = "us" }) else {
                Issue.record("taken: \(claim)")
                continue
            }
            #expect(!error.message.contains("m4rker"))
        }
    }

    @Test("a kid that isn't known is told apart from a token that's wrong, for key sets that change")
    func unknownKid() throws {
        let named = TokenKey(id: "new", secret: TestKeys.secret)
        let token = try TokenMinter.mint(user: "alice", issued: Self.now, expires: Self.now + 60, key: named)
        let old = TokenVerifier(keys: [TokenKey(id: "old", secret: TestKeys.secret)])
        #expect(token.withUnsafeBytes { old.missingKey(of: $0) } == Array("new".utf8))
        #expect(token.withUnsafeBytes { TokenVerifier(keys: [named]).missingKey(of: $0) } == nil)
        let nameless = try TokenMinter.mint(user: "alice", issued: Self.now, expires: Self.now + 60, key: Self.key)
        #expect(nameless.withUnsafeBytes { old.missingKey(of: $0) } == nil)
        #expect(Array("x.y.z".utf8).withUnsafeBytes { old.missingKey(of: $0) } == nil)
    }

    @Test(
        "a kid is compared, never opened: paths, addresses, 6 KB of it, RFC 8725 §3.10",
        arguments: [
            "../../../etc/passwd", "/dev/null", "http://127.0.0.1/key", "' OR 1=1 --", String(repeating: "k", count: 6000), "\\u0000", "",
        ])
    func kids(kid: String) throws {
        let header = Array(
            #"{"alg":"HS256","kid":"\#(kid)","jku":"http://127.0.0.1:1/","x5u":"http://127.0.0.1:1/","jwk":{"kty":"oct","k":"AAAA"}}"#.utf8)
        let token = try TokenMinter.sign(header: header, claims: Array(#"{"sub":"alice",\#(Self.exp)}"#.utf8), key: Self.key)
        let named = TokenVerifier(keys: [TokenKey(id: "main", secret: TestKeys.secret)])
        #expect(code(named.verify(token, nowMilliseconds: Self.now * 1000)) == .tokenInvalid)
    }
}
