import Foundation
import Testing

@Suite("what is written in the tree")
struct TextTests {
    /// Put together here, so that this file doesn't hold them.
    static let leftOvers = ["TO" + "DO", "FIX" + "ME", "XX" + "X", "fatalError(\"" + "skeleton", "withKnown" + "Issue", ".disabled" + "("]
    static let machinePaths = ["/wo" + "rk/", "/ro" + "ot/", "/ho" + "me/", "/fa" + "rm/", ".pye" + "nv", "bash_" + "jobs"]

    @Test("no left-over marker and no switched-off test")
    func markers() throws {
        try eachLine { path, number, line in
            // A word of its own: a template for mkdtemp ends in six of the same letters.
            for word in Self.leftOvers where line.ranges(of: word).contains(where: { Self.isWord(line, $0) }) {
                Issue.record("\(path):\(number) holds \(word)")
            }
        }
    }

    @Test("no path of one machine")
    func machines() throws {
        try eachLine { path, number, line in
            for word in Self.machinePaths where line.contains(word) {
                Issue.record("\(path):\(number) holds the path \(word)")
            }
        }
    }

    @Test("no file of code past 500 lines: there is a second concept in it")
    func length() throws {
        let tree = try Tree()
        for path in tree.paths(endingIn: [".swift", ".c", ".h", ".py", ".lua", ".html"]) {
            let count = try tree.lines(path).count
            #expect(count <= 501, "\(path) has \(count - 1) lines")
        }
    }

    @Test("swift format finds nothing")
    func format() throws {
        let tree = try Tree()
        let result = try Command.run(
            "swift", ["format", "lint", "--strict", "--parallel"] + tree.paths(endingIn: [".swift"]), in: tree.top)
        #expect(result.status == 0, "swift format lint --strict (scripts/format mends most of it):\n\(result.output)")
    }

    @Test("no executable starts with its path in the tree: every script says bash by env")
    func scripts() throws {
        let tree = try Tree()
        for path in tree.paths where path.hasPrefix("scripts/") && !path.hasSuffix(".sh") || path.hasPrefix(".ci/") {
            #expect(try tree.lines(path).first == "#!/usr/bin/env bash", "\(path)")
            #expect(FileManager.default.isExecutableFile(atPath: tree.top.appending(path: path).path), "\(path) is not executable")
        }
    }

    static func isWord(_ line: Substring, _ range: Range<Substring.Index>) -> Bool {
        let before = line[..<range.lowerBound].last
        let after = line[range.upperBound...].first
        return before != line[range.lowerBound] && after != line[line.index(before: range.upperBound)]
    }

    func eachLine(_ body: (String, Int, Substring) -> Void) throws {
        let tree = try Tree()
        for path in tree.written {
            for (index, line) in try tree.lines(path).enumerated() { body(path, index + 1, line) }
        }
    }
}
