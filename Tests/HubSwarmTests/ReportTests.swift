import HubBase
import HubSwarm
import Testing

@Suite("The report to look at")
struct ReportTests {
    private static let hostile = "</title><script>alert(1)</script>\"'&\u{202E}\u{0}"

    private static func measures() -> Measures {
        var measures = MeasuresTests.share(seconds: 20)
        measures.scenario = hostile
        measures.options = [[hostile, hostile]]
        measures.environment = [["system", hostile]]
        measures.errors = [hostile: 3, "timeout": 1]
        measures.ends = [hostile: 2]
        measures.violations = [hostile: 1]
        measures.findings = [hostile]
        measures.missing = [hostile]
        measures.lanes[Measures.Lane(hostile, .hostile)] = measures.latency()
        measures.date = 1_796_072_645
        return measures
    }

    private static func page(_ measures: Measures) throws -> String {
        Report(measures, Judging(measures, expectations: try Expectation.parse("loss=0,p99<1us"))).html
    }

    @Test("names from files and hubs can't break out of the page")
    func escaping() throws {
        let page = try Self.page(Self.measures())
        #expect(!page.contains("<script") && !page.contains("\u{202E}") && !page.contains("\u{0}"))
        #expect(page.contains("&lt;/title&gt;&lt;script&gt;alert(1)&lt;/script&gt;&quot;&#39;&amp;\u{FFFD}\u{FFFD}"))
        #expect(page.components(separatedBy: "</title>").count - 1 == page.components(separatedBy: "<title").count - 1)
    }

    @Test("every element is closed, in order, and no id is given twice")
    func wellFormed() throws {
        var open: [String] = []
        var ids: Set<String> = []
        let page = try Self.page(Self.measures())
        for part in page.split(separator: "<", omittingEmptySubsequences: true) where !part.hasPrefix("!") {
            let tag = part.prefix { $0 != ">" }
            let name = String(tag.prefix { $0 != " " && $0 != "\n" && $0 != "/" })
            if part.hasPrefix("/") {
                #expect(open.popLast() == String(tag.dropFirst()))
            } else if !tag.hasSuffix("/"), !["meta"].contains(name) {
                open.append(name)
            }
            if let id = tag.components(separatedBy: " id=\"").dropFirst().first?.prefix(while: { $0 != "\"" }) {
                #expect(ids.insert(String(id)).inserted, "\(id)")
            }
        }
        #expect(open.isEmpty)
    }

    @Test("each of a scenario's seven lanes has a line of its own, by colour and by dashes")
    func lanes() throws {
        var measures = MeasuresTests.share(seconds: 20)
        let latency = measures.latency()
        measures.lanes = [:]
        for kind in ["chat", "typing", "read", "presence", "ack", "connect", "recover"] { measures.lanes[Measures.Lane(kind)] = latency }
        let page = Report(measures, Judging(measures, expectations: [])).html
        let key = try #require(page.components(separatedBy: "<figure id=\"percentiles\">").last?.components(separatedBy: "</ul>").first)
        let classes = key.components(separatedBy: "class=\"line ").dropFirst().map { $0.prefix { $0 != "\"" } }
        #expect(classes.count == 7 && Set(classes).count == 7, "\(classes)")
        var dashes: Set<String> = []
        for name in classes where name != "k0" {
            let rule = try #require(page.components(separatedBy: ".\(name) {").dropFirst().first?.prefix { $0 != "}" })
            #expect(rule.contains("stroke-dasharray"))
            dashes.insert(rule.components(separatedBy: "stroke-dasharray: ").last ?? "")
        }
        #expect(dashes.count == 6)
    }

    @Test("one file: nothing is loaded, nothing runs, and a policy says so")
    func selfContained() throws {
        let page = try Self.page(Self.measures())
        for word in ["<link", "<img", "src=", "href=", "@import", "url(", " style=\"", "onload", "javascript:"] {
            #expect(!page.contains(word), "\(word)")
        }
        #expect(page.contains("default-src 'none'") && page.contains("prefers-color-scheme: dark") && page.contains("@media print"))
    }

    @Test("a run of nothing has a page too: no NaN, no infinity, no trap")
    func empty() throws {
        for measures in [
            Measures(), MeasuresTests.share(seconds: 1), MeasuresTests.share(latency: 0), MeasuresTests.share(latency: 1 << 60),
        ] {
            let page = try Self.page(measures)
            #expect(!page.contains("nan") && !page.contains("inf\"") && !page.contains("NaN"))
        }
    }

