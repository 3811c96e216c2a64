import HubBase
import HubCore
import HubFetch
import HubWire

// Webhooks, and what else the node asks of others.
extension SettingTable {
    static let hooks: [Setting] = [
        address(
            "hooks.url", \.hooks.url, live: true,
            "Where backends are told of users and channels, \"https://backend.example/hub\"; none: nobody is told.", check: hookURL),
        Setting(
            "hooks.secret", .secrets, isLive: true,
            "What requests are signed with: a text, or a list of {secret, file or env}, which all sign; 16 bytes each at least."
        ) {
            .secrets($1.hooks.secrets)
        } write: { value, _, configuration in
            guard case .secrets(let secrets) = value else { preconditionFailure("the kind of hooks.secret gave \(value)") }
            configuration.hooks.secrets = secrets
        },
        .list("hooks.events", \.hooks.events, live: true, "What is told: \(hookNames.joined(separator: ", ")).") {
            hookNames.contains($0) ? nil : "one of \(hookNames.joined(separator: ", "))"
        },
        .integer(
            "hooks.queue", \.hooks.queue, Partition.count...1_000_000_000, live: true,
            "Events that wait for a receiver, in all; beyond it the oldest are dropped and counted."),
        .duration(
            "hooks.keep", \.hooks.keep, .seconds(60) ... .seconds(30 * 86_400), live: true,
            "How long an event is offered before it's given up."),
        .integer("hooks.batch", \.hooks.batch, 1...HookClaim.eventsMax, live: true, "Events of one request."),
        .integer("hooks.concurrency", \.hooks.concurrency, 1...32, live: true, "Requests of this node under way."),
        .duration(
            "hooks.deadline", \.hooks.deadline, .milliseconds(100) ... .seconds(120), live: true, "For one request and its answer."),
        .duration(
            "hooks.retryMax", \.hooks.retryMax, .milliseconds(100) ... .seconds(3600), live: true,
            "Longest wait between two attempts; the first is a second."),
        .duration(
            "hooks.lease", \.hooks.lease, .seconds(1) ... .seconds(600), live: true,
            "How long a partition of the queue stays with a node that says nothing any more."),
        .optionalText(
            "outgoing.ca", \.outgoing.authorities, "PEM file of the authorities that vouch for https servers; by default the system's."
        ) {
            $0.isEmpty || $0.utf8.contains(0) || $0.utf8.count > 4_000 ? "the path of a file" : nil
        },
        address(
            "outgoing.proxy", \.outgoing.proxy, live: false,
            "Proxy for all requests to others, \"http://proxy:3128\"; the environment's isn't used.",
            check: { (try? FetchURL($0)) == nil ? "an address such as \"http://proxy:3128\"" : nil }),
    ]

    /// An address, of which errors show nothing and reports its place alone.
    static func address(
        _ path: String, _ field: any Setting.Field<String?>, live: Bool, _ help: String, check: @escaping @Sendable (String) -> String?
    ) -> Setting {
        Setting(path, .privateText(check), isLive: live, help) { _, configuration in
            configuration[keyPath: field].map { .partly($0, shown: place($0)) } ?? .absent
        } write: { value, _, configuration in
            switch value {
            case .text(let text), .partly(let text, _): configuration[keyPath: field] = text
            default: configuration[keyPath: field] = nil
            }
        }
    }

    /// In the order of the documents.
    private static let hookNames = HookKind.allCases.map { "\($0.name)" }

    private static func hookURL(_ text: String) -> String? {
        do throws(FetchURL.Problem) {
            _ = try FetchURL(text)
            return nil
        } catch {
            return error.message.hasPrefix("must be ") ? String(error.message.dropFirst("must be ".count)) : "usable: it \(error.message)"
        }
    }

    /// Without the path, which often holds a secret.
    private static func place(_ text: String) -> String { (try? FetchURL(text))?.place ?? "" }
}
