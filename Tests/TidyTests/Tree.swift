import Foundation
import Testing

/// The repository's files as the version control sees them: what is ignored or built doesn't count.
struct Tree {
    let top: URL
    /// Relative to `top`, sorted.
    let paths: [String]

    init() throws {
        top = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent().deletingLastPathComponent()
        let listed = try Command.run("git", ["ls-files", "-z", "--cached", "--others", "--exclude-standard"], in: top)
        try #require(listed.status == 0, "git can't list the files: \(listed.output)")
        let top = top
        paths = listed.output.split(separator: "\0").map(String.init)
            // A file deleted but not yet committed is still listed.
            .filter { FileManager.default.fileExists(atPath: top.appending(path: $0).path) }
            .sorted()
        try #require(paths.contains("Package.swift"))
    }

    func text(_ path: String) throws -> String {
        try String(contentsOf: top.appending(path: path), encoding: .utf8)
    }

    func lines(_ path: String) throws -> [Substring] {
        try text(path).split(separator: "\n", omittingEmptySubsequences: false)
    }

    func paths(endingIn endings: [String]) -> [String] {
        paths.filter { path in endings.contains { path.hasSuffix($0) } }
    }

    /// Everything that people write by hand, scripts without an ending included.
    var written: [String] {
        paths(endingIn: [
            ".swift", ".c", ".h", ".py", ".lua", ".html", ".md", ".json", ".json5", ".yml", ".cfg", ".txt", ".modulemap", "Dockerfile",
        ]) + paths.filter { $0.hasPrefix("scripts/") || $0.hasPrefix(".ci/") }
    }
}

/// A program run to its end, with both its outputs in one text.
enum Command {
    static func run(_ name: String, _ arguments: [String], in directory: URL) throws -> (status: Int32, output: String) {
        let process = Process()
        process.executableURL = URL(filePath: "/usr/bin/env")
        process.arguments = [name] + arguments
        process.currentDirectoryURL = directory
        let pipe = Pipe()
        process.standardOutput = pipe
        process.standardError = pipe
        try process.run()
        // Read before waiting: a full pipe would hold the program for ever.
        let output = pipe.fileHandleForReading.readDataToEndOfFile()
        process.waitUntilExit()
        return (process.terminationStatus, String(decoding: output, as: UTF8.self))
    }
}
