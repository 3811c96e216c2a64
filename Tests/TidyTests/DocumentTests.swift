import Foundation
import Testing

@Suite("documents")
struct DocumentTests {
    @Test("every relative link of a document leads to a file")
    func links() throws {
        let tree = try Tree()
        for path in tree.paths(endingIn: [".md"]) {
            let folder = tree.top.appending(path: path).deletingLastPathComponent()
            for link in Self.links(of: try tree.text(path)) {
                #expect(FileManager.default.fileExists(atPath: folder.appending(path: link).path), "\(path) links to \(link)")
            }
        }
    }

    @Test("every decision is listed in docs/decisions/README.md")
    func decisions() throws {
        let tree = try Tree()
        let listed = Set(Self.links(of: try tree.text("docs/decisions/README.md")))
        for path in tree.paths where path.hasPrefix("docs/decisions/") && !path.hasSuffix("/README.md") {
            let name = String(path.dropFirst("docs/decisions/".count))
            #expect(name.prefixMatch(of: /[0-9]{4}-[a-z0-9-]+\.md$/) != nil, "\(path) is not named NNNN-title.md")
            #expect(listed.contains(name), "\(path) is not listed")
        }
    }

    @Test(
        "links are found in text, and not in code",
        arguments: [
            ("see [the wire](protocol.md) and [one](a/b.md#part)", ["protocol.md", "a/b.md"]),
            ("![picture](architecture.svg)", ["architecture.svg"]),
            ("[site](https://example.com) [here](#below) [mail](mailto:a@example.com)", []),
            ("```\n[x](y)\n```\n[z](w)", ["w"]),
            ("a call `f[0](x)` is no link", []),
        ])
    func finding(text: String, expected: [String]) {
        #expect(Self.links(of: text) == expected)
    }

    /// Targets of inline links that lead to a file, without their fragment.
    static func links(of text: String) -> [String] {
        var found: [String] = []
        var isCode = false
        for line in text.split(separator: "\n", omittingEmptySubsequences: false) {
            if line.hasPrefix("```") { isCode.toggle() }
            if isCode { continue }
            for match in String(line).replacing(/`[^`]*`/, with: "").matches(of: /\]\(([^)\s]+)\)/) {
                let target = match.1.prefix { $0 != "#" }
                if target.isEmpty || target.contains(":") { continue }
                found.append(String(target))
            }
        }
        return found
    }
}
