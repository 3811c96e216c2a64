import HubBase
import HubCore
import Testing

@Suite("posts that other nodes are to answer")
struct PostExchangeTests {
    private let start = Instant(nanoseconds: 1_000_000_000)
    private let post = StreamPost(connection: "north-1", proof: [], body: [1, 2, 3], isSingle: false)
    private func tag(_ number: UInt64) -> RequestTag { RequestTag(high: 0, low: number) }

    @Test("an answer from the node that was asked ends it; others' answers, and second ones, are nobody's")
    func answered() {
        var exchange = PostExchange()
        #expect(exchange.begin(post, to: "north", tag: tag(1), at: start) == .send(post, number: 1, to: "north"))
        #expect(exchange.sent(1, .heard(1), at: start) == nil)
        #expect(exchange.answered(.taken, 1, by: "south") == nil)
        #expect(exchange.answered(.taken, 2, by: "north") == nil)
        #expect(exchange.answered(.taken, 1, by: "north") == .tell(.taken, tag: tag(1)))
        #expect(exchange.answered(.taken, 1, by: "north") == nil)
        #expect(exchange.advance(at: start + .seconds(60)).isEmpty && exchange.count == 0)
    }

    @Test("heard and not answered by the deadline: late, and never sent twice")
    func late() {
        var exchange = PostExchange()
        _ = exchange.begin(post, to: "north", tag: tag(1), at: start)
        _ = exchange.sent(1, .heard(1), at: start)
        #expect(exchange.advance(at: start + .milliseconds(2999)).isEmpty)
        #expect(exchange.advance(at: start + .seconds(3)) == [.tell(.late, tag: tag(1))])
        // Nothing is known of one whose sending isn't confirmed either.
        _ = exchange.begin(post, to: "north", tag: tag(2), at: start)
        #expect(exchange.advance(at: start + .seconds(3)) == [.tell(.late, tag: tag(2))])
    }

    @Test("the link was lost after it left: the answer may still come, it's never sent twice, and late without one")
    func uncertain() {
        var exchange = PostExchange()
        for number in 1...2 as ClosedRange<UInt64> { _ = exchange.begin(post, to: "north", tag: tag(number), at: start) }
        // Also after it wasn't heard at first.
        _ = exchange.sent(1, .heard(0), at: start)
        _ = exchange.advance(at: start + .milliseconds(250))
        for number in 1...2 as ClosedRange<UInt64> { #expect(exchange.sent(number, .uncertain, at: start + .milliseconds(260)) == nil) }
        #expect(exchange.advance(at: start + .milliseconds(2900)).isEmpty)
        #expect(exchange.answered(.taken, 2, by: "north") == .tell(.taken, tag: tag(2)))
        #expect(exchange.advance(at: start + .seconds(3)) == [.tell(.late, tag: tag(1))])
    }

    @Test("nobody heard it: sent again until somebody does, unknown at the deadline")
    func unheard() {
        var exchange = PostExchange()
        _ = exchange.begin(post, to: "north", tag: tag(1), at: start)
        #expect(exchange.sent(1, .heard(0), at: start) == nil)
        #expect(exchange.advance(at: start + .milliseconds(249)).isEmpty)
        #expect(exchange.advance(at: start + .milliseconds(250)) == [.send(post, number: 1, to: "north")])
        #expect(exchange.advance(at: start + .milliseconds(600)).isEmpty, "the first hasn't been confirmed yet")
        _ = exchange.sent(1, .heard(0), at: start + .milliseconds(700))
        #expect(exchange.advance(at: start + .milliseconds(950)) == [.send(post, number: 1, to: "north")])
        _ = exchange.sent(1, .heard(0), at: start + .milliseconds(960))
        #expect(exchange.advance(at: start + .seconds(3)) == [.tell(.unknown, tag: tag(1))])

        _ = exchange.begin(post, to: "north", tag: tag(2), at: start)
        _ = exchange.sent(2, .heard(0), at: start)
        _ = exchange.advance(at: start + .milliseconds(250))
        _ = exchange.sent(2, .heard(1), at: start + .milliseconds(251))
        #expect(exchange.advance(at: start + .milliseconds(2900)).isEmpty)
        #expect(exchange.advance(at: start + .seconds(3)) == [.tell(.late, tag: tag(2))])
    }

    @Test("what is on its way again at the deadline is late, not unknown; nothing is sent again so late that it would be")
    func onItsWay() {
        var exchange = PostExchange()
        for number in 1...2 as ClosedRange<UInt64> {
            _ = exchange.begin(post, to: "north", tag: tag(number), at: start)
            _ = exchange.sent(number, .heard(0), at: start + .milliseconds(number == 1 ? 2500 : 2501))
        }
        #expect(exchange.advance(at: start + .milliseconds(2750)) == [.send(post, number: 1, to: "north")])
        #expect(exchange.advance(at: start + .milliseconds(2751)).isEmpty)
        #expect(exchange.advance(at: start + .seconds(3)) == [.tell(.late, tag: tag(1)), .tell(.unknown, tag: tag(2))])
    }

    @Test("the way is cut: refused at once. Alone, nobody to hear it means unknown at once")
    func refused() {
        var exchange = PostExchange()
        _ = exchange.begin(post, to: "north", tag: tag(1), at: start)
        #expect(exchange.sent(1, .refused, at: start) == .tell(.refused, tag: tag(1)))
        var alone = PostExchange(isAlone: true)
        _ = alone.begin(post, to: "north", tag: tag(1), at: start)
        #expect(alone.sent(1, .heard(0), at: start) == .tell(.unknown, tag: tag(1)))
    }

    @Test("bounded in number and bytes, and made-up keys can't keep others out")
    func bounds() {
        var exchange = PostExchange()
        for number in 1...UInt64(PostExchange.postsMax) {
            #expect(exchange.begin(post, to: "north", tag: tag(number), at: start) != nil)
        }
        #expect(exchange.begin(post, to: "north", tag: tag(0), at: start) == nil)
        for number in 1...UInt64(PostExchange.postsMax) {
            let told = exchange.sent(number, .heard(0), at: start)
            #expect((told == nil) == (number <= UInt64(PostExchange.unheardMax)))
        }
        #expect(exchange.count == PostExchange.unheardMax)
        #expect(exchange.begin(post, to: "north", tag: tag(0), at: start) != nil)

        var large = post
        large.body = [UInt8](repeating: 0, count: PostExchange.bytesMax / 2)
        var heavy = PostExchange()
        #expect(heavy.begin(large, to: "north", tag: tag(1), at: start) != nil)
        #expect(heavy.begin(large, to: "north", tag: tag(2), at: start) != nil)
        #expect(heavy.begin(post, to: "north", tag: tag(3), at: start) == nil)
        // One that was heard keeps its place, not its bytes; one that ended keeps nothing.
        _ = heavy.sent(1, .heard(1), at: start)
        #expect(heavy.begin(post, to: "north", tag: tag(3), at: start) != nil)
        #expect(heavy.begin(large, to: "north", tag: tag(4), at: start) == nil)
        _ = heavy.answered(.taken, 2, by: "north")
        #expect(heavy.begin(large, to: "north", tag: tag(4), at: start) != nil)
        #expect(heavy.count == 3)
    }
}
