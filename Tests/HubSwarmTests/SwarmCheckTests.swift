import HubBase
import HubCheck
import HubClient
import HubSwarm
import HubWire
import Testing

@Suite("The swarm's checker: what hubs say, against what bots said")
struct SwarmCheckTests {
    private let room: Name = "swarm:r.1"
    private let payload = #"{"run":1,"bot":0,"sequence":1,"scheduled":7}"#

    private func id(_ number: Int) -> Name { Name(trusted: Array("m\(number)".utf8)) }
    private func place(_ offset: Int) -> String { "abcdefgh.\(offset).aaaaaaa\(offset)" }

    private func position(_ offset: Int) -> Position {
        Array(place(offset).utf8).withUnsafeBytes { Position(text: $0) } ?? .start
    }

    /// Bot 0 says some, and bot 1 is subscribed from the beginning on.
    private func made(says count: Int = 3) -> SwarmCheck {
        var check = SwarmCheck(seats: 2)
        check.joined(room, at: .start, recovered: nil, hasMore: false, isPage: false, by: 1, seat: 1)
        for number in 1...count {
            check.sent(id(number), to: room, .chat, user: "ann", device: "d0", payload: Array(payload.utf8), by: 0)
            scan(ack(number)) { check.acknowledged(id(number), $0, $1, at: position(number), by: 0) }
        }
        return check
    }

    private func ack(_ offset: Int) -> String {
        #"{"type":"ack","id":1,"channel":"swarm:r.1","messageId":"m\#(offset)","offset":\#(offset),"position":"\#(place(offset))"}"#
    }

    private func chat(_ offset: Int) -> String {
        #"{"type":"chat","channel":"swarm:r.1","offset":\#(offset),"position":"\#(place(offset))","user":"ann","device":"d0","time":1,"messageId":"m\#(offset)","payload":\#(payload)}"#
    }

    private func scan(_ text: String, _ body: (ServerEnvelope, UnsafeRawBufferPointer) -> Void) {
        Array(text.utf8).withUnsafeBytes { bytes in
            guard let envelope = try? ServerEnvelope.scan(bytes, depthMax: 16) else {
                Issue.record("not an envelope: \(text)")
                return
            }
            body(envelope, bytes)
        }
    }

    private func hear(_ texts: [String], _ check: inout SwarmCheck) {
        for text in texts { scan(text) { check.received(room, $0, $1, by: 1, seat: 1) } }
    }

    @Test("what comes as it was said is clean")
    func clean() {
        var check = made()
        hear([chat(1), chat(2), chat(3)], &check)
        #expect(check.finish().isClean)
    }

