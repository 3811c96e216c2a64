import HubBase
import HubCore
import HubWire

/// Checks tokens: JWTs in the compact form (RFC 7519, RFC 7515 §3.1), against the rules of RFC 8725. A value; the time is an argument.
///
/// Whatever is wrong with form or signature is one and the same answer, so that it tells an attacker nothing; only a token that's
/// genuinely ours learns what is wrong with its claims.
package struct TokenVerifier: Sendable {
    /// What claims are held against.
    package struct Rules: Sendable, Equatable {
        /// What `iss` must be; nil: whatever it is.
        package var issuer: String?
        /// One of them must be in `aud`; empty: there must be no `aud`.
        package var audience: [String] = []
        /// How far the issuer's clock may be ahead of ours, for `nbf` and `iat`.
        package var leeway: Span = .seconds(60)
        /// How long a token holds beyond its `exp`.
        package var expiryLeeway: Span = .zero
        /// The longest that a token may live.
        package var lifeMax: Span = .seconds(30 * 86_400)

        package init() {}
    }

    private let keys: [TokenKey]
    private let rules: Rules

    /// The longest token that is looked at.
    package static let byteCountMax = 8 * 1024
    /// Keys that one token is tried with: a bound on what a token without `kid` can cost.
    package static let triesMax = 16

    package init(keys: [TokenKey], rules: Rules = Rules()) {
        self.keys = keys
        self.rules = rules
    }

    /// `now` in milliseconds since 1970. Cost: a signature for each key that may be meant, and some short-lived allocations.
    package func verify(_ token: UnsafeRawBufferPointer, nowMilliseconds now: UInt64) -> Result<TokenClaims, WireError> {
        guard token.count <= Self.byteCountMax, let claims = signedClaims(token), let fields = TokenFields(claims) else {
            return .failure(Self.invalid)
        }
        do throws(WireError) { return .success(try judge(fields, now: now)) } catch { return .failure(error) }
    }

    package func verify(_ token: [UInt8], nowMilliseconds now: UInt64) -> Result<TokenClaims, WireError> {
        token.withUnsafeBytes { verify($0, nowMilliseconds: now) }
    }

    /// The `kid` of a token that isn't taken, when there's no such key: a newer key set may hold it.
    package func missingKey(of token: UnsafeRawBufferPointer) -> [UInt8]? {
        guard token.count <= Self.byteCountMax, let id = Parts(token)?.keyId, id.count <= Name.lengthMax else { return nil }
        return keys.contains { $0.id.map { id.elementsEqual($0.utf8) } ?? false } ? nil : id
    }

    /// What a hub would find wrong with claims, whoever signed them; nil: nothing.
    package func problem(ofClaims claims: [UInt8], nowMilliseconds now: UInt64) -> WireError? {
        guard let fields = TokenFields(claims) else { return Self.invalid }
        do throws(WireError) { _ = try judge(fields, now: now) } catch { return error }
        return nil
    }

    private static let invalid = WireError(
        .tokenInvalid, "the token isn't one that this hub accepts: its form, its signature or its key is wrong")

    /// A token in its three parts; nothing of it is believed yet.
    private struct Parts {
        var algorithm: [UInt8]
        var keyId: [UInt8]?
        var signed: UnsafeRawBufferPointer
        var claims: UnsafeRawBufferPointer
        var signature: [UInt8]

        init?(_ token: UnsafeRawBufferPointer) {
            let dot = UInt8(ascii: ".")
            guard let first = token.firstIndex(of: dot), let last = token.lastIndex(of: dot), first < last,
                !token[(first + 1)..<last].contains(dot),
                let header = Base64URL.decode(token[..<first]).flatMap(TokenFields.init),
                let signature = Base64URL.decode(token[(last + 1)...]), !signature.isEmpty,
                // Extensions that we must understand or refuse (RFC 7515 §4.1.11): we understand none.
                !header.has("crit"), case .value(let algorithm) = header.text("alg")
            else { return nil }
            self.algorithm = algorithm
            self.signature = signature
            switch header.text("kid") {
            case .absent: keyId = nil
            case .wrong: return nil
            case .value(let text): keyId = text
            }
            signed = UnsafeRawBufferPointer(rebasing: token[..<last])
            claims = UnsafeRawBufferPointer(rebasing: token[(first + 1)..<last])
        }
    }

    /// The claims' bytes when one of our keys has signed them.
    private func signedClaims(_ token: UnsafeRawBufferPointer) -> [UInt8]? {
        guard let parts = Parts(token) else { return nil }
        // The header's word only says which of our keys can't be meant.
        let meant = candidates(parts.keyId).filter { parts.algorithm.elementsEqual($0.algorithm.rawValue.utf8) }
        let isOurs = meant.prefix(Self.triesMax).contains { key in
            switch key.material {
            case .secret(let secret): MessageCode.isEqual(MessageCode.make(parts.signed, secret, key.algorithm), parts.signature)
            case .key(let asymmetric): asymmetric.verifies(parts.signature, of: parts.signed, key.algorithm)
            }
        }
        return isOurs ? Base64URL.decode(parts.claims) : nil
    }

    /// The keys that `kid` names; a key without an id stands for any. Without `kid`, all: so that a key can be replaced by two at once.
    private func candidates(_ id: [UInt8]?) -> [TokenKey] {
        guard let id else { return keys }
        let named = keys.filter { $0.id.map { id.elementsEqual($0.utf8) } ?? false }
        return named.isEmpty ? keys.filter { $0.id == nil } : named
    }

    // MARK: Claims

    private func judge(_ fields: TokenFields, now: UInt64) throws(WireError) -> TokenClaims {
        var subject: Name?
        if case .value(let text) = fields.text("sub") { subject = Name(validating: text) }
        if let problem = TokenClaims.problem(ofUser: subject) { throw Self.wrong("sub must be \(problem)") }
        guard let user = subject else { throw Self.wrong("sub is missing") }
        guard case .value(let end) = fields.time("exp") else { throw Self.wrong("exp must be there, in whole seconds since 1970") }
        let latest = now.addingReportingOverflow(rules.leeway.milliseconds).partialValue
        if let begin = try Self.time("nbf", fields), begin > latest { throw Self.wrong("nbf is later than now: it isn't valid yet") }
        let issued = try Self.time("iat", fields)
        if let issued, issued > latest { throw Self.wrong("iat is later than now: the issuer's clock is ahead, or the hub's behind") }
        try judgeParties(fields)
        let expires = min(end.addingReportingOverflow(rules.expiryLeeway.milliseconds).partialValue, (1 << 53) - 1)
        guard expires > now else { throw WireError(.tokenExpired, "the token has expired: get a new one") }
        // Revocations are kept that long: what lived longer could outlive its own.
        let begin = issued ?? now
        guard end <= begin || end - begin <= rules.lifeMax.milliseconds else {
            throw Self.wrong(
                "life is longer than this hub allows (auth.tokenLifeMax): exp must come sooner after iat, or after now without one")
        }
        let channels = try Self.channels(fields)
        return TokenClaims(
            user: user, expires: expires, issued: issued, tokenId: try Self.tokenId(fields), grants: try Self.grants(fields, channels),
            channels: channels)
    }

    /// RFC 7519 §§4.1.1, 4.1.3: from whom, and for whom. Compared byte for byte (RFC 7519 §2, StringOrURI).
    private func judgeParties(_ fields: TokenFields) throws(WireError) {
        if let issuer = rules.issuer {
            guard case .value(let text) = fields.text("iss"), text.elementsEqual(issuer.utf8) else {
                throw Self.wrong("iss isn't the issuer that this hub believes (auth.issuer)")
            }
        }
        switch fields.texts("aud", limit: 32, orOne: true) {
        case .absent:
            guard rules.audience.isEmpty else {
                throw Self.wrong("aud is missing: this hub takes tokens that are meant for it (auth.audience)")
            }
        case .wrong: throw Self.wrong("aud must be a string or a list of strings")
        case .value(let audience):
            // Who isn't the audience must refuse; a hub without a name of its own can't be.
            let isMeant = rules.audience.contains { name in audience.contains { $0.elementsEqual(name.utf8) } }
            guard isMeant else { throw Self.wrong("aud doesn't name this hub (auth.audience)") }
        }
    }

    private static func tokenId(_ fields: TokenFields) throws(WireError) -> Name? {
        switch fields.text("jti") {
        case .absent: return nil
        case .value(let text): if let name = Name(validating: text) { return name }
        case .wrong: break
        }
        throw wrong("jti must be 1 to 255 bytes without control characters")
    }

    private static func grants(_ fields: TokenFields, _ channels: [Name]) throws(WireError) -> Grants? {
        let lines: [(key: [UInt8], texts: [[UInt8]])]
        switch fields.lists("caps", limit: Grants.patternsMax) {
        case .absent: return nil
        case .wrong:
            throw wrong(
                "caps must be an object of lists, {\"room:*\": [\"subscribe\", …]}, with \(Grants.patternsMax) patterns at most, each once")
        case .value(let found): lines = found
        }
        var patterns: [(pattern: [UInt8], permissions: Permissions)] = []
        for (pattern, words) in lines {
            var permissions: Permissions = []
            for word in words {
                guard let permission = Permissions(word: word) else {
                    throw wrong("caps grants a right that isn't one: subscribe, publish, presence, history, watch, or *")
                }
                permissions.formUnion(permission)
            }
            patterns.append((pattern, permissions))
        }
        guard let grants = Grants(patterns: patterns, channels: channels) else {
            throw wrong(
                "caps has a pattern that isn't one: a channel's name, in which * stands at the end, or for one whole part between colons")
        }
        return grants
    }

    private static func channels(_ fields: TokenFields) throws(WireError) -> [Name] {
        switch fields.texts("channels", limit: TokenClaims.channelsMax) {
        case .absent: return []
        case .wrong: break
        case .value(let texts):
            let names = texts.compactMap { Name(validating: $0) }
            let isPlain = !names.contains { $0.bytes.contains(ChannelPattern.star) }
            if names.count == texts.count, Set(names).count == names.count, isPlain { return names }
        }
        throw wrong("channels must be a list of \(TokenClaims.channelsMax) channel names at most, each once and without *")
    }

    private static func time(_ claim: StaticString, _ fields: TokenFields) throws(WireError) -> UInt64? {
        switch fields.time(claim) {
        case .absent: return nil
        case .wrong: throw wrong("\(claim) must be in whole seconds since 1970")
        case .value(let time): return time
        }
    }

    /// Never says what stands in the token.
    private static func wrong(_ what: String) -> WireError { WireError(.tokenInvalid, "the token's \(what)") }
}
