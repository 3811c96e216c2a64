import Glibc
import HubBase
import HubClientNet
import HubConsole
import HubToken

/// `hubctl token --user USER …` mints, `hubctl token inspect` reads one from standard input. No hub is asked; a key is never shown.
enum TokenCommand {
    private static let defaultVariable = "HUB_AUTH_SECRET"
    /// What `--caps` may stand for in short.
    private static let everything = [(pattern: "*", rights: ["*"])]

    static func run(_ arguments: CommandLineArguments, _ output: inout Output) throws(Failure) {
        switch arguments.operands.first {
        case nil, "mint": try mint(arguments, &output)
        case "inspect": try inspect(arguments, &output)
        case let word?: throw .usage("\(CommandLineError.quoted(word)) is no action: mint (the default) or inspect")
        }
    }

    // MARK: Minting

    private static func mint(_ arguments: CommandLineArguments, _ output: inout Output) throws(Failure) {
        guard let text = arguments.value("user") else { throw .usage("--user USER is missing: whose token?") }
        let issued = Output.wallMilliseconds() / 1000
        var draft = TokenDraft(user: try user(text), issued: issued, expires: issued + (try life(arguments)))
        draft.issuer = arguments.value("issuer")
        draft.audience = arguments.value("audience")
        draft.tokenId = arguments.value("id")
        draft.channels = arguments.values("channel")
        draft.caps = try caps(arguments)
        try judge(draft)
        let key = try key(arguments, forSigning: true)
        let token: [UInt8]
        do throws(TokenKey.Problem) { token = try TokenMinter.mint(draft, key: key) } catch { throw .refused("the key \(error.message)") }
        guard token.count <= TokenVerifier.byteCountMax else {
            throw .refused(
                "the token would have \(token.count) bytes, and hubs take \(TokenVerifier.byteCountMax): grant less, or by patterns")
        }
        output.line(token)
    }

    private static func user(_ text: String) throws(Failure) -> Name {
        let name = Name(validating: text)
        if let problem = TokenClaims.problem(ofUser: name) {
            throw .usage("--user must be \(problem), not \(CommandLineError.quoted(text))")
        }
        guard let name else { throw .usage("--user must be a user id") }
        return name
    }

    /// As a hub would, so that none is minted that every hub refuses. What hubs differ in (auth.audience, auth.tokenLifeMax) is theirs.
    private static func judge(_ draft: TokenDraft) throws(Failure) {
        var rules = TokenVerifier.Rules()
        rules.issuer = draft.issuer
        rules.audience = draft.audience.map { [$0] } ?? []
        rules.lifeMax = .seconds(365 * 86_400)
        var present = draft
        // One that begins to hold later is fine.
        present.notBefore = nil
        let verifier = TokenVerifier(keys: [], rules: rules)
        if let error = verifier.problem(ofClaims: TokenMinter.claims(present), nowMilliseconds: Output.wallMilliseconds()) {
            throw .usage("hubs would refuse it: \(error.message)")
        }
        warnOfLife(milliseconds: (draft.expires - draft.issued) * 1000)
    }

    /// Longer than hubs allow that weren't told otherwise.
    private static func warnOfLife(milliseconds life: UInt64) {
        guard life > TokenVerifier.Rules().lifeMax.milliseconds else { return }
        StandardError.write("hubctl: warning: it lives longer than 30 days, which hubs refuse unless their auth.tokenLifeMax is longer\n")
    }

    private static func life(_ arguments: CommandLineArguments) throws(Failure) -> UInt64 {
        let ttl = arguments.value("ttl") ?? "1h"
        guard let span = QuantityText.span(ttl), span >= .seconds(1) else {
            throw .usage("--ttl is a length of time from 1s, such as 30s, 5m, 1h or 7d, not \(CommandLineError.quoted(ttl))")
        }
        return span.milliseconds / 1000
    }

    /// `--allow PATTERN=RIGHT,RIGHT`, as often as wanted; without any the namespaces' rules count.
    private static func caps(_ arguments: CommandLineArguments) throws(Failure) -> [(pattern: String, rights: [String])]? {
        if arguments.has("allow-all") { return everything }
        let lines = arguments.values("allow")
        guard !lines.isEmpty else { return nil }
        var caps: [(pattern: String, rights: [String])] = []
        for line in lines {
            guard let equals = line.lastIndex(of: "="), equals > line.startIndex else {
                throw .usage("--allow is PATTERN=RIGHT,RIGHT such as 'room:*=subscribe,publish', not \(CommandLineError.quoted(line))")
            }
            let rights = line[line.index(after: equals)...].split(separator: ",").map(String.init)
            caps.append((String(line[..<equals]), rights))
        }
        return caps
    }

