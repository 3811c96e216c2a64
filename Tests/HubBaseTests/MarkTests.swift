import HubBase
import Testing

/// Eight characters of chance: epochs and tags.
@Suite struct MarkTests {
    @Test("40 bits of chance become eight characters of the alphabet, lowest bits first")
    func vectors() {
        #expect(Mark(chance: 0).description == "aaaaaaaa")
        #expect(Mark(chance: .max).description == "77777777")
        #expect(Mark(chance: 1).description == "baaaaaaa")
        #expect(Mark(chance: 31 << 35).description == "aaaaaaa7")
        #expect(Mark(chance: 1 << 40) == Mark(chance: 0), "the rest of the bits say nothing")
    }

    @Test("a mark is read back from its text, and none from nothing")
    func roundTrip() {
        var chance = Chance(seed: 1)
        for _ in 0..<1_000 {
            let mark = chance.mark()
            #expect(mark != .none)
            #expect(Mark(mark.description) == mark)
            var buffer = ByteBuffer(capacity: 1)
            mark.append(to: &buffer)
            #expect(buffer.copyBytes() == Array(mark.description.utf8))
        }
        #expect(Mark("") == Mark.none && Mark.none.description == "")
        var buffer = ByteBuffer(capacity: 1)
        Mark.none.append(to: &buffer)
        #expect(buffer.copyBytes().isEmpty)
    }

    @Test(
        "only eight of a-z and 0-9 are a mark",
        arguments: ["a", "abcdefg", "abcdefghi", "Abcdefgh", "abcdefg.", "abcdefg ", "abcdefg\u{0}", "abcdefé"])
    func refused(text: String) {
        #expect(Mark(text) == nil)
    }

    @Test("digits 0, 1, 8 and 9 are read although we never write them: other versions may")
    func digits() {
        #expect(Mark("01890189")?.description == "01890189")
    }
}
