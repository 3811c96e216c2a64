import HubBase
import HubCore
import Testing

@Suite("what nodes say to each other")
struct ControlMessageTests {
    private static let post = StreamPost(
        connection: "rsxdpqu6wmqc-jpia9pw854w", proof: Array("3c2c864c3f4ac1cce02cda6cc3453cc9".utf8),
        body: Array("{\"type\":\"ping\"}\n::\u{0}{}".utf8), isSingle: false)
    private static var single: StreamPost {
        var post = post
        post.isSingle = true
        return post
    }

    private func parse(_ text: [UInt8], bodyMax: Int = 64) -> ControlMessage? {
        text.withUnsafeBytes { ControlMessage($0, bodyMax: bodyMax) }
    }
    private func parse(_ text: String) -> ControlMessage? { parse(Array(text.utf8)) }

    @Test("a post and an answer, as they're written")
    func written() {
        let message = ControlMessage.post(Self.single, number: 7, from: "abc234")
        #expect(
            String(decoding: message.bytes(), as: UTF8.self)
                == "P:abc234:7:rsxdpqu6wmqc-jpia9pw854w:3c2c864c3f4ac1cce02cda6cc3453cc9:1:{\"type\":\"ping\"}\n::\u{0}{}")
        #expect(ControlMessage.answer(.unknown, number: 9, from: "abc").bytes() == Array("A:abc:9:unknown".utf8))
    }

    @Test("what is written is read, whatever the body")
    func read() {
        for message in [
            ControlMessage.post(Self.post, number: 1, from: "a"), .post(Self.single, number: ControlMessage.numberMax - 1, from: "z9"),
            .ask("rsxdpqu6wmqc-jpia9pw854w", number: 3, from: "abc"), .told(.gone, number: 4, from: "abc"),
            .told(.facts(ConnectionFacts(address: Array("[::1]:1234".utf8), heardAgo: 1_200)), number: 4, from: "abc"),
            .told(.facts(ConnectionFacts(address: [], heardAgo: 0)), number: 4, from: "abc"), .hooksLetGo(from: "abc"),
        ] + StreamPostOutcome.allCases.map({ ControlMessage.answer($0, number: 5, from: "abc") }) {
            #expect(parse(message.bytes()) == message)
        }
    }

    @Test(
        "what isn't ours is nothing",
        arguments: [
            "", "P", "P:", ":", "Q:abc:1:", "PP:abc:1:c:p:n:", "P:ABC:1:c:p:n:", "P::1:c:p:n:", "P:abc::c:p:n:", "P:abc:x:c:p:n:",
            "P:abc:-1:c:p:n:",
            "P:abc:9007199254740992:c:p:n:", "P:abc:99999999999999999:c:p:n:", "P:abc:1::p:n:", "P:abc:1:c:p:x:", "P:abc:1:c:p::",
            "P:abc:1:c:p:n",
            "P:a.c:1:c:p:n:", "A:abc:1:", "A:abc:1:takenx", "A:abc:1", "A:abc:1:tak", "E:whatever",
            "Q:abc:1", "F:abc:1:", "F:abc:1:x", "F:abc:1:gg", "F:abc:1:h", "F:abc:1:h:", "F:abc:1:h:3", "F:abc:1:h:x:a", "F:abc:1:h:-1:a",
            "F:abc:1:h:3:a\u{0}b",
        ])
    func foreign(_ text: String) { #expect(parse(text) == nil) }

    @Test("a body above the limit, and a field that doesn't end, are nothing")
    func bounds() {
        let message = ControlMessage.post(Self.post, number: 1, from: "a").bytes()
        #expect(parse(message, bodyMax: Self.post.body.count) != nil)
        #expect(parse(message, bodyMax: Self.post.body.count - 1) == nil)
        #expect(parse("P:" + String(repeating: "a", count: 33) + ":1:c:p:n:") == nil)
        #expect(parse("P:abc:1:" + String(repeating: "c", count: 65) + ":p:n:") == nil)
        #expect(parse("P:abc:1:c:" + String(repeating: "p", count: 65) + ":n:") == nil)
        #expect(parse(String(repeating: "x", count: 1_000_000)) == nil)
    }

    @Test("no damage traps, and what is still read is written the same", arguments: 0..<8 as Range<UInt64>)
    func mutations(seed: UInt64) {
        var chance = Chance(seed: seed)
        let seeds = [
            ControlMessage.post(Self.post, number: 12, from: "abc").bytes(), ControlMessage.answer(.late, number: 3, from: "abc").bytes(),
        ]
        for _ in 0..<5000 {
            var bytes = seeds.randomElement(using: &chance)!
            for _ in 0..<Int.random(in: 1...3, using: &chance) {
                let place = Int.random(in: 0..<bytes.count, using: &chance)
                switch Int.random(in: 0..<4, using: &chance) {
                case 0: bytes[place] = UInt8.random(in: .min ... .max, using: &chance)
                case 1 where bytes.count > 1: bytes.remove(at: place)
                case 2: bytes.insert(UInt8(ascii: ":"), at: place)
                default: bytes.insert(contentsOf: bytes[place...].prefix(8), at: place)
                }
            }
            // Numbers may be written with leading zeros; ours aren't.
            if let message = parse(bytes, bodyMax: 128) { #expect(parse(message.bytes(), bodyMax: 128) == message) }
        }
    }
}