    private static func key(_ arguments: CommandLineArguments, forSigning: Bool) throws(Failure) -> TokenKey {
        let word = arguments.value("alg") ?? "HS256"
        guard let algorithm = TokenKey.Algorithm(rawValue: word) else {
            let known = TokenKey.Algorithm.allCases.map(\.rawValue).joined(separator: ", ")
            throw .usage("--alg is one of \(known), not \(CommandLineError.quoted(word))")
        }
        let bytes = try secret(arguments, algorithm, isPublic: !forSigning && !algorithm.isSymmetric)
        do throws(TokenKey.Problem) {
            return try TokenKey(id: arguments.value("kid"), algorithm: algorithm, bytes: bytes, forSigning: forSigning)
        } catch { throw .refused("the key \(error.message)") }
    }

    private static func secret(_ arguments: CommandLineArguments, _ algorithm: TokenKey.Algorithm, isPublic: Bool) throws(Failure) -> Secret
    {
        if let path = arguments.value("key-file") {
            guard !arguments.has("key-env") else { throw .usage("give --key-env or --key-file, not both") }
            do throws(SecretSource.Unreadable) { return try SecretSource.file(path, isPublic: isPublic) } catch {
                throw .refused("--key-file: \(error)")
            }
        }
        let variable = arguments.value("key-env") ?? defaultVariable
        guard let secret = SecretSource.environment(variable) else {
            throw .refused("\(variable) isn't set or empty; it must hold the \(algorithm.rawValue) key (or use --key-file FILE)")
        }
        return secret
    }

    // MARK: Inspecting

    /// Header and claims of a token as they are; with a key, whether it's signed with that one and would be taken.
    private static func inspect(_ arguments: CommandLineArguments, _ output: inout Output) throws(Failure) {
        guard let token = readToken() else {
            throw .usage("hubctl token inspect reads one token from standard input (a token is never an argument: ps shows those)")
        }
        guard let parts = TokenParts(token) else { throw .refused("that isn't a token: header.claims.signature, each in base64url") }
        for part in [parts.header, parts.claims] { output.line(Terminal.safe(String(decoding: part, as: UTF8.self))) }
        guard arguments.has("key-file") || arguments.has("key-env") || SecretSource.environment(defaultVariable) != nil else {
            output.line("signature: not checked (\(defaultVariable) isn't set; or give --alg and --key-file or --key-env)")
            return
        }
        var rules = TokenVerifier.Rules()
        rules.issuer = arguments.value("issuer")
        rules.audience = arguments.values("audience")
        rules.lifeMax = .seconds(365 * 86_400)
        let verifier = TokenVerifier(keys: [try key(arguments, forSigning: false)], rules: rules)
        switch verifier.verify(token, nowMilliseconds: Output.wallMilliseconds()) {
        case .success(let claims):
            let now = Output.wallMilliseconds()
            let left = claims.expires > now ? (claims.expires - now) / 1000 : 0
            output.line("signature: good; a token of \(Terminal.safe(claims.user.description)), for \(left) s more")
            let begin = claims.issued ?? now
            if claims.expires > begin { warnOfLife(milliseconds: claims.expires - begin) }
        case .failure(let error): throw .refused(error.message)
        }
    }

    private static func readToken() -> [UInt8]? {
        guard isatty(STDIN_FILENO) == 0 else { return nil }
        var bytes: [UInt8] = []
        var chunk = [UInt8](repeating: 0, count: TokenVerifier.byteCountMax + 2)
        while true {
            let count = chunk.withUnsafeMutableBytes { read(STDIN_FILENO, $0.baseAddress, $0.count) }
            if count < 0, errno == EINTR { continue }
            if count <= 0 { break }
            bytes += chunk.prefix(count)
            guard bytes.count < chunk.count else { return nil }
        }
        while let last = bytes.last, last == 10 || last == 13 || last == 32 { bytes.removeLast() }
        return bytes.isEmpty ? nil : bytes
    }
}
