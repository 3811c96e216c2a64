import HubBase
import HubNet

/// The origins whose pages may come (`auth.origins`): each exactly, or with `*` for one label at the beginning of its host. No pattern goes back over
/// what it has read: an exact origin is found in a set, and a wildcard is compared from the first dot on.
package struct OriginList: Sendable {
    private var exact: Set<WebOrigin> = []
    /// What follows the label, as an origin of its own.
    private var parents: Set<WebOrigin> = []

    /// Entries that aren't origins are left out: the configuration's check has refused them.
    package init(_ texts: [String]) {
        for text in texts {
            switch Self.parse(text) {
            case .exact(let origin): exact.insert(origin)
            case .children(let parent): parents.insert(parent)
            case nil: continue
            }
        }
    }

    var isEmpty: Bool { exact.isEmpty && parents.isEmpty }

    package func contains(_ origin: WebOrigin) -> Bool {
        if exact.contains(origin) { return true }
        guard !parents.isEmpty, case .name(let name) = origin.host, let dot = name.firstIndex(of: ".") else { return false }
        let parent = String(name[name.index(after: dot)...])
        return parents.contains(WebOrigin(scheme: origin.scheme, host: .name(parent), port: origin.port))
    }

    private enum Entry {
        case exact(WebOrigin)
        case children(WebOrigin)
    }

    private static func parse(_ text: String) -> Entry? {
        guard let star = text.firstIndex(of: "*") else { return WebOrigin(text).map { .exact($0) } }
        let scheme = text[..<star]
        let rest = text[text.index(after: star)...]
        guard scheme.hasSuffix("://"), rest.hasPrefix("."), !rest.contains("*") else { return nil }
        // Addresses have no labels.
        guard let parent = WebOrigin(String(scheme) + String(rest.dropFirst())), case .name(let name) = parent.host,
            name.utf8.contains(where: { !(0x30...0x39).contains($0) && $0 != UInt8(ascii: ".") })
        else { return nil }
        return .children(parent)
    }

    /// What an entry of `auth.origins` must be instead; nil when it's one.
    package static func problem(_ text: String) -> String? {
        if text == "null" { return "an origin: \"null\" stands for pages of nobody in particular, which any page can make of itself" }
        if parse(text) != nil { return nil }
        return
            "an origin such as \"https://app.example.com\", \"https://*.example.com\" or \"http://localhost:3000\", without a path (international names in punycode)"
    }

    /// What should be thought over in a list that's in order.
    package static func warnings(_ texts: [String]) -> [String] {
        texts.compactMap { text in
            guard case .children(let parent)? = parse(text), case .name(let name) = parent.host, !name.contains("."), name != "localhost"
            else {
                return nil
            }
            return "auth.origins: \(shownText(text)) lets the pages of everybody with a name under .\(name) in"
        }
    }
}
