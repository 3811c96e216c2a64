import HubRedis
import Testing

@Suite struct RedisURLTests {
    struct Case: Sendable, CustomTestStringConvertible {
        var text: String
        var place: RedisURL.Place
        var user: String?
        var password: String?
        var database: Int?
        var usesTLS = false
        var testDescription: String { text }
    }

    static let good: [Case] = [
        Case(text: "redis://localhost", place: .host("localhost", port: 6379)),
        Case(text: "redis://10.0.0.1:7000/3", place: .host("10.0.0.1", port: 7000), database: 3),
        Case(text: "redis://:pass@h:1/", place: .host("h", port: 1), password: "pass"),
        Case(text: "redis://alone@h", place: .host("h", port: 6379), password: "alone"),
        Case(text: "redis://app:p%40ss%2F@h:6380/15", place: .host("h", port: 6380), user: "app", password: "p@ss/", database: 15),
        Case(text: "redis://app:a@b@h", place: .host("h", port: 6379), user: "app", password: "a@b"),
        Case(text: "redis://[::1]:7000", place: .host("::1", port: 7000)),
        Case(text: "redis://[::1]", place: .host("::1", port: 6379)),
        Case(text: "rediss://h", place: .host("h", port: 6379), usesTLS: true),
        Case(text: "rediss://app:x@h:6380/2", place: .host("h", port: 6380), user: "app", password: "x", database: 2, usesTLS: true),
        Case(text: "unix:///run/redis.sock", place: .unix("/run/redis.sock")),
        Case(text: "unix:///run/redis.sock?db=2", place: .unix("/run/redis.sock"), database: 2),
    ]

    @Test("a URL names place, user, password and database", arguments: good)
    func parses(_ one: Case) throws {
        let url = try RedisURL(one.text)
        #expect(url.place == one.place)
        #expect(url.user.map { String(decoding: $0, as: UTF8.self) } == one.user)
        #expect(url.password.map { String(decoding: $0.bytes, as: UTF8.self) } == one.password)
        #expect(url.database == one.database)
        #expect(url.usesTLS == one.usesTLS)
    }

    @Test(
        "what makes no sense is refused, without repeating what may be a password",
        arguments: [
            "", "http://h", "rediss://", "redis://", "redis://h h", "redis://h\u{0}", "redis://:secret@", "redis://h:0", "redis://h:65536",
            "redis://h:x",
            "redis://u:secret%4@h", "redis://u:secret%zz@h", "redis://h/x", "redis://h/-1", "redis://[::1",
            "redis://h/99999999999999999999",
            "unix://relative", "unix:///s?database=1", "redis://h:99999999999999999999",
        ])
    func refuses(text: String) {
        do {
            _ = try RedisURL(text)
            Issue.record("taken")
        } catch {
            // To be read after "must be".
            #expect(error.description.hasPrefix("\"redis://") || error.description.hasPrefix("\"unix://"))
            #expect(!error.description.contains("secret"))
        }
    }

    @Test("a URL shows no password")
    func description() throws {
        let url = try RedisURL("redis://app:secret@h/1")
        #expect("\(url)" == "redis://h:6379/1")
        for text in ["redis://h:1", "rediss://h:1/3", "unix:///run/redis.sock", "unix:///run/redis.sock?db=2", "redis://[::1]:6379"] {
            #expect("\(try RedisURL(text))" == text)
        }
        #expect(!String(reflecting: url).contains("secret"))
    }
}
