import HubBase
import HubCore
import HubFetch
import HubWire

// What backends are asked before a client may do something (docs/ask.md).
extension SettingTable {
    static let ask: [Setting] =
        [
            place(.connect, \.ask.connect, "who comes in", "nobody else is let in"),
            place(.subscribe, \.ask.subscribe, "subscriptions, in namespaces with ask", "they are refused"),
            place(.publish, \.ask.publish, "chat and event, in namespaces with ask", "they are refused"),
        ].flatMap { $0 } + [
            Setting(
                "ask.connect.mode", .choice(["beside", "instead"]), isLive: true,
                "Whether the backend is asked beside a token that the hub has checked, or checks it itself and says whose it is."
            ) {
                .text($1.ask.isIssuer ? "instead" : "beside")
            } write: { value, _, configuration in
                if case .text(let word) = value { configuration.ask.isIssuer = word == "instead" }
            },
            Setting(
                "ask.secret", .secrets, isLive: true,
                "What questions are signed with: a text, or a list of {secret, file or env}, which all sign; 16 bytes each at least."
            ) {
                .secrets($1.ask.secrets)
            } write: { value, _, configuration in
                guard case .secrets(let secrets) = value else { preconditionFailure("the kind of ask.secret gave \(value)") }
                configuration.ask.secrets = secrets
            },
            .duration(
                "ask.deadline", \.ask.deadline, .milliseconds(50) ... .seconds(9), live: true,
                "For one question and its answer, the time in the queue included."),
            .integer("ask.concurrency", \.ask.concurrency, 1...256, "Questions of one kind under way from this node."),
            .integer("ask.queue", \.ask.queue, 0...100_000, "Questions of one kind that wait; beyond it asking has failed."),
            .integer(
                "ask.ahead", \.ask.ahead, 1...64, live: true,
                "Publications of one connection that are asked about at once; they're published in their order whatever is answered first."),
            .duration(
                "ask.cache", \.ask.cache, .zero ... .seconds(3600), live: true,
                "How long answers about connections and subscriptions hold for the same question that have no ttl; 0s: they don't."),
            .duration("ask.cacheMax", \.ask.cacheMax, .zero ... .seconds(86_400), live: true, "The longest ttl that counts."),
            .integer("ask.cacheEntries", \.ask.cacheEntries, 0...1_000_000, live: true, "Answers of one kind that are kept."),
            .integer(
                "ask.breaker.failures", \.ask.failures, 1...10_000, live: true,
                "So many failures within the window, and no fewer than successes, and nobody is asked for a while."),
            .duration("ask.breaker.window", \.ask.window, .milliseconds(100) ... .seconds(600), live: true, "The window."),
            .duration(
                "ask.breaker.pause", \.ask.pause, .milliseconds(100) ... .seconds(60), live: true,
                "The while; then one question probes. Doubled each time that it fails, up to a minute."),
        ]

    private static func place(
        _ kind: AskKind, _ field: any Setting.Field<AskSettings.Place>, _ what: String, _ closed: String
    ) -> [Setting] {
        [
            Setting(
                "ask.\(kind.name).url", .privateText(askURL), isLive: true,
                "Who is asked about \(what), \"https://backend.example/hub/\(kind.name)\"; none: nobody."
            ) {
                $1[keyPath: field].url.map { .partly($0, shown: (try? FetchURL($0))?.place ?? "") } ?? .absent
            } write: { value, _, configuration in
                switch value {
                case .text(let text), .partly(let text, _): configuration[keyPath: field].url = text
                default: configuration[keyPath: field].url = nil
                }
            },
            Setting(
                "ask.\(kind.name).onFailure", .choice(AskSettings.OnFailure.allCases.map(\.rawValue)), isLive: true,
                "What counts while there's no answer: deny (\(closed)) or allow."
            ) {
                .text($1[keyPath: field].onFailure.rawValue)
            } write: { value, _, configuration in
                guard case .text(let word) = value else { return }
                configuration[keyPath: field].onFailure = AskSettings.OnFailure(rawValue: word) ?? .deny
            },
        ]
    }

    private static func askURL(_ text: String) -> String? {
        do throws(FetchURL.Problem) {
            let url = try FetchURL(text)
            // Tokens and messages go there, and what comes back decides who may do what.
            return url.isSecure || url.isLoopback ? nil : "an https address, or one of this machine"
        } catch {
            return error.message.hasPrefix("must be ") ? String(error.message.dropFirst("must be ".count)) : "usable: it \(error.message)"
        }
    }
}

extension Setting {
    /// A namespace's own list takes the place of what holds for every one.
    static let asks = Setting(
        "namespaces.NAME.ask", .list { $0 == "subscribe" || $0 == "publish" ? nil : "subscribe or publish" }, isLive: true,
        "What the backend is asked about in its channels, after the rights: subscribe, publish (ask.subscribe.url, ask.publish.url)."
    ) { namespace, configuration in
        .list((configuration.namespaces[namespace] ?? configuration.namespaces[""] ?? HistoryOptions()).asks.words)
    } write: { value, namespace, configuration in
        guard case .list(let words) = value else { preconditionFailure("a list's kind gave \(value)") }
        var options = configuration.namespaces[namespace] ?? configuration.namespaces[""] ?? HistoryOptions()
        options.asks = words.reduce(into: []) { $0.formUnion(Permissions(word: Array($1.utf8)) ?? []) }
        configuration.namespaces[namespace] = options
    }
}
