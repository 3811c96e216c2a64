import HubBase
import HubRedis
import Testing

@Suite("When a link to Redis counts as dead") struct SilenceTests {
    private let silence = Silence(after: .seconds(3))
    private func at(_ seconds: UInt64) -> Instant { Instant(nanoseconds: 1_000_000_000) + .seconds(seconds) }

    @Test("nothing at all has come for as long as it may take, since it was asked")
    func silent() {
        #expect(silence.exceeded(asked: at(10), heard: at(0), at: at(12)) == nil)
        #expect(silence.exceeded(asked: at(10), heard: at(0), at: at(13)) == .seconds(3))
    }

    @Test("a link on which answers keep coming is alive, however long its queue: dropping it would only make the queue longer")
    func busy() {
        #expect(silence.exceeded(asked: at(10), heard: at(13), at: at(14)) == nil)
        #expect(silence.exceeded(asked: at(10), heard: at(21), at: at(23)) == nil)
        #expect(silence.exceeded(asked: at(10), heard: at(13), at: at(16)) == .seconds(3))
    }

    @Test("but not for ever: something on the way may give one kind of answers only")
    func oneKind() {
        #expect(silence.exceeded(asked: at(10), heard: at(24), at: at(24)) == nil)
        #expect(silence.exceeded(asked: at(10), heard: at(25), at: at(25)) == Silence.atMost)
    }
}
