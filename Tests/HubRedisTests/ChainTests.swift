import HubBase
import HubCore
import HubRedis
import HubWire
import Testing

@Suite struct ChainTests {
    static func at(_ offset: UInt64, _ tag: String, epoch: String = "epochaaa") -> Position {
        Position(epoch: Mark(epoch) ?? .none, offset: offset, tag: Mark(tag) ?? .none)
    }
    static func mark(_ text: String) -> Mark { Mark(text) ?? .none }

    /// A chain that stands at offset 5 with tag t5, settled.
    static func standing() -> Chain {
        var chain = Chain()
        _ = chain.judge(at(5, "taaaaaa5"), previous: mark("taaaaaa4"), pongs: 0)
        return chain
    }

    @Test("the message that continues epoch, offset and tag is delivered, redis-design §4")
    func continues() {
        var chain = Self.standing()
        #expect(chain.judge(Self.at(6, "taaaaaa6"), previous: Self.mark("taaaaaa5"), pongs: 0) == .deliver)
        #expect(chain.position == Self.at(6, "taaaaaa6"))
    }

    @Test("the same offset and tag is dropped")
    func same() {
        var chain = Self.standing()
        #expect(chain.judge(Self.at(5, "taaaaaa5"), previous: Self.mark("taaaaaa4"), pongs: 9) == .drop)
        #expect(chain.position == Self.at(5, "taaaaaa5"))
    }

    struct Break: Sendable, CustomTestStringConvertible {
        var what: String
        var next: Position
        var previous: String
        var reason: ResyncReason
        var testDescription: String { what }
    }

    static let broken: [Break] = [
        Break(what: "a gap", next: at(7, "taaaaaa7"), previous: "taaaaaa6", reason: .gap),
        Break(what: "the next offset behind another tag", next: at(6, "tbbbbbb6"), previous: "tbbbbbb5", reason: .epochChanged),
        Break(what: "the same offset with another tag", next: at(5, "tbbbbbb5"), previous: "taaaaaa4", reason: .epochChanged),
        Break(what: "an earlier offset", next: at(3, "tbbbbbb3"), previous: "taaaaaa2", reason: .epochChanged),
        Break(what: "another epoch", next: at(6, "taaaaaa6", epoch: "epochbbb"), previous: "taaaaaa5", reason: .epochChanged),
        Break(what: "a new epoch's first", next: at(1, "tbbbbbb1", epoch: "epochbbb"), previous: "", reason: .epochChanged),
    ]

    @Test("anything else is a resync from just before it, and it's delivered; the order holds from there", arguments: broken)
    func breaks(_ one: Break) {
        var chain = Self.standing()
        let before = Position(epoch: one.next.epoch, offset: one.next.offset - 1, tag: Self.mark(one.previous))
        #expect(chain.judge(one.next, previous: Self.mark(one.previous), pongs: 9) == .resync(from: before, one.reason))
        let after = Position(epoch: one.next.epoch, offset: one.next.offset + 1, tag: Self.mark("tcccccc9"))
        #expect(chain.judge(after, previous: one.next.tag, pongs: 9) == .deliver)
    }

    @Test("a channel that had none is continued by offset 1 of its generation, and by nothing else")
    func first() {
        var chain = Chain()
        #expect(chain.read(.origin(Self.mark("generat1")), pings: 0) == nil)
        var late = chain
        let other = chain
        #expect(chain.judge(Self.at(1, "taaaaaa1"), previous: Self.mark("generat1"), pongs: 1) == .deliver)
        for previous in ["generat2", ""] {
            var chain = other
            let before = Position(epoch: Self.mark("epochaaa"), offset: 0, tag: Self.mark(previous))
            #expect(
                chain.judge(Self.at(1, "taaaaaa1"), previous: Self.mark(previous), pongs: 1) == .resync(from: before, .epochChanged))
        }
        #expect(
            late.judge(Self.at(2, "taaaaaa2"), previous: Self.mark("taaaaaa1"), pongs: 1)
                == .resync(from: Self.at(1, "taaaaaa1"), .gap))
    }

    @Test("a position that is read is what messages continue; those from before it may come late, until the next pong")
    func settling() {
        var chain = Chain()
        #expect(chain.read(Self.at(5, "taaaaaa5"), pings: 3) == nil)
        #expect(chain.judge(Self.at(4, "taaaaaa4"), previous: Self.mark("taaaaaa3"), pongs: 3) == .drop)
        #expect(chain.judge(Self.at(5, "taaaaaa5"), previous: Self.mark("taaaaaa4"), pongs: 3) == .drop)
        #expect(chain.judge(Self.at(6, "taaaaaa6"), previous: Self.mark("taaaaaa5"), pongs: 3) == .deliver)
        // Once a message from there on has come, an earlier one is a history that was rolled back.
        let verdict = chain.judge(Self.at(4, "tbbbbbb4"), previous: Self.mark("taaaaaa3"), pongs: 3)
        #expect(verdict == .resync(from: Self.at(3, "taaaaaa3"), .epochChanged))
    }

    @Test("when the link is proved to have brought all from before the position, an earlier one is no longer a late one")
    func settled() {
        var chain = Chain()
        #expect(chain.read(Self.at(5, "taaaaaa5"), pings: 3) == nil)
        let verdict = chain.judge(Self.at(4, "tbbbbbb4"), previous: Self.mark("taaaaaa3"), pongs: 4)
        #expect(verdict == .resync(from: Self.at(3, "taaaaaa3"), .epochChanged))
    }

    @Test("after a re-link the position that is read tells whether anything was missed")
    func relink() {
        var same = Self.standing()
        #expect(same.read(Self.at(5, "taaaaaa5"), pings: 0) == nil)
        var missed = Self.standing()
        #expect(missed.read(Self.at(8, "taaaaaa8"), pings: 0) == .linkLost)
        #expect(missed.position == Self.at(8, "taaaaaa8"))
        var rolledBack = Self.standing()
        #expect(rolledBack.read(Self.at(4, "taaaaaa4"), pings: 0) == .epochChanged)
        var diverged = Self.standing()
        #expect(diverged.read(Self.at(5, "tbbbbbb5"), pings: 0) == .epochChanged)
        var lost = Self.standing()
        #expect(lost.read(.start, pings: 0) == .epochChanged)
        var born = Chain()
        _ = born.read(.start, pings: 0)
        #expect(born.read(Self.at(2, "taaaaaa2"), pings: 0) == .linkLost)
    }
}
