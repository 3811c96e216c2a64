import HubConsole
import Testing

@Suite("What hubctl shows")
struct AnswerTextTests {
    private static let plain = Terminal(hasColour: false)
    private static let now: UInt64 = 1_796_011_200_000

    private static func presence(_ text: String, on terminal: Terminal = plain) -> [String]? {
        PresenceText.lines(Array(text.utf8), now: now, on: terminal)
    }

    @Test(
        "nothing that formats text, or can't be seen, comes through: a name can't be made to look like another, issue 5 bad input",
        arguments: [
            "\u{200B}", "\u{202E}", "\u{200D}", "\u{FEFF}", "\u{AD}", "\u{2028}", "\u{2029}", "\u{E0041}", "\u{1B}", "\u{9B}", "\n",
        ])
    func unseen(_ text: String) {
        #expect(Terminal.safe("ad\(text)min") == "ad\u{FFFD}min")
        let escaped = text.utf16.map { unit in
            let digits = String(unit, radix: 16)
            return #"\u"# + String(repeating: "0", count: 4 - digits.count) + digits
        }.joined()
        let lines = Self.presence(#"{"user":"al\#(escaped)ice","status":"offline","version":0,"lastSeen":0,"connections":[]}"#)
        #expect(lines == ["al\u{FFFD}ice is offline and was never seen"])
    }

    @Test("presence: a headline, then a table of connections, aligned")
    func online() {
        let lines = Self.presence(
            #"{"user":"alice","status":"online","version":7,"lastSeen":1796011080000,"connections":["#
                + #"{"connection":"n1.1","node":"n1","device":"phone","state":"online","since":1,"leaseLeft":27400},"#
                + #"{"connection":"node-two.9","node":"node-two","device":"laptop","state":"away","since":1,"leaseLeft":900}]}"#)
        #expect(
            lines == [
                "alice is online (2 devices), for 2 min",
                "  device  node      state   lease left  connection",
                "  phone   n1        online  27 s        n1.1",
                "  laptop  node-two  away    0 s         node-two.9",
            ])
    }

    @Test(
        "presence: other headlines",
        arguments: [
            (
                #"{"user":"bob","status":"offline","version":3,"lastSeen":1796000400000,"connections":[]}"#,
                "bob is offline, last seen 3 h ago"
            ),
            (#"{"user":"bob","status":"offline","version":0,"lastSeen":0,"connections":[]}"#, "bob is offline and was never seen"),
            (
                #"{"user":"bob","status":"online","version":3,"lastSeen":1796011201000,"connections":[],"graceLeft":8000}"#,
                "bob is online, for 0 s, gone in 8 s unless it comes back"
            ),
            (
                #"{"user":"bob","status":"online","version":3,"lastSeen":0,"stale":true}"#,
                "bob is online (stale: the hub's store is away, full, or behind what was told, or was so until lately; this is the best that is known)"
            ),
            (#"{"user":"b\u001b[31m\nb","status":"online","version":1,"lastSeen":0}"#, "b\u{FFFD}[31m\u{FFFD}b is online"),
        ])
    func headlines(_ body: String, _ line: String) { #expect(Self.presence(body) == [line]) }

    @Test("two connections of one device are one device")
    func oneDevice() {
        let lines = Self.presence(
            #"{"user":"a","status":"online","version":1,"lastSeen":0,"connections":[{"device":"d","connection":"x"},{"device":"d","connection":"y"}]}"#
        )
        #expect(lines?.first == "a is online (1 device)")
    }

    @Test("colours stand around words and don't move columns")
    func colours() {
        let lines = Self.presence(
            #"{"user":"a","status":"online","version":1,"lastSeen":0,"connections":[{"device":"d","node":"n","state":"away","connection":"c"}]}"#,
            on: Terminal(hasColour: true))
        #expect(lines?[0] == "a is \u{1B}[32monline\u{1B}[0m (1 device)")
        #expect(lines?[2] == "  d       n     \u{1B}[33maway\u{1B}[0m   ?           \u{1B}[90mc\u{1B}[0m")
    }

    @Test("an answer that isn't one is none", arguments: ["", "[]", "{}", "<html>", #"{"user":1,"status":"online"}"#, #"{"user":"a""#])
    func strange(_ body: String) {
        #expect(Self.presence(body) == nil)
        #expect(NodesText.lines(Array(body.utf8), on: Self.plain) == nil)
    }

    @Test("nodes: whatever fields there are, aligned")
    func nodes() {
        let body =
            #"{"nodes":[{"node":"n1","incarnation":"abcdefgh","connections":12,"leaseLeft":9100},{"node":"longer","connections":3,"zone":"b"}]}"#
        #expect(
            NodesText.lines(Array(body.utf8), on: Self.plain) == [
                "node    incarnation  connections  lease left  zone",
                "n1      abcdefgh     12           9 s         ",
                "longer               3                        b",
            ])
        let failing =
            #"{"nodes":[{"node":"n1","connections":12,"leaseLeft":9100},{"node":"n2","connections":3,"leaseLeft":9100,"notAsked":["connect","publish"]}]}"#
        #expect(
            NodesText.lines(Array(failing.utf8), on: Self.plain) == [
                "node  connections  lease left  not asked",
                "n1    12           9 s         ",
                "n2    3            9 s         connect, publish",
            ])
        #expect(NodesText.lines(Array(#"{"nodes":[]}"#.utf8), on: Self.plain) == ["no node has a lease"])
    }

    @Test(
        "a publication in one line",
        arguments: [
            (
                #"{"type":"chat","channel":"room:1","offset":18,"user":"alice","payload":{"text":"hi \"you\""}}"#,
                #"12:00:00 room:1 #18 alice: hi "you""#
            ),
            (
                #"{"type":"event","channel":"room:1","offset":19,"user":"","payload":{"text":"a","b":1}}"#,
                #"12:00:00 room:1 #19 [event] (backend): {"text":"a","b":1}"#
            ),
            (
                #"{"type":"typing","channel":"room:1","user":"bob","payload":{"isTyping":true}}"#,
                #"12:00:00 room:1 [typing] bob: {"isTyping":true}"#
            ),
            (
                #"{"type":"chat","channel":"room:1","offset":1,"user":"eve","payload":{"text":"x\n12:00:01 room:1 #2 alice: forged"}}"#,
                "12:00:00 room:1 #1 eve: x\u{FFFD}12:00:01 room:1 #2 alice: forged"
            ),
            (#"{"type":"chat","channel":"room:1","offset":1,"user":"eve","payload":"plain"}"#, #"12:00:00 room:1 #1 eve: "plain""#),
        ])
    func publication(_ message: String, _ line: String) {
        #expect(EnvelopeText.publication(Array(message.utf8), clock: "12:00:00", on: Self.plain) == line)
    }

    @Test("what the hub says of itself")
    func system() {
        #expect(EnvelopeText.system(Array(#"{"type":"system","event":"degraded","reason":"redis"}"#.utf8)) == "degraded: reason redis")
        #expect(EnvelopeText.system(Array(#"{"type":"system","event":"restored"}"#.utf8)) == "restored")
    }

    @Test("a refusal says what to do")
    func refusals() {
        let body = #"{"error":{"code":"rateLimited","message":"too fast","retryAfter":2500}}"#
        #expect(RefusalText.http(status: 429, Array(body.utf8)) == "rateLimited: too fast\nTry again in 3 s.")
        let key = RefusalText.http(status: 401, Array(#"{"error":{"code":"unauthenticated","message":"no key"}}"#.utf8))
        #expect(key.hasPrefix("unauthenticated: no key\nSet HUB_API_KEY"))
        #expect(RefusalText.http(status: 404, Array("<html>".utf8)) == "HTTP 404 without an explanation\nIs the URL that of a hub?")
    }

    @Test(
        "lengths of time",
        arguments: [(0, "0 s"), (59_999, "59 s"), (60_000, "1 min"), (7_200_000, "2 h"), (172_800_000, "2 d")] as [(UInt64, String)])
    func times(_ milliseconds: UInt64, _ text: String) { #expect(SpokenTime.text(milliseconds: milliseconds) == text) }
}
