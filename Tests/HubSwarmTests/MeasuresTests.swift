import Foundation
import HubBase
import HubSwarm
import Testing

@Suite("A run's measures")
struct MeasuresTests {
    /// A share that began at `second`, with one message of 1 ms delivered in each of its seconds.
    static func share(second: UInt64 = 0, seconds: Int = 3, latency: UInt64 = 1_000_000) -> Measures {
        var measures = Measures()
        measures.bots = 10
        measures.began = Instant(nanoseconds: (100 + second) * 1_000_000_000)
        measures.measured = .seconds(UInt64(seconds))
        var recorder = MeasuresRecorder(measures, lanes: [Measures.Lane("chat")], ownCPU: 0)
        recorder.measure(from: measures.began, to: measures.began + .seconds(UInt64(seconds)))
        for index in 0..<seconds {
            let due = measures.began + .seconds(UInt64(index)) + .milliseconds(500)
            recorder.sent(due: due.nanoseconds, at: due.nanoseconds + 1000, isLate: true)
            recorder.delivered(lane: 0, due: due.nanoseconds, at: due.nanoseconds + latency)
            recorder.failed("rateLimited")
            _ = recorder.close(at: measures.began + .seconds(UInt64(index + 1)), connected: 10, ownCPU: UInt64(index + 1) * 200_000)
        }
        recorder.set(Measures.Counter.delivered, UInt64(seconds))
        return recorder.finish(at: measures.began + .seconds(UInt64(seconds)), connected: 10, ownCPU: UInt64(seconds) * 200_000)
    }

    private static func text(_ measures: Measures) throws -> String { String(decoding: try JSONEncoder().encode(measures), as: UTF8.self) }
    private static func read(_ text: String) throws -> Measures { try JSONDecoder().decode(Measures.self, from: Data(text.utf8)) }

    @Test("what is written is read again, the same")
    func roundTrip() throws {
        let measures = Self.share()
        #expect(try Self.read(Self.text(measures)) == measures)
    }

    @Test("two shares become one run: counts and histograms are summed, seconds stand side by side")
    func merging() {
        var sum = Self.share()
        sum.merge(Self.share(latency: 5_000_000))
        #expect(sum.bots == 20 && sum.counter(Measures.Counter.delivered) == 6 && sum.errors == ["rateLimited": 6])
        #expect(sum.latency().count == 6 && sum.latency().max == 5_000_000)
        #expect(sum.series[0].connected == 20 && sum.series[0].delivered == 2 && sum.series[0].latency.count == 2)
        #expect(sum.series[1].ownCPU == 400_000 && sum.series[1].busiestCPU == 200_000)
    }

    @Test("who leaves right behind the last step was there in it")
    func leaving() {
        var blank = Measures()
        blank.began = Instant(nanoseconds: 1)
        var recorder = MeasuresRecorder(blank, lanes: [], ownCPU: 0)
        _ = recorder.close(at: blank.began + .seconds(1), connected: 10, ownCPU: 0)
        let measures = recorder.finish(at: blank.began + .milliseconds(1200), connected: 0, ownCPU: 0)
        #expect(measures.series.map(\.connected) == [10])
    }

    @Test("of counters the sum, of the longest patience the longest")
    func mergingLongest() {
        var (sum, other) = (Self.share(), Self.share())
        sum.counters["muteLongest"] = 3000
        other.counters["muteLongest"] = 5000
        other.counters["muteOpened"] = 4
        sum.merge(other)
        #expect(sum.counters["muteLongest"] == 5000 && sum.counters["muteOpened"] == 4)
        sum.merge(Self.share())
        #expect(sum.counters["muteLongest"] == 5000)
    }

    @Test("a share that began later is put where its seconds belong, whichever is merged first")
    func shifted() {
        var first = Self.share()
        first.merge(Self.share(second: 2))
        var second = Self.share(second: 2)
        second.merge(Self.share())
        for sum in [first, second] {
            #expect(sum.began == Instant(nanoseconds: 100_000_000_000))
            #expect(sum.series.prefix(5).map(\.delivered) == [1, 1, 2, 1, 1])
        }
    }

    @Test("what was due in the warm-up is in the series and not in the result, however late it came")
    func warmUp() {
        let began = Instant(nanoseconds: 1)
        var measures = Measures()
        measures.began = began
        var recorder = MeasuresRecorder(measures, lanes: [Measures.Lane("chat")], ownCPU: 0)
        recorder.measure(from: began + .seconds(1), to: began + .seconds(2))
        let inWarmUp = (began + .milliseconds(900)).nanoseconds
        recorder.delivered(lane: 0, due: inWarmUp, at: inWarmUp + 700_000_000)
        let counted = (began + .milliseconds(1100)).nanoseconds
        recorder.delivered(lane: 0, due: counted, at: counted + 5)
        let after = (began + .seconds(2)).nanoseconds
        recorder.delivered(lane: 0, due: after, at: after + 9)
        let result = recorder.finish(at: began + .seconds(3), connected: 0, ownCPU: 0)
        #expect(result.latency().count == 1 && result.latency().max == 5)
        #expect(result.series.reduce(0) { $0 + $1.delivered } == 3)
    }

