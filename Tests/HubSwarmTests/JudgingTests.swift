import HubBase
import HubSwarm
import Testing

@Suite("Judging a run by expectations")
struct JudgingTests {
    private static func measures(_ change: (inout Measures) -> Void = { _ in }) -> Measures {
        var measures = Measures()
        measures.bots = 100
        measures.measured = .seconds(10)
        measures.counters = ["joined": 100, "sent": 1000, "acknowledged": 1000, "delivered": 10_000, "expected": 10_000]
        var histogram = Histogram()
        for value in 1...1000 { histogram.record(UInt64(value) * 100_000) }
        measures.lanes[Measures.Lane("chat")] = SparseHistogram(histogram)
        measures.lanes[Measures.Lane("ack")] = SparseHistogram(Histogram())
        change(&measures)
        return measures
    }

    @Test(
        "each measure, each comparison, each unit",
        arguments: [
            ("p99<100ms", true), ("p99<98ms", false), ("p50<=50.1ms", true), ("p99.9 < 0.1s", true), ("max<=100ms", true),
            ("max<100ms", false),
            ("p50>40000us", true), ("chat.p99<100ms", true), ("loss=0", true), ("lost==0", true), ("loss<=0.1%", true),
            ("duplicated=0", true),
            ("violations=0", true), ("violations.staleAway=0", true), ("errors<=0.1%", false), ("errors=5", true), ("errors!=5", false),
            ("errors.rateLimited=3", true), ("errors.other=0", true), ("joined>=100%", true), ("joined=100", true), ("sent/s>=100", true),
            ("delivered/s>1001", false), ("delivered=100%", true), ("ends=0", true), ("reconnects<1", true),
        ])
    func judged(text: String, isKept: Bool) throws {
        let measures = Self.measures { $0.errors = ["rateLimited": 3, "timeout": 2] }
        let judgement = try Expectation(text).judge(measures)
        #expect(judgement.isKept == isKept, "\(judgement)")
        #expect(!judgement.measured.isEmpty)
    }

