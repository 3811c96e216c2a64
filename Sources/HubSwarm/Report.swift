/// What a run came to, to look at afterwards: one self-contained page of HTML with plots, tables and the verdict. Pure: the same measures
/// give the same bytes.
package struct Report: Sendable {
    package let measures: Measures
    package let judging: Judging

    package init(_ measures: Measures, _ judging: Judging) {
        self.measures = measures
        self.judging = judging
    }

    package var html: String {
        let name = measures.scenario.isEmpty ? "flags" : measures.scenario
        var body =
            "<header><h1>Swarm report: \(ReportMarkup.escaped(name))</h1>\n<p class=\"soft\">\(ReportMarkup.escaped(subtitle))</p></header>\n"
        body += "<main>\n" + verdict + tiles + "<section><h2>Over time</h2>\n<div class=\"plots\">\n"
        body += ReportPlots(measures).overTime.map { $0.html() }.joined() + "</div></section>\n"
        body +=
            "<section><h2>Latency</h2>\n<p class=\"soft\">From the time at which a message was due to the receiver’s read, whatever kept it from being sent.</p>\n"
        body +=
            "<div class=\"plots\">\n" + ReportPlots(measures).latencies.map { $0.html() }.joined() + "</div>\n" + latencyTable
            + "</section>\n"
        body += "<section><h2>Correctness</h2>\n" + correctness + "</section>\n"
        body += errors + hostile + "<section><h2>What ran</h2>\n" + settings + "</section>\n" + figures
        body += "</main>\n<footer>hub-swarm; seed \(measures.seed)</footer>"
        return ReportMarkup.page(title: "Swarm report: \(name)", body: body)
    }

    private var subtitle: String {
        var parts = [ReportNumbers.date(measures.date), "\(ReportNumbers.count(measures.bots)) bots"]
        if measures.workers > 1 { parts.append("\(measures.workers) workers") }
        parts.append(
            "\(ReportNumbers.length(measures.measuredSeconds)) measured after \(ReportNumbers.length(Double(measures.warmUp.nanoseconds) / 1e9))"
        )
        parts.append("seed \(measures.seed)")
        return parts.joined(separator: " · ")
    }

    private var verdict: String {
        let mood = judging.isKept ? (judging.warnings.isEmpty ? "good" : "warn") : "bad"
        let word =
            judging.isKept
            ? (judging.judgements.isEmpty ? "OK: nothing lost, duplicated or out of order" : "OK: all expectations kept") : "Failed"
        var text = "<div class=\"verdict \(mood)\" role=\"status\"><strong>\(word)</strong>"
        let remarks = judging.faults + judging.warnings
        if !remarks.isEmpty { text += "<ul>" + remarks.map { "<li>\(ReportMarkup.escaped($0))</li>" }.joined() + "</ul>" }
        text += "</div>\n"
        if !judging.judgements.isEmpty {
            text += ReportMarkup.table(
                "Expectations", [.init("Expected"), .init("Measured"), .init("Kept")],
                judging.judgements.map {
                    [.init($0.expectation), .init($0.measured), .init($0.isKept ? "✓ yes" : "✗ no", mood: $0.isKept ? .good : .bad)]
                })
        }
        return text
    }

    private var tiles: String {
        let latency = measures.latency()
        let seconds = max(measures.measuredSeconds, 0.001)
        let rows: [(String, String)] = [
            ("Connected, most", ReportNumbers.count(measures.series.map(\.connected).max() ?? 0)),
            ("Sent a second", ReportNumbers.rate(Double(measures.counter(Measures.Counter.sent)) / seconds)),
            ("Delivered a second", ReportNumbers.rate(Double(latency.count) / seconds)),
            ("p50", latency.count > 0 ? ReportNumbers.time(latency.percentile(50)) : "–"),
            ("p99", latency.count > 0 ? ReportNumbers.time(latency.percentile(99)) : "–"),
            ("p99.9", latency.count > 0 ? ReportNumbers.time(latency.percentile(99.9)) : "–"),
            ("Longest", latency.count > 0 ? ReportNumbers.time(latency.max) : "–"),
            ("Lost", ReportNumbers.count(measures.violations["lost"] ?? 0)),
            ("Errors", ReportNumbers.count(measures.errorsSum)),
        ]
        return "<dl class=\"tiles\">" + rows.map { "<div><dt>\($0.0)</dt><dd>\($0.1)</dd></div>" }.joined() + "</dl>\n"
    }

    private var latencyTable: String {
        let rows = measures.lanes.sorted { $0.key < $1.key }.map { lane, histogram -> [ReportMarkup.Cell] in
            [.init(ReportPlots.name(lane)), .number(ReportNumbers.count(histogram.count))]
                + [50, 90, 99, 99.9, 99.99].map { .number(ReportNumbers.time(histogram.percentile($0))) } + [
                    .number(ReportNumbers.time(histogram.max))
                ]
        }
        if rows.isEmpty { return "<p>Nothing was measured.</p>\n" }
        let header = ["p50", "p90", "p99", "p99.9", "p99.99", "Longest"].map { ReportMarkup.Cell.number($0) }
        return ReportMarkup.table("Percentiles", [.init("Of"), .number("Count")] + header, rows)
    }

    private var correctness: String {
        let names = [
            ("Expected deliveries", Measures.Counter.expected), ("Delivered", Measures.Counter.delivered),
            ("Checked one by one", Measures.Counter.checked), ("Recovered after a break", Measures.Counter.recovered),
            ("Reconnects", Measures.Counter.reconnects), ("Channels that began anew", Measures.Counter.restarts),
        ]
        var rows: [[ReportMarkup.Cell]] = names.filter { measures.counters[$0.1] != nil }.map {
            [.init($0.0), .number(ReportNumbers.count(measures.counter($0.1)))]
        }
        for kind in Set(["lost", "duplicated", "outOfOrder"]).union(measures.violations.keys).sorted() {
            let count = measures.violations[kind] ?? 0
            rows.append([.init("Violations: " + kind), .number(ReportNumbers.count(count), mood: count > 0 ? .bad : .good)])
        }
        var text = ReportMarkup.table("What was promised, and what came", [.init("What"), .number("Count")], rows)
        if !measures.findings.isEmpty {
            text +=
                "<h3>The first findings</h3><ul>" + measures.findings.prefix(20).map { "<li>\(ReportMarkup.escaped($0))</li>" }.joined()
                + "</ul>\n"
        }
        return text
    }

    /// The most frequent first.
    private static func shares(_ caption: String, _ counts: [String: UInt64]) -> String {
        let sorted = counts.sorted { ($1.value, $0.key) < ($0.value, $1.key) }
        let whole = Double(max(counts.values.reduce(0, Measures.sum), 1))
        return ReportMarkup.table(
            caption, [.init(caption), .number("Count"), .number("Share")],
            sorted.prefix(40).map {
                [.init($0.key), .number(ReportNumbers.count($0.value)), .number(ReportNumbers.percent(Double($0.value) / whole))]
            })
    }

    private var errors: String {
        guard !measures.errors.isEmpty || !measures.ends.isEmpty else {
            return "<section><h2>Errors</h2><p>None: no request was refused and no connection ended before its time.</p></section>\n"
        }
        var text = "<section><h2>Errors</h2>\n"
        if !measures.errors.isEmpty { text += Self.shares("Errors by code", measures.errors) }
        if !measures.ends.isEmpty { text += Self.shares("Ends of connections", measures.ends) }
        return text + "</section>\n"
    }

    static func capitalized(_ text: String) -> String { text.prefix(1).uppercased() + text.dropFirst() }

    private var hostile: String {
        guard let counts = HostileCounts(measures) else { return "" }
        return "<section><h2>Hostile connections</h2>\n<p class=\"soft\">They’re in no other figure of this page.</p>\n"
            + ReportMarkup.table(
                "What they did", [.init("What"), .number("Figure")],
                counts.rows.map { [.init(Self.capitalized($0.name)), .number($0.value)] })
            + (counts.ends.isEmpty ? "<p>None was ended.</p>\n" : Self.shares("How they ended", counts.ends)) + "</section>\n"
    }

    private var settings: String {
        func table(_ caption: String, _ pairs: [[String]]) -> String {
            pairs.isEmpty ? "" : ReportMarkup.table(caption, [.init("Name"), .init("Value")], pairs.map { $0.map { .init($0) } })
        }
        let bottleneck = Bottleneck(measures)
        var processor: [[String]] = []
        if let own = bottleneck.own {
            processor.append([measures.workers > 1 ? "Busiest worker" : "The swarm", ReportNumbers.percent(own)])
        }
        if let hub = bottleneck.hub { processor.append(["The hub", ReportNumbers.percent(hub)]) }
        if let redis = bottleneck.redis { processor.append(["Redis", ReportNumbers.percent(redis)]) }
        processor.append(["Sent late by the swarm’s own fault, at most", ReportNumbers.time(bottleneck.lag)])
        return "<div class=\"pairs\">" + table("Options", measures.options) + table("Environment", measures.environment)
            + table("Processor time of one core, median second", processor) + "</div>\n"
    }

    /// What the plots show, as numbers; at most 120 rows.
    private var figures: String {
        var thinned = measures
        while thinned.series.count > 120 { thinned.coarsen() }
        let step = Double(thinned.step)
        func share(_ microseconds: UInt64?) -> ReportMarkup.Cell {
            .number(microseconds.map { ReportNumbers.percent(Double($0) / step / 1e6) } ?? "–")
        }
        let rows = thinned.series.enumerated().map { place, point -> [ReportMarkup.Cell] in
            [
                .init("\(UInt64(place) * thinned.step) s"), .number(ReportNumbers.count(point.connected)),
                .number(ReportNumbers.rate(Double(point.sent) / step)), .number(ReportNumbers.rate(Double(point.delivered) / step)),
                .number(ReportNumbers.rate(Double(point.errors) / step)),
                .number(point.latency.count > 0 ? ReportNumbers.time(point.latency.percentile(50)) : "–"),
                .number(point.latency.count > 0 ? ReportNumbers.time(point.latency.percentile(99)) : "–"),
                .number(point.latency.count > 0 ? ReportNumbers.time(point.latency.max) : "–"), share(point.ownCPU), share(point.hubCPU),
            ]
        }
        let header = ["Connected", "Sent/s", "Delivered/s", "Errors/s", "p50", "p99", "Longest", "Swarm CPU", "Hub CPU"]
        return "<section class=\"long\"><details><summary>The plots as numbers</summary>\n"
            + ReportMarkup.table("By the time since the beginning", [.init("From")] + header.map { .number($0) }, rows)
            + "</details></section>\n"
    }
}