    @Test("timers that come a little early or late, and the rest at the end, make no point too many and none too few")
    func punctual() {
        let began = Instant(nanoseconds: 5_000_000_000)
        var measures = Measures()
        measures.began = began
        var recorder = MeasuresRecorder(measures, lanes: [Measures.Lane("chat")], ownCPU: 0)
        for milliseconds: UInt64 in [1001, 1999, 2000, 3400, 5002] {
            recorder.sent(due: 0, at: 0, isLate: false)
            _ = recorder.close(at: began + .milliseconds(milliseconds), connected: 1, ownCPU: 0)
        }
        recorder.sent(due: 0, at: 0, isLate: false)
        let result = recorder.finish(at: began + .milliseconds(5300), connected: 0, ownCPU: 0)
        #expect(result.series.map(\.sent) == [1, 2, 1, 0, 2])
    }

    @Test("a hostile bot's latency is apart, in the result and in the series")
    func populations() {
        var recorder = MeasuresRecorder(Measures(), lanes: [Measures.Lane("chat"), Measures.Lane("chat", .hostile)], ownCPU: 0)
        recorder.measure(from: Instant(nanoseconds: 0), to: Instant(nanoseconds: 100))
        recorder.delivered(lane: 0, due: 1, at: 2)
        recorder.delivered(lane: 1, due: 1, at: 90)
        let result = recorder.finish(at: Instant(nanoseconds: 100), connected: 0, ownCPU: 0)
        #expect(result.latency().max == 1 && result.latency(Measures.Lane("chat", .hostile)).max == 89)
        #expect(result.series[0].latency.max == 1 && result.series[0].delivered == 2)
    }

    @Test("a long run has fewer and longer points, and loses nothing")
    func coarse() {
        var measures = Measures()
        for _ in 0...Measures.pointsMax {
            var point = Measures.Point()
            point.sent = 1
            point.connected = 7
            measures.append(point)
        }
        #expect(measures.step == 2 && measures.series.count == Measures.pointsMax / 2 + 1)
        #expect(measures.series.reduce(0) { $0 + $1.sent } == UInt64(Measures.pointsMax) + 1)
        #expect(measures.series[0].connected == 7)
    }

    @Test(
        "what a file says is checked",
        arguments: [
            (#""version":1"#, #""version":2"#), (#""step":1"#, #""step":3"#), (#""step":1"#, #""step":0"#),
            (#""workers":1"#, #""workers":9007199254740993"#), (#""scenario":"""#, #""scenario":7"#), (#""missing":[]"#, #""missing":[1]"#),
            (#""options":[]"#, #""options":[["a"]]"#), (#""delivered":3"#, #""delivered":-1"#),
        ])
    func refused(part: String, instead: String) throws {
        let text = try Self.text(Self.share())
        try #require(text.contains(part), "the test's own part isn't there")
        #expect(throws: DecodingError.self) { try Self.read(text.replacingOccurrences(of: part, with: instead)) }
    }

    @Test(
        "a histogram that can't be is refused: places out of order or past the end, counters of 0 or too many, a wrong maximum",
        arguments: [
            #"{"at":[5,4],"count":[1,1],"max":4}"#, #"{"at":[4,4],"count":[1,1],"max":4}"#, #"{"at":[99999999],"count":[1],"max":4}"#,
            #"{"at":[4],"count":[0],"max":4}"#, #"{"at":[4],"count":[1,2],"max":4}"#, #"{"at":[4],"count":[18446744073709551615],"max":4}"#,
            #"{"at":[4],"count":[1],"max":5}"#, #"{"at":[],"count":[],"max":5}"#, #"{"at":[-1],"count":[1],"max":5}"#,
        ])
    func histograms(text: String) {
        #expect(throws: (any Error).self) { try JSONDecoder().decode(SparseHistogram.self, from: Data(text.utf8)) }
    }

    @Test("a sparse histogram's percentiles are those of the full one, merged or not")
    func sparse() {
        var full = Histogram()
        var other = Histogram()
        var chance = Chance(seed: 3)
        for _ in 0..<5000 {
            full.record(chance.next() % 50_000_000)
            other.record(chance.next() % 5_000_000_000)
        }
        var sparse = SparseHistogram(full)
        #expect([0, 50, 99, 99.9, 100].allSatisfy { sparse.percentile($0) == full.percentile($0) })
        sparse.merge(SparseHistogram(other))
        full.merge(other)
        #expect(sparse == SparseHistogram(full) && sparse.count == full.count && sparse.max == full.max)
        var again = Histogram()
        again.merge(sparse)
        #expect(again == full)
    }

    @Test("a hub that makes up codes doesn't fill the memory: past a thousand names they're counted together")
    func names() {
        var counts: [String: UInt64] = [:]
        for index in 0..<2000 { Measures.add(["code\(index)": 1], to: &counts) }
        #expect(counts.count <= Measures.namesMax && counts.values.reduce(0, +) == 2000)
    }
}
