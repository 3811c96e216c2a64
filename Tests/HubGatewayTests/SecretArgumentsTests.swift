import HubGateway
import Testing

@Suite("arguments that hold secrets")
struct SecretArgumentsTests {
    /// What stays to be seen of the last of these.
    private func shown(_ words: String...) -> String {
        let argument = words[words.count - 1]
        guard let start = SecretArguments.start(of: argument, after: words.dropLast().last ?? "hubd") else { return argument }
        return String(decoding: argument.utf8.prefix(start), as: UTF8.self)
    }

    @Test("values of secrets aren't shown, in either form; names of settings, files and numbers are")
    func settings() {
        for (assignment, left) in [
            ("auth.keys=[{secret:'x'}]", "auth.keys="), ("api.keys=[]", "api.keys="), ("redis.password=x=y", "redis.password="),
            ("hooks.secret=x", "hooks.secret="), ("ask.secret=[{secret:'x'}]", "ask.secret="),
            ("hooks.url=https://host/path", "hooks.url="), ("ask.publish.url=https://host?key=x", "ask.publish.url="),
            ("auth.jwks.url=https://host/x", "auth.jwks.url="), ("redis.url=redis://:x@host", "redis.url="),
        ] {
            #expect(shown("--set", assignment) == left)
            #expect(shown("--set=" + assignment) == "--set=" + left)
            // Only where it's a setting that is given.
            #expect(shown("--node", assignment) == assignment && shown(assignment) == assignment)
        }
        for assignment in [
            "limits.channels=100", "node=a@b", "redis.url=redis://host:1", "redis.passwordFile=/x", "hooks.url=https://host:8443",
            "hooks.url=https://host/",
            "auth.secret=x", "x", "=x", "",
        ] {
            #expect(shown("--set", assignment) == assignment)
            #expect(shown("--set=" + assignment) == "--set=" + assignment)
        }
    }

    @Test("a Redis's address is shown unless a password is in it")
    func redis() {
        #expect(shown("--redis", "redis://:x@host") == "" && shown("--redis=rediss://u:x@host:1/2") == "--redis=")
        #expect(shown("--redis", "redis://host") == "redis://host" && shown("--redis=redis://host:1") == "--redis=redis://host:1")
        #expect(shown("--listen", "x@host:1") == "x@host:1")
    }
}
