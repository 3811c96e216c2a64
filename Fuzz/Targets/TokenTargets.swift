import HubBase
import HubCore
import HubToken
import HubWire

private let key = TokenKey(id: nil, secret: Secret([UInt8](repeating: 0x6B, count: 32)))
private let now: UInt64 = 1_950_000_000_000

/// A token as anybody may send one: nobody without the key gets in, and who gets in has a name and an end.
func fuzzToken(_ bytes: UnsafeRawBufferPointer) throws {
    let verifier = TokenVerifier(keys: [key])
    switch verifier.verify(bytes, nowMilliseconds: now) {
    case .success(let claims):
        try require(Name(validating: claims.user.bytes) != nil && claims.expires > now, "a user without a name or an end")
    case .failure(let error):
        try require(error.code == .tokenInvalid || error.code == .tokenExpired, "a token is refused with another code")
    }
    _ = verifier.missingKey(of: bytes)
    if let parts = TokenParts([UInt8](bytes)) { try require(parts.header.count < bytes.count, "more header than token") }
    let text = Base64URL.encode([UInt8](bytes))
    try require(Base64URL.decode(text) == [UInt8](bytes), "base64url doesn't come back")
    if let decoded = Base64URL.decode(bytes) { try require(Base64URL.encode(decoded).elementsEqual(bytes), "two texts for the same bytes") }
    if let revocation = Revocation(payload: [UInt8](bytes)) {
        try require(Revocation(payload: revocation.payload) == revocation, "a revocation is read as another one")
    }
}

/// Claims that were signed by us, whatever they are: judged without a trap, and rights that agree with a slower reading of the patterns.
func fuzzClaims(_ bytes: UnsafeRawBufferPointer) throws {
    guard bytes.count < 4096 else { return }
    let token = try TokenMinter.sign(header: Array(#"{"alg":"HS256"}"#.utf8), claims: [UInt8](bytes), key: key)
    var rules = TokenVerifier.Rules()
    rules.audience = ["hub"]
    rules.expiryLeeway = .seconds(60)
    let verifier = TokenVerifier(keys: [key], rules: rules)
    guard case .success(let claims) = verifier.verify(token, nowMilliseconds: now) else { return }
    try require(claims.expires > now && claims.channels.count <= TokenClaims.channelsMax, "an end or channels beyond the bounds")
    guard let grants = claims.grants else { return }
    let rights = Rights.token(claims.user, grants)
    for channel in claims.channels where Inbox.owner(of: channel) == nil {
        try require(rights.maySubscribe(to: channel), "a channel that the token names may not be heard")
    }
    if claims.user != "bob" {
        try require(!rights.maySubscribe(to: "user:bob") && !rights.mayPublish(to: "user:bob"), "another one's inbox is open")
    }
}

/// A pattern and a name, up to the first zero byte and behind it: the one walk agrees with trying every way.
func fuzzPattern(_ bytes: UnsafeRawBufferPointer) throws {
    guard bytes.count <= 64, let zero = bytes.firstIndex(of: 0) else { return }
    let pattern = UnsafeRawBufferPointer(rebasing: bytes[..<zero])
    let name = UnsafeRawBufferPointer(rebasing: bytes[(zero + 1)...])
    guard ChannelPattern.isValid(pattern) else { return }
    try require(ChannelPattern.matches(pattern, name) == matchesSlowly(pattern[...], name[...]), "a pattern matches in one reading alone")
}

private func matchesSlowly(_ pattern: Slice<UnsafeRawBufferPointer>, _ name: Slice<UnsafeRawBufferPointer>) -> Bool {
    guard let first = pattern.first else { return name.isEmpty }
    guard first == UInt8(ascii: "*") else { return name.first == first && matchesSlowly(pattern.dropFirst(), name.dropFirst()) }
    let isLast = pattern.count == 1
    return (1...max(name.count, 1)).contains { count in
        guard count <= name.count, isLast || !name.prefix(count).contains(UInt8(ascii: ":")) else { return false }
        return matchesSlowly(pattern.dropFirst(), name.dropFirst(count))
    }
}

/// A key set as an issuer's server, or whoever took its place, may send it.
func fuzzKeySet(_ bytes: UnsafeRawBufferPointer) throws {
    guard let set = try? KeySet(json: [UInt8](bytes)) else { return }
    try require(!set.keys.isEmpty && set.keys.count + set.skipped <= KeySet.keysMax, "more keys than may be")
    for key in set.keys {
        guard case .key = key.material else { throw FuzzFault(description: "a secret came in") }
        try require((try? TokenMinter.mint(user: "a", issued: 0, expires: 1, key: key)) == nil, "a private key came in")
    }
}