    @Test("the same measures give the same page")
    func stable() throws { #expect(try Self.page(Self.measures()) == Self.page(Self.measures())) }

    @Test("what was judged and found is on the page")
    func contents() throws {
        let page = try Self.page(Self.measures())
        for text in [
            "p99&lt;1us", "✗ no", "Failed", "Deliveries a second", "Latency by percentile", "2026-11-30", "hostile bots", "Errors by code",
        ] {
            #expect(page.contains(text), "\(text)")
        }
    }

    @Test("what became of hostile connections is in the summary and on the page, and only where there were any")
    func hostileConnections() throws {
        var measures = MeasuresTests.share(seconds: 20)
        let quiet = (ReportSummary.text(measures, Judging(measures, expectations: [])), try Self.page(measures))
        #expect(!quiet.0.contains("hostile") && !quiet.1.contains("Hostile"))
        measures.counters.merge([
            "hostileWelcomes": 61, "hostileSent": 12_345, "hostileErrors": 678, "hostileEnds": 9, "muteOpened": 30, "muteEnds": 15,
            "muteLongest": 10_020, "hostile end: close 4008": 9, "hostile end: half a head: HTTP 408": 15,
            "hostile end: \(Self.hostile)": 1,
        ]) { $1 }
        let text = ReportSummary.text(measures, Judging(measures, expectations: []))
        for line in [
            "hostile welcomed      61", "hostile sent          12,345", "hostile refused       678", "hostile mute sockets  30",
            "hostile longest mute  10.0 s", "hostile ends          25 (half a head: HTTP 408 15, close 4008 9, ",
        ] {
            #expect(text.contains("  " + line), "\(line) in \(text)")
        }
        let page = try Self.page(measures)
        for part in [
            "<h2>Hostile connections</h2>", "<th scope=\"row\">Longest mute</th><td class=\"n\">10.0 s</td>",
            "<th scope=\"row\">half a head: HTTP 408</th><td class=\"n\">15</td><td class=\"n\">60.0 %</td>",
        ] {
            #expect(page.contains(part), "\(part)")
        }
        #expect(!text.contains("\u{202E}") && !page.contains("<script"))
    }

    @Test(
        "figures as people read them",
        arguments: [
            (0 as UInt64, "0 ns"), (999, "999 ns"), (1000, "1.00 µs"), (12_345, "12.3 µs"), (999_499, "999 µs"), (999_500, "1.00 ms"),
            (1_234_567, "1.23 ms"), (99_960_000, "100 ms"), (2_500_000_000, "2.50 s"), (7_200_000_000_000, "7,200 s"),
        ])
    func times(nanoseconds: UInt64, text: String) { #expect(ReportNumbers.time(nanoseconds) == text) }

    @Test("dates, shares, lengths")
    func others() {
        #expect(ReportNumbers.date(0) == "1970-01-01 00:00:00 UTC" && ReportNumbers.date(1_796_072_645) == "2026-11-30 21:04:05 UTC")
        #expect(ReportNumbers.date(951_782_400) == "2000-02-29 00:00:00 UTC")
        #expect(
            ReportNumbers.percent(0) == "0 %" && ReportNumbers.percent(0.000123) == "0.0123 %" && ReportNumbers.percent(0.5) == "50.0 %")
        #expect(ReportNumbers.length(45) == "45 s" && ReportNumbers.length(125) == "2 min 5 s" && ReportNumbers.length(.nan) == "–")
        #expect(ReportNumbers.significant(.infinity) == "–" && ReportNumbers.decimal(-0.001, digits: 2) == "0.00")
    }

    @Test("the summary has no control character of others, and its JSON stays one object")
    func summary() {
        let measures = Self.measures()
        let judging = Judging(measures, expectations: [])
        #expect(!ReportSummary.text(measures, judging).contains("\u{202E}"))
        let json = ReportSummary.json(measures, judging)
        #expect(json.contains(#""ok":false"#) && json.contains(#"</title><script>alert(1)</script>\"'&"#))
    }

    @Test("the progress: a block of five lines, none wider than 78, and a line elsewhere")
    func progress() {
        var progress = ReportProgress(title: String(repeating: "long ", count: 40), hasColour: false)
        var point = Measures.Point()
        point.connected = 12_345
        point.delivered = 1_000_000
        var histogram = Histogram()
        histogram.record(1_500_000)
        point.latency = SparseHistogram(histogram)
        let moment = ReportProgress.Moment(seconds: 7, phase: "talking", point: point, bots: 20_000, workers: (5, 6))
        for _ in 0..<200 { progress.add(point) }
        let block = progress.block(moment)
        #expect(block.count == 5 && block.allSatisfy { $0.count <= 78 })
        #expect(block[1].contains("12,345 of 20,000"))
        #expect(
            ReportProgress.line(moment)
                == "7 s  talking  connected 12,345  sent 0/s  acked 0/s  delivered 1,000,000/s  errors 0/s  p50 1.50 ms  p99 1.50 ms  workers 5/6"
        )
        #expect(ReportProgress.sparkline([0, 1, 4, 8]) == " ▂▅█" && ReportProgress.sparkline([0, 0]) == "  ")
    }
}
