import Foundation
import Testing

/// Which target may import what: the arrows of docs/architecture.md, and what keeps the pure targets pure. The compiler only checks
/// what Package.swift links; it lets a target import Glibc or Foundation whenever it likes.
@Suite("which target may import what")
struct ImportTests {
    /// Foundation only where nothing is hot; the system's library only in shells and executables.
    static let allowed: [String: Set<String>] = [
        "HubBase": ["Synchronization"],
        "HubWire": ["HubBase"],
        "HubCore": ["HubBase", "HubWire"],
        "HubClient": ["HubBase", "HubWire"],
        "HubNet": ["HubBase", "CHubShims", "COpenSSL", "CZlib", "Glibc", "Synchronization"],
        "HubRedis": ["HubBase", "HubCore", "HubWire", "HubNet", "CHiredis", "COpenSSL", "CHubShims", "Glibc", "Synchronization"],
        "HubFetch": ["HubBase", "HubNet", "CCurl", "CHubShims", "Glibc", "Synchronization"],
        "HubToken": ["HubBase", "HubCore", "HubWire", "COpenSSL"],
        "HubConsole": ["HubBase", "HubWire"],
        // Glibc: for the logarithm.
        "HubSwarm": ["HubBase", "HubClient", "HubCheck", "HubWire", "Glibc"],
        "HubCheck": ["HubBase", "HubWire"],
        "HubGateway": [
            "HubBase", "HubCore", "HubWire", "HubNet", "HubRedis", "HubFetch", "HubToken", "COpenSSL", "CHubShims", "Glibc",
            "Foundation", "Synchronization",
        ],
        "HubClientNet": ["HubBase", "HubClient", "HubWire", "HubNet", "CHubShims", "CCurl", "Glibc", "Synchronization"],
        "hubd": ["HubGateway", "Glibc", "Foundation"],
        "hubctl": [
            "HubConsole", "HubToken", "HubClientNet", "HubClient", "HubNet", "HubWire", "HubBase", "CHubShims", "Glibc", "Foundation",
        ],
        "hub-swarm": [
            "HubSwarm", "HubCheck", "HubToken", "HubClientNet", "HubClient", "HubNet", "HubWire", "HubBase", "CHubShims", "Glibc",
            "Foundation", "Synchronization",
        ],
    ]

    @Test("every Swift target of Sources imports only what its row allows")
    func sources() throws {
        let tree = try Tree()
        for path in tree.paths(endingIn: [".swift"]) where path.hasPrefix("Sources/") {
            let target = String(path.split(separator: "/")[1])
            let row = try #require(Self.allowed[target], "\(path): target \(target) has no row in ImportTests.allowed")
            for name in Self.imports(of: try tree.text(path)) {
                #expect(row.contains(name), "\(path) imports \(name), which \(target) may not")
            }
        }
    }

    @Test("every row names a target that exists")
    func rows() throws {
        let package = try Tree().text("Package.swift")
        for target in Self.allowed.keys {
            #expect(
                package.contains("(\"\(target)\"") || package.contains("(\n            \"\(target)\""), "\(target) is not in Package.swift")
        }
    }

    @Test(
        "an import is found in every form it can be written in",
        arguments: [
            ("import Glibc", ["Glibc"]),
            ("    import Glibc  // sockets", ["Glibc"]),
            ("@preconcurrency import Foundation", ["Foundation"]),
            ("package import HubBase", ["HubBase"]),
            ("@_spi(Testing) public import HubNet", ["HubNet"]),
            ("import struct Foundation.URL", ["Foundation"]),
            ("import HubBase; import Glibc", ["HubBase", "Glibc"]),
            ("// import Foundation is forbidden", []),
            ("let important = 1", []),
        ])
    func forms(line: String, expected: [String]) {
        #expect(Self.imports(of: line) == expected)
    }

    static func imports(of text: String) -> [String] {
        let kinds: Set<Substring> = ["struct", "class", "enum", "protocol", "func", "var", "let", "typealias", "actor"]
        var found: [String] = []
        for statement in text.split(whereSeparator: { $0 == "\n" || $0 == ";" }) {
            var words = statement.split(separator: " ")[...]
            while let word = words.first, word.hasPrefix("@") || ["public", "package", "internal", "fileprivate", "private"].contains(word)
            {
                words = words.dropFirst()
            }
            guard words.first == "import" else { continue }
            words = words.dropFirst()
            if let kind = words.first, kinds.contains(kind) { words = words.dropFirst() }
            if let module = words.first?.split(separator: ".").first { found.append(String(module)) }
        }
        return found
    }
}
