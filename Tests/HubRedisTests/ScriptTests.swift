import Foundation
import HubRedis
import Testing

@Suite struct ScriptTests {
    static func text(_ bytes: [UInt8]) -> String { String(decoding: bytes, as: UTF8.self) }

    @Test("in a cluster scripts publish to their shard alone, and differ in nothing else", arguments: Script.allCases)
    func sharded(script: Script) {
        let plain = Self.text(script.source), sharded = Self.text(script.shardedSource)
        #expect(!sharded.contains("'PUBLISH'"))
        #expect(sharded.replacingOccurrences(of: "'SPUBLISH'", with: "'PUBLISH'") == plain)
        #expect(!plain.contains("\"PUBLISH\""), "another way to write it wouldn't be found")
    }

    @Test("the rights in docs/redis.md name every command that a script calls")
    func rights() throws {
        let root = URL(fileURLWithPath: #filePath).deletingLastPathComponent().deletingLastPathComponent().deletingLastPathComponent()
        let document = try String(contentsOf: root.appendingPathComponent("docs/redis.md"), encoding: .utf8)
        let line = try #require(document.split(separator: "\n").first { $0.hasPrefix("ACL SETUSER hub on >PASSWORD ") })
        let rights = Set(line.split(separator: " ").map(String.init))
        for script in Script.allCases {
            for call in Self.text(script.source).matches(of: #/redis\.p?call\('([A-Z]+)'/#) {
                #expect(rights.contains("+" + call.1.lowercased()), "\(script) calls \(call.1)")
                #expect(Self.text(Script.rights.source).contains("'\(call.1)'"), "\(script) calls \(call.1), which a link doesn't ask for")
            }
        }
    }
}
