import HubBase
import HubCheck
import HubSwarm
import Testing

@Suite("The swarm's report")
struct SwarmReportTests {
    private static var clean: SwarmReport {
        var report = SwarmReport()
        report.bots = 2000
        report.joined = 2000
        report.rooms = 200
        report.seconds = 30
        report.seed = 1
        report.sent = 6012
        report.acked = 6010
        report.refused = ["rateLimited": 2]
        report.tally = Receiver.Tally(delivered: 60_100, expected: 60_100)
        var check = CheckReport()
        check.delivered = 60_100
        check.recovered = 3
        report.check = check
        for value in [1_000_000, 2_000_000, 2_047_999] as [UInt64] { report.latency.record(value) }
        return report
    }

    @Test("for programs: one object with what was asked for")
    func json() {
        #expect(
            Self.clean.json
                == #"{"bots":2000,"rooms":200,"seconds":30,"seed":1,"joined":2000,"sent":6012,"acked":6010,"refused":{"rateLimited":2},"#
                + #""delivered":60100,"expected":60100,"lost":0,"duplicated":0,"outOfOrder":0,"reconnects":0,"ends":{},"restarts":0,"#
                + #""foreign":0,"latency":{"p50":2.001,"p90":2.048,"p99":2.048,"max":2.048},"checked":0,"interrupted":false,"ok":true}"#)
    }

    @Test("for people: aligned, with a verdict")
    func text() {
        #expect(
            Self.clean.text == """
                2,000 of 2,000 bots in 200 rooms for 30 s (seed 1)
                  sent          6,012
                  acked         6,010
                  refused       2 (rateLimited 2)
                  delivered     60,100 of 60,100 expected
                  lost          0
                  duplicated    0
                  out of order  0
                  reconnects    0
                  latency ms    p50 2.001  p90 2.048  p99 2.048  max 2.048
                  checked       60,100 deliveries and 3 recoveries one by one
                OK: nothing lost, duplicated or out of order
                """)
    }

    @Test("anything lost, doubled, out of order, not joined or not sent fails, and so does a run that proved nothing")
    func verdict() {
        var reports = Array(repeating: Self.clean, count: 7)
        reports[0].tally.lost = 1
        reports[1].tally.duplicated = 1
        reports[2].tally.outOfOrder = 1
        reports[3].joined = 1999
        reports[4].refused["unsent"] = 1
        reports[5].acked = 0
        reports[6].check?.add(CheckReport.Finding(fault: .falseRecovery, channel: "room:1", client: 7, text: "…"))
        for report in reports {
            #expect(!report.isClean)
            #expect(report.text.contains("FAILED"))
            #expect(report.json.hasSuffix(#""ok":false}"#))
        }
    }

    @Test("one verdict: the expectations' where there are some, and what the judge knows beyond this report")
    func oneVerdict() throws {
        var report = Self.clean
        report.refused["unsent"] = 3
        var measures = Measures()
        measures.bots = 1
        measures.measured = .seconds(1)
        measures.counters = ["joined": 1, "sent": 3, "acknowledged": 3, "delivered": 3]
        let named = Judging(measures, expectations: try Expectation.parse("unsent=0"))
        #expect(!report.text(named).contains("FAILED") && !report.text(named).contains("OK"))
        #expect(report.json(isKept: true).hasSuffix(#""ok":true}"#))
        #expect(report.text(Judging(measures, expectations: [])).contains("FAILED: 3 messages"))
        measures.counters["cutOff"] = 1
        let text = Self.clean.text(Judging(measures, expectations: []))
        #expect(text.contains("FAILED: 1 bots had lost their connections") && !text.contains("OK"))
    }

    @Test("an end's text can't break the JSON")
    func quoting() {
        var report = SwarmReport()
        report.ends = ["say \"no\"\n\\": 1]
        #expect(report.json.contains(#""ends":{"say \"no\" \\":1}"#))
    }
}
