import HubBase
import HubCore
import HubFetch

extension SettingTable {
    static let tokens: [Setting] = [
        .optionalText(
            "auth.jwks.file", \.keySet.file, "File with a JWK Set, the public keys of an issuer; read again every auth.jwks.refresh."
        ) { $0.isEmpty || $0.utf8.contains(0) ? "the name of a file" : nil },
        address(
            "auth.jwks.url", \.keySet.url, live: false,
            "Address of a JWK Set, https (or http on this machine); fetched again every auth.jwks.refresh."
        ) {
            KeySetPlace.problem($0)
        },
        .optionalText(
            "auth.jwks.ca", \.keySet.authorities, "PEM file of the authorities that vouch for that address; by default the system's."
        ) {
            $0.isEmpty || $0.utf8.contains(0) ? "the name of a file" : nil
        },
        .duration("auth.jwks.refresh", \.keySet.refresh, .seconds(1) ... .seconds(86_400), "How often the set is read again."),
        .duration(
            "auth.jwks.interval", \.keySet.interval, .milliseconds(100) ... .seconds(3600),
            "Once in this time at most it's read because a token names a key that isn't in it."),
        .duration(
            "auth.jwks.keep", \.keySet.keep, .seconds(1) ... .seconds(30 * 86_400), "How long its keys count while it can't be read."),
        .optionalText("auth.issuer", \.tokens.issuer, live: true, "What a token's iss must be; by default it may be anything.") {
            ($0.isEmpty || $0.utf8.count > 255) ? "a text of 1 to 255 bytes" : nil
        },
        .list(
            "auth.audience", \.tokens.audience, live: true,
            "Names of this hub, of which a token's aud must hold one; empty: tokens with an aud are refused."
        ) { ($0.isEmpty || $0.utf8.count > 255) ? "a text of 1 to 255 bytes" : nil },
        .duration(
            "auth.leeway", \.tokens.leeway, .zero ... .seconds(600), live: true,
            "How far a token's nbf and iat may be ahead of this node's clock."),
        .duration(
            "auth.expiryLeeway", \.tokens.expiryLeeway, .zero ... .seconds(600), live: true,
            "How long a token holds beyond its exp, on live connections too."),
        .duration(
            "auth.expiryWarning", \.tokens.expiryWarning, .zero ... .seconds(86_400), live: true,
            "How long before its token ends a client is told so; half of what is left when that is less."),
        .duration(
            "auth.tokenLifeMax", \.tokens.lifeMax, .seconds(1) ... .seconds(365 * 86_400),
            "The longest that a token may live, from iat (or now) to exp; revocations are kept as long."),
        .boolean(
            "auth.queryToken", \.tokens.areTakenFromQuery, live: true,
            "Takes a token from the URL too, ?token=…; URLs end up in logs and histories."),
    ]
}

enum KeySetPlace {
    static func problem(_ text: String) -> String? {
        let url: FetchURL
        do throws(FetchURL.Problem) { url = try FetchURL(text) } catch { return "an address: it " + error.message }
        let host = url.place.drop { $0 != "/" }.dropFirst(2)
        let isHere = ["localhost", "127.0.0.1", "[::1]"].contains { host == $0 || host.hasPrefix($0 + ":") }
        // Whoever could change the answer on its way could make tokens.
        return url.isSecure || isHere ? nil : "an https address, or one of this machine"
    }
}

extension Setting {
    /// Written as words; a namespace's own list takes the place of what holds for every one.
    static let rights = Setting(
        "namespaces.NAME.rights",
        .list { Permissions(word: Array($0.utf8)) == nil ? "one of subscribe, publish, presence, history, watch, or *" : nil },
        isLive: true,
        "What users may do in its channels whose tokens have no caps: subscribe, publish, presence, history, watch, or * for all."
    ) { namespace, configuration in
        .list((configuration.namespaces[namespace] ?? configuration.namespaces[""] ?? HistoryOptions()).rights.words)
    } write: { value, namespace, configuration in
        guard case .list(let words) = value else { preconditionFailure("a list's kind gave \(value)") }
        var options = configuration.namespaces[namespace] ?? configuration.namespaces[""] ?? HistoryOptions()
        options.rights = words.reduce(into: []) { $0.formUnion(Permissions(word: Array($1.utf8)) ?? []) }
        configuration.namespaces[namespace] = options
    }
}
