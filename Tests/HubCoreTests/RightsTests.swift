import HubBase
import HubCore
import Testing

@Suite("Rights")
struct RightsTests {
    private func grants(_ lines: [(String, Permissions)], channels: [Name] = [], base: Grants? = nil) -> Grants? {
        Grants(patterns: lines.map { (Array($0.0.utf8), $0.1) }, channels: channels, base: base)
    }

    private func rights(_ lines: [(String, Permissions)]) throws -> Rights { .token("alice", try #require(grants(lines))) }

    @Test("nothing is granted by default, but what is one's own")
    func nothing() {
        let rights = Rights.token("alice", .none)
        #expect(!rights.maySubscribe(to: "room:1") && !rights.mayPublish(to: "room:1") && !rights.mayReadHistory(of: "room:1"))
        #expect(!rights.maySeeMembers(of: "room:1") && !rights.mayWatch("bob", by: .listed))
        #expect(rights.maySubscribe(to: "user:alice") && rights.mayReadHistory(of: "user:alice") && rights.mayWatch("alice", by: .listed))
        #expect(!rights.mayPublish(to: "user:alice"))
    }

    @Test("an inbox is its owner's whatever was granted: compared as bytes, the whole id")
    func inbox() throws {
        let rights = try rights([("*", .all)])
        #expect(rights.maySubscribe(to: "user:alice") && rights.mayPublish(to: "user:alice"))
        #expect(!rights.maySubscribe(to: "user:bob") && !rights.mayReadHistory(of: "user:bob") && !rights.mayPublish(to: "user:bob"))
        #expect(!rights.mayPublish(to: "user:alice2") && !rights.mayPublish(to: "user:") && !rights.maySeeMembers(of: "user:al"))
        #expect(rights.mayPublish(to: "room:user:bob"))
        #expect(Rights.everything.maySubscribe(to: "user:bob"))
        #expect(Rights.key(reads: false, publishes: true).mayPublish(to: "user:bob"))
    }

    @Test("a user id that leaves no room for the prefix has no inbox rather than a cut one")
    func longUser() {
        #expect(Inbox.channel(of: Name(trusted: [UInt8](repeating: 97, count: 251))) == nil)
        #expect(Inbox.channel(of: Name(trusted: [UInt8](repeating: 97, count: 250)))?.bytes.count == 255)
    }

    @Test("each right is its own; the union of the patterns that match counts")
    func union() throws {
        let rights = try rights([("room:*", .subscribe), ("room:1", [.publish, .history]), ("user:bob", .watch), ("user:team-*", .watch)])
        #expect(rights.maySubscribe(to: "room:1") && rights.mayPublish(to: "room:1") && rights.mayReadHistory(of: "room:1"))
        #expect(rights.maySubscribe(to: "room:2") && !rights.mayPublish(to: "room:2") && !rights.maySeeMembers(of: "room:1"))
        #expect(
            rights.mayWatch("bob", by: .listed) && !rights.mayWatch("bobby", by: .listed) && rights.mayWatch("team-7", by: .listed)
                && !rights.mayWatch("team-", by: .listed))
    }

    @Test("watching a user with the longest id needs no channel of that length")
    func watchLong() throws {
        let long = Name(trusted: [UInt8](repeating: 97, count: 255))
        #expect(try rights([("user:*", .watch)]).mayWatch(long, by: .listed))
        #expect(try !rights([("room:*", .watch)]).mayWatch(long, by: .listed))
    }

    @Test(
        "a star is any rest at the end, one part elsewhere",
        arguments: [
            ("room:*", "room:1", true), ("room:*", "room:1:2", true), ("room:*", "room:", false), ("room:*", "room", false),
            ("room:*", "rooms:1", false), ("*", "x", true), ("*", "x:y:z", true), ("a:*:c", "a:b:c", true), ("a:*:c", "a::c", false),
            ("a:*:c", "a:b:b:c", false), ("a:*:c", "a:b:cc", false), ("*:c", "b:c", true), ("*:c", "b:b:c", false),
            ("a:*:*", "a:b:c:d", true),
            ("a:*:*", "a:b:", false), ("*:*:*", "a:b:c", true), ("*:*:*", "a:b", false), ("room:team-*", "room:team-x", true),
            ("room", "room", true),
            ("room", "roo", false), ("room", "rooms", false), ("é:*", "e\u{301}:1", false),
        ])
    func patterns(pattern: String, name: String, expected: Bool) {
        let matches = Array(pattern.utf8).withUnsafeBytes { pattern in
            Array(name.utf8).withUnsafeBytes { ChannelPattern.matches(pattern, $0) }
        }
        #expect(matches == expected)
    }

    @Test("a pattern that would backtrack isn't one", arguments: ["ro*m", "a*:b", ":a*b", "**", "a:**", "a:*b:c", "", "a\u{0}b", "*a"])
    func refused(pattern: String) {
        #expect(grants([(pattern, .all)]) == nil)
    }

    @Test("the worst pattern takes no more steps than the name has bytes")
    func bounded() throws {
        let pattern = String(repeating: "*:", count: 127) + "*"
        let rights = try rights([(pattern, .subscribe)])
        #expect(!rights.maySubscribe(to: Name(trusted: Array(String(repeating: "a:", count: 127).utf8))))
        #expect(rights.maySubscribe(to: Name(trusted: Array((String(repeating: "a:", count: 127) + "a").utf8))))
        #expect(grants([(pattern + ":", .subscribe)]) == nil, "longer than a channel's name")
        #expect(grants((0..<65).map { ("room:\($0)", .all) }) == nil)
    }

    @Test("a namespace's rules take the place of what holds for every one")
    func namespaces() {
        let rules = Grants(namespaces: ["": [.subscribe, .watch], "chat": [.publish], "user": [], "closed": []])
        let rights = Rights.token("alice", rules)
        #expect(rights.maySubscribe(to: "room:1") && rights.maySubscribe(to: "room") && !rights.mayPublish(to: "room:1"))
        #expect(rights.mayPublish(to: "chat:1") && !rights.maySubscribe(to: "chat:1") && rights.mayPublish(to: "chat"))
        #expect(!rights.maySubscribe(to: "closed:1") && rights.maySubscribe(to: "closed2:1"))
        #expect(!rights.mayWatch("bob", by: .listed), "the namespace of inboxes decides who is watched")
    }

    @Test("channels that a token names may be heard, over what the rules say")
    func channels() throws {
        let rules = Grants(namespaces: ["": [], "chat": [.subscribe, .publish]])
        let rights = Rights.token("alice", try #require(grants([], channels: ["room:7"], base: rules)))
        #expect(rights.maySubscribe(to: "room:7") && !rights.mayPublish(to: "room:7") && rights.mayPublish(to: "chat:1"))
        #expect(!rights.maySubscribe(to: "room:77"))
        #expect(grants([], channels: ["room:*"]) == nil)
        let moved = try #require(grants([], channels: ["room:7"], base: rules)).rebased(on: .none)
        #expect(!Rights.token("alice", moved).mayPublish(to: "chat:1") && Rights.token("alice", moved).maySubscribe(to: "room:7"))
    }

    @Test("the same grants are equal, so that connections share them")
    func equal() throws {
        #expect(try #require(grants([("a", .all)])) == #require(grants([("a", .all)])))
        #expect(try #require(grants([("a", .all)])) != #require(grants([("a", .subscribe)])))
        #expect(Set([try #require(grants([("a", .all)])), try #require(grants([("a", .all)]))]).count == 1)
    }

    @Test("a refusal names the right that is missing, and an inbox's owner")
    func refusals() {
        let rights = Rights.token("alice", .none)
        #expect(rights.refusal(.history, in: "room:1").message.contains("\"history\""))
        #expect(rights.refusal(.subscribe, in: "user:bob").message.contains("inbox"))
        #expect(Rights.key(reads: true, publishes: false).refusal(.publish).message.contains("scope"))
    }
}