    @Test(
        "nothing measured keeps no promise about it",
        arguments: ["p99<1s", "typing.max<1s", "ack.p50<1s", "loss=0", "violations=0", "errors=0", "loss<=1%", "joined>=0%"])
    func nothing(text: String) throws { #expect(try !Expectation(text).judge(Measures()).isKept) }

    @Test(
        "what isn't an expectation is refused, with what's wrong and what was probably meant",
        arguments: [
            ("p99", "isn't a comparison"), ("p99<50", "compared with a time"), ("loss<5ms", "not a time"), ("p99<x", "isn't a number"),
            ("p99<-5ms", "isn't a number"), ("p99<infs", "isn't a number"), ("p99<0x10ms", "isn't a number"),
            ("p101<5ms", "nothing that's measured"),
            ("dupplicated=0", "did you mean duplicated"), ("", "empty"), ("loss=0,,p99<1s", "empty"), ("sent/s>1%", "a rate"),
            ("sent>1%", "percentage of"), ("hostile.p99<1s", "name the class"), ("=5", "nothing that's measured"),
            ("violations.lsot=0", "did you mean lost"), ("violations.=0", "isn't a kind of violation"),
            ("violations.gap=0", "there are contradiction, duplicated"), ("errors.ratelimited=0", "did you mean rateLimited"),
            ("errors.nonsense=0", "isn't an error's code"), ("unsnet=0", "did you mean unsent"),
        ])
    func refused(text: String, why: String) {
        let error = #expect(throws: CommandLineError.self) { try Expectation.parse(text) }
        #expect(error?.description.contains(why) == true, "\(error?.description ?? "")")
    }

    @Test("several with commas; all must be kept")
    func several() throws {
        let all = try Expectation.parse("loss=0, p99<50ms ,errors<=0.1%")
        #expect(all.map(\.text) == ["loss=0", "p99<50ms", "errors<=0.1%"])
        let judging = Judging(Self.measures(), expectations: all)
        #expect(!judging.isKept && judging.judgements.map(\.isKept) == [true, false, true])
        #expect(judging.text.contains("BROKEN  p99<50ms") && judging.text.contains("FAILED: 1 of 3 expectations broken"))
        #expect(judging.text.contains("99"))
    }

    @Test("expectations alone decide: violations that nobody asked about don't")
    func alone() throws {
        let measures = Self.measures { $0.violations = ["lost": 3] }
        #expect(!Judging(measures, expectations: []).isKept)
        #expect(Judging(measures, expectations: try Expectation.parse("p99<1s")).isKept)
        #expect(!Judging(measures, expectations: try Expectation.parse("p99<1s,loss=0")).isKept)
    }

    @Test("a run with a share missing isn't whole, whatever was kept")
    func missing() throws {
        let measures = Self.measures { $0.missing = ["worker 2 of 3 ended by signal 9: its share is missing"] }
        let judging = Judging(measures, expectations: try Expectation.parse("loss=0"))
        #expect(!judging.isKept && judging.text.contains("worker 2") && judging.text.contains("FAILED"))
    }

    /// Each says that the run proves less than its figures seem to, with a name that an expectation has for it.
    private static let gaps: [(change: @Sendable (inout Measures) -> Void, name: String)] = [
        ({ $0.errors = ["unsent": 429] }, "unsent<500"), ({ $0.errors = ["unsent": 429] }, "errors.unsent<500"),
        ({ $0.errors = ["unsent": 4] }, "errors<=1%"), ({ $0.errors = ["unanswered": 1] }, "unanswered<=1"),
        ({ $0.errors = ["timeout": 1] }, "errors.timeout=1"), ({ $0.counters["joined"] = 99 }, "joined>=99%"),
        ({ $0.counters["cutOff"] = 1 }, "cutOff=1"), ({ $0.counters["acknowledged"] = 0 }, "acknowledged=0"),
    ]

    @Test("what couldn't be sent, joined, answered or come back fails whatever was expected, unless an expectation names it")
    func unproved() throws {
        for (change, name) in Self.gaps {
            let measures = Self.measures(change)
            #expect(!Judging(measures, expectations: []).isKept)
            let judging = Judging(measures, expectations: try Expectation.parse("loss=0,p99<1s"))
            #expect(!judging.isKept && judging.judgements.allSatisfy(\.isKept), "\(name)")
            #expect(judging.text.contains("FAILED") && !judging.text.contains("OK"))
            #expect(Judging(measures, expectations: try Expectation.parse("loss=0,\(name)")).isKept, "\(name)")
        }
    }

    @Test("who was interrupted before anything counted has proved nothing, whatever was expected, and whoever was seen before")
    func interruptedEarly() throws {
        let measures = Self.measures {
            $0.isInterrupted = true
            $0.warmUp = .seconds(3)
            $0.measured = .seconds(2)
            $0.counters = ["joined": 100, "presenceTold": 500]
        }
        for list in [[], try Expectation.parse("joined=100%")] {
            let judging = Judging(measures, expectations: list)
            #expect(!judging.isKept && judging.text.contains("nothing is proved"))
        }
    }

    @Test("who only joins needs no message, where that was all that was expected")
    func idle() throws {
        let measures = Self.measures { $0.counters = ["joined": 100] }
        #expect(Judging(measures, expectations: try Expectation.parse("joined=100%")).isKept)
        #expect(!Judging(measures, expectations: []).isKept)
    }

    @Test("a percentage of errors is of requests, of which messages are the fewest")
    func shareOfRequests() throws {
        let measures = Self.measures {
            $0.errors = ["rateLimited": 5]
            $0.counters["requests"] = 10_000
        }
        let judgement = try Expectation("errors<=0.1%").judge(measures)
        #expect(judgement.isKept && judgement.measured.contains("(5 of 10,000)"), "\(judgement)")
    }

    @Test("without expectations: lost, not joined, not sent, nothing proved all fail")
    func unclean() {
        #expect(Judging(Self.measures(), expectations: []).isKept)
        let broken: [(inout Measures) -> Void] = [
            { $0.violations = ["lost": 1] }, { $0.counters["joined"] = 99 }, { $0.errors = ["unsent": 1] },
            { $0.counters["acknowledged"] = 0 },
        ]
        for change in broken { #expect(!Judging(Self.measures(change), expectations: []).isKept) }
    }

    @Test("a generator without processor time left, or late by its own fault, is told; one of six is enough")
    func generator() {
        func measures(own: UInt64, busiest: UInt64?, lag: UInt64) -> Measures {
            var measures = Self.measures { $0.workers = 6 }
            for _ in 0..<10 {
                var point = Measures.Point()
                point.ownCPU = own
                point.busiestCPU = busiest
                point.hubCPU = 500_000
                point.lag = lag
                measures.append(point)
            }
            return measures
        }
        #expect(Bottleneck(measures(own: 300_000, busiest: nil, lag: 1000)).generator == nil)
        #expect(Bottleneck(measures(own: 950_000, busiest: nil, lag: 1000)).generator?.contains("95.0 %") == true)
        #expect(Bottleneck(measures(own: 1_500_000, busiest: 900_000, lag: 1000)).generator?.contains("busiest of 6 workers") == true)
        #expect(Bottleneck(measures(own: 1_500_000, busiest: 300_000, lag: 1000)).generator == nil)
        #expect(Bottleneck(measures(own: 100_000, busiest: nil, lag: 80_000_000)).generator?.contains("late") == true)
        #expect(Bottleneck(measures(own: 100_000, busiest: nil, lag: 1000)).reason.contains("the hub used 50.0 %"))
    }

    @Test("a hub is busy by the cores that it can use, and a machine by all who share it")
    func cores() {
        func reason(hub: UInt64, own: UInt64, hubCores: UInt64?, machineCores: UInt64?) -> String {
            var measures = Self.measures()
            for _ in 0..<10 {
                var point = Measures.Point()
                point.hubCPU = hub
                point.ownCPU = own
                measures.append(point)
            }
            measures.hubCores = hubCores
            measures.machineCores = machineCores
            return Bottleneck(measures).reason
        }
        // Of one core, as of a file that tells none.
        #expect(reason(hub: 900_000, own: 10_000, hubCores: nil, machineCores: nil).hasPrefix("the hub's processor time"))
        // Two loops have room for as much again.
        #expect(reason(hub: 900_000, own: 10_000, hubCores: 2, machineCores: 8).hasPrefix("nobody's processor time seems short"))
        #expect(reason(hub: 1_750_000, own: 10_000, hubCores: 2, machineCores: 8).hasPrefix("the hub's processor time"))
        #expect(reason(hub: 1_750_000, own: 10_000, hubCores: 2, machineCores: 8).contains("175 % of a core of its 2"))
        // It could use two, but the generator has half of one.
        #expect(reason(hub: 1_250_000, own: 600_000, hubCores: 2, machineCores: 2).hasPrefix("this machine's 2 processors"))
    }
}
