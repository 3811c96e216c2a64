import HubBase
import HubWire

/// What backends are asked, where, and what counts while they don't answer (docs/ask.md).
package struct AskSettings: Sendable {
    package enum OnFailure: String, Sendable, CaseIterable { case deny, allow }

    package struct Place: Sendable, Equatable {
        /// nil: nobody is asked.
        package var url: String?
        package var onFailure = OnFailure.deny
        package init() {}
    }

    package var connect = Place()
    package var subscribe = Place()
    package var publish = Place()
    /// Whether the backend checks clients' tokens itself, and says who they are.
    package var isIssuer = false
    /// What requests are signed with, each of them.
    package var secrets: [Secret] = []
    /// Of one question, the time in the queue included.
    package var deadline: Span = .seconds(3)
    /// Requests of one kind under way, and such that wait.
    package var concurrency = 32
    package var queue = 1024
    /// Publications of one connection that are asked about at once.
    package var ahead = 8
    /// How long answers about connections and subscriptions are kept that don't say it; zero: they aren't.
    package var cache: Span = .zero
    package var cacheMax: Span = .seconds(300)
    package var cacheEntries = 10_000
    /// So many failures within the window, and nobody asks for the pause.
    package var failures = 5
    package var window: Span = .seconds(10)
    package var pause: Span = .seconds(5)

    package init() {}

    package subscript(kind: AskKind) -> Place {
        switch kind {
        case .connect: connect
        case .subscribe: subscribe
        case .publish: publish
        }
    }

    package var isUsed: Bool { AskKind.allCases.contains { self[$0].url != nil } }

    package func limits(_ kind: AskKind) -> AskMachine.Limits {
        var limits = AskMachine.Limits()
        // What may be published depends on what it is: only an answer itself can say that it doesn't.
        limits.cache = kind == .publish ? .zero : cache
        limits.cacheMax = cacheMax
        limits.entries = cacheEntries
        limits.failures = failures
        limits.window = window
        limits.pause = pause
        return limits
    }

    private static let secretBytesMin = 16

    func problems(_ namespaces: [String: HistoryOptions]) -> [String] {
        var problems: [String] = []
        for (name, options) in namespaces.sorted(by: { $0.key < $1.key }) {
            for (permission, kind) in [(Permissions.subscribe, AskKind.subscribe), (.publish, .publish)]
            where options.asks.contains(permission) && self[kind].url == nil {
                let path = name.isEmpty ? "namespaces.\"*\".ask" : "namespaces.\(name).ask"
                problems.append("\(path) asks about \(kind.name), but ask.\(kind.name).url is missing")
            }
        }
        if isIssuer && connect.url == nil { problems.append("ask.connect.mode: instead needs ask.connect.url: nobody could come in") }
        if isIssuer && connect.onFailure == .allow {
            problems.append("ask.connect.onFailure can't be allow with ask.connect.mode: instead: nobody would know who comes in")
        }
        guard isUsed else {
            if !secrets.isEmpty { problems.append("ask.secret signs nothing: there's no ask.*.url") }
            return problems
        }
        if secrets.isEmpty { problems.append("ask.*.url needs ask.secret: without a signature the backend would answer anybody") }
        for (index, secret) in secrets.enumerated() where secret.bytes.count < Self.secretBytesMin {
            problems.append("ask.secret[\(index)] has \(secret.bytes.count) bytes; \(Self.secretBytesMin) are needed at least")
        }
        if cache > cacheMax { problems.append("ask.cache (\(cache)) must be at most ask.cacheMax (\(cacheMax))") }
        return problems
    }
}
