import HubCore
import HubNet

/// What a request asks for, by its path, and which methods that takes.
enum Route {
    /// `*`: the server as a whole (RFC 9110 §9.3.7).
    case server
    case alive, ready, metrics, page
    case socket, echo
    /// Server-sent events down, and posts up to one stream.
    case stream
    case streamPost([UInt8])
    case user([UInt8])
    case presence, publish, nodes
    /// Of the channel.
    case history([UInt8])
    /// Of the user.
    case disconnect([UInt8])
    case revocations
    case members([UInt8])

    /// nil: there's no such route, with this configuration.
    init?(_ path: [[UInt8]], _ configuration: Configuration) {
        let words = path.prefix(2).map { String(decoding: $0, as: UTF8.self) }
        switch (words.first ?? "", path.count) {
        case ("*", 1): self = .server
        case ("healthz", 1): self = .alive
        case ("readyz", 1): self = .ready
        case ("metrics", 1): self = .metrics
        case ("", 0), ("", 1):
            guard configuration.isDevelopment else { return nil }
            self = .page
        case ("v1", 2):
            switch words[1] {
            case "ws": self = .socket
            case "sse": self = .stream
            case "echo":
                guard configuration.diagnostics.echo else { return nil }
                self = .echo
            case "presence": self = .presence
            case "publish": self = .publish
            case "nodes": self = .nodes
            case "revocations": self = .revocations
            default: return nil
            }
        case ("v1", 4) where words[1] == "users" && path[3].elementsEqual("disconnect".utf8): self = .disconnect(path[2])
        case ("v1", 3) where words[1] == "presence": self = .user(path[2])
        case ("v1", 4) where words[1] == "channels" && path[3].elementsEqual("history".utf8): self = .history(path[2])
        case ("v1", 4) where words[1] == "channels" && path[3].elementsEqual("members".utf8): self = .members(path[2])
        case ("v1", 3) where words[1] == "sse": self = .streamPost(path[2])
        default: return nil
        }
    }

    /// Asked by what keeps the node running, from addresses that may be its clients' too.
    var isProbe: Bool {
        switch self {
        case .alive, .ready: true
        default: false
        }
    }

    func takes(_ method: HTTPMethod) -> Bool {
        switch self {
        case .server: false
        case .alive, .ready, .metrics, .page, .user, .nodes, .history, .members, .stream: method == .get || method == .head
        case .socket, .echo: method == .get
        case .presence, .publish, .streamPost, .disconnect, .revocations: method == .post
        }
    }

    /// For `Allow`.
    var allowed: String {
        switch self {
        case .server: "GET, HEAD, POST, OPTIONS"
        case .alive, .ready, .metrics, .page, .user, .nodes, .history, .members, .stream: "GET, HEAD, OPTIONS"
        case .socket, .echo: "GET, OPTIONS"
        case .presence, .publish, .streamPost, .disconnect, .revocations: "POST, OPTIONS"
        }
    }
}