    @Test(
        "another payload, sender, device, type, offset or messageId than was said contradicts",
        arguments: [
            (#""sequence":1"#, #""sequence":2"#), (#"{"run":1,"bot":0,"sequence":1,"scheduled":7}"#, #"{"zzz":1}"#),
            (#""user":"ann""#, #""user":"mallory""#),
            (#""user":"ann","#, ""), (#""device":"d0""#, #""device":"d1""#), (#""type":"chat""#, #""type":"event""#),
            (#""offset":2"#, #""offset":3"#), (#""messageId":"m2""#, #""messageId":"x2""#),
        ])
    func changed(_ field: String, _ other: String) {
        var check = made()
        let second = chat(2)
        let changed = second.replacing(field, with: other)
        #expect(changed != second)
        hear([chat(1), changed, chat(3)], &check)
        #expect(check.finish().counts == [.contradiction: 1])
    }

    @Test("the same in what was missed")
    func changedInAPage() {
        var check = made()
        hear([chat(1)], &check)
        check.ended(1, .closed(code: 1000, reason: ""), isOwnDoing: true, seats: 1..<2)
        for text in [chat(2).replacing("ann", with: "mallory"), chat(3)] { scan(text) { check.missed(room, $0, $1, by: 1, seat: 1) } }
        check.joined(room, at: position(3), recovered: true, hasMore: false, isPage: false, by: 1, seat: 1)
        #expect(check.finish().counts == [.contradiction: 1])
    }

    @Test(
        "an ack with another offset than its position's, another messageId or another channel contradicts",
        arguments: [
            (#""offset":1"#, #""offset":2"#), (#""messageId":"m1""#, #""messageId":"nonsense""#), (#""messageId":"m1","#, ""),
            (#""channel":"swarm:r.1""#, #""channel":"swarm:r.2""#),
        ])
    func acknowledged(_ field: String, _ other: String) {
        var check = SwarmCheck(seats: 2)
        check.joined(room, at: .start, recovered: nil, hasMore: false, isPage: false, by: 1, seat: 1)
        check.sent(id(1), to: room, .chat, user: "ann", device: "d0", payload: Array(payload.utf8), by: 0)
        scan(ack(1).replacing(field, with: other)) { check.acknowledged(id(1), $0, $1, at: position(1), by: 0) }
        hear([chat(1)], &check)
        #expect(check.finish().counts == [.contradiction: 1])
    }

    @Test("what comes again late doesn't take the bot back: it comes back from where it was")
    func lateDuplicate() {
        var check = made()
        hear([chat(1), chat(2), chat(1)], &check)
        check.ended(1, .closed(code: 1000, reason: ""), isOwnDoing: true, seats: 1..<2)
        scan(chat(3)) { check.missed(room, $0, $1, by: 1, seat: 1) }
        check.joined(room, at: position(3), recovered: true, hasMore: false, isPage: false, by: 1, seat: 1)
        #expect(check.finish().counts == [.twice: 1])
    }

    @Test("what comes before the subscription's answer, or in no room of the bot, is unasked")
    func unasked() {
        var check = made(says: 1)
        hear([chat(1)], &check)
        check.ended(1, .closed(code: 1000, reason: ""), isOwnDoing: true, seats: 1..<2)
        scan(chat(2)) { check.received(room, $0, $1, isEarly: true, by: 1, seat: 1) }
        scan(chat(2).replacing("swarm:r.1", with: "swarm:r.9")) { check.unasked($0, $1, by: 1) }
        check.unasked("presence", by: 1)
        #expect(check.finish().count(.unasked) == 3)
    }
}

@Suite("The swarm's checker: what stands in a message, and what comes late")
struct ContentAndHolesTests {
    private func digest(_ kind: UInt8, _ user: String, _ device: String, _ payload: String) -> UInt64 {
        Array(user.utf8).withUnsafeBytes { user in
            Array(device.utf8).withUnsafeBytes { device in
                Array(payload.utf8).withUnsafeBytes { ContentDigest.of(kind, user: user, device: device, payload: $0) }
            }
        }
    }

    @Test("each field counts, with every byte of it, and where it ends")
    func digests() {
        let all = [
            digest(1, "ann", "d0", "0123456789abcdef"), digest(2, "ann", "d0", "0123456789abcdef"),
            digest(1, "bob", "d0", "0123456789abcdef"),
            digest(1, "ann", "d1", "0123456789abcdef"), digest(1, "annd", "0", "0123456789abcdef"),
            digest(1, "ann", "d00", "123456789abcdef"),
            digest(1, "ann", "d0", "1123456789abcdef"), digest(1, "ann", "d0", "0123456789abcdeg"),
            digest(1, "ann", "d0", "0123456789abcde"),
            digest(1, "ann", "d0", "89abcdef01234567"), digest(1, "", "", ""),
        ]
        #expect(Set(all).count == all.count)
        #expect(all[0] == digest(1, "ann", "d0", "0123456789abcdef"))
    }

    @Test("an offset that was passed over fills its hole once, of its own seat, until that's closed; past 64 it stays lost")
    func holes() {
        var holes = Holes()
        holes.pass(2, before: 5, seat: 1)
        for (offset, seat, isFilled) in [(3, 2, false), (2, 1, false), (5, 1, false), (3, 1, true), (3, 1, false)] as [(UInt64, Int, Bool)]
        {
            let isOne = holes.fill(offset, seat: seat)
            #expect(isOne == isFilled, "\(offset) of \(seat)")
        }
        holes.close(1)
        holes.pass(.max - 1, before: .max, seat: 3)
        holes.pass(9, before: 5, seat: 4)
        for (offset, seat, isFilled) in [(4, 1, false), (64, 3, true), (65, 3, false), (1, 4, false)] as [(UInt64, Int, Bool)] {
            let isOne = holes.fill(offset, seat: seat)
            #expect(isOne == isFilled, "\(offset) of \(seat)")
        }
    }
}
