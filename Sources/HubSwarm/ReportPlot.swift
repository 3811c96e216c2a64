/// Lines or bars over a grid as SVG, twice: for wide screens, and for narrow ones and paper (the style sheet shows one of them), so that
/// its words keep their size.
struct ReportPlot {
    struct Line {
        var name: String
        /// y: NaN where there's nothing, and the line is broken.
        var points: [(x: Double, y: Double)]
    }

    /// Colours and dashes that the style sheet tells apart, `k0` and on; a plot has no more lines than that.
    static let patterns = 7

    var name: String
    var title: String
    /// What is to be seen, in words: for those who don't see it.
    var summary: String
    var lines: [Line] = []
    /// From, to, height, in the axes' values; what it says when pointed at.
    var bars: [(from: Double, to: Double, height: Double, text: String)] = []
    /// x from … to, shaded: not measured.
    var bands: [(from: Double, to: Double)] = []
    /// For a number of words that fit across and up.
    var xAxis: (Int) -> ReportAxis
    var yAxis: (Int) -> ReportAxis
    var xLabel = ""

    func html() -> String {
        let label = ReportMarkup.escaped(title)
        var text = "<figure id=\"\(name)\"><h3>\(label)</h3>\n"
        if lines.count > 1 {
            text += "<ul class=\"key\">"
            for (place, line) in lines.enumerated() {
                text +=
                    "<li><svg viewBox=\"0 0 26 8\" aria-hidden=\"true\"><path class=\"line k\(place % Self.patterns)\" d=\"M1 4H25\"/></svg>"
                text += ReportMarkup.escaped(line.name) + "</li>"
            }
            text += "</ul>\n"
        }
        text += drawing(size: "large", width: 520, height: 240, words: 6) + drawing(size: "small", width: 320, height: 160, words: 3)
        return text + "<figcaption class=\"soft\">\(ReportMarkup.escaped(summary))</figcaption></figure>\n"
    }

    private func drawing(size: String, width: Double, height: Double, words: Int) -> String {
        let x = xAxis(words)
        let y = yAxis(5)
        let left = 10 + 6.6 * Double(y.ticks.map(\.text.count).max() ?? 0)
        let top = 8.0
        let right = width - 16
        let bottom = height - (xLabel.isEmpty ? 24 : 40)
        func across(_ value: Double) -> Double? { x.place(value).map { left + $0 * (right - left) } }
        func up(_ value: Double) -> Double? { y.place(value).map { bottom - $0 * (bottom - top) } }
        let id = "\(name)-\(size)"
        var text =
            "<svg class=\"plot \(size)\" viewBox=\"0 0 \(Self.number(width)) \(Self.number(height))\" role=\"img\" aria-labelledby=\"\(id)\">"
            + "<title id=\"\(id)\">\(ReportMarkup.escaped(title + ". " + summary))</title>\n"
        for band in bands {
            guard let from = across(band.from), let to = across(band.to), to > from else { continue }
            text += rectangle("band", from, top, to - from, bottom - top) + "/>\n"
        }
        for tick in y.ticks {
            let at = bottom - tick.place * (bottom - top)
            text += "<path class=\"grid\" d=\"M\(Self.number(left)) \(Self.number(at))H\(Self.number(right))\"/>"
            text += word(tick.text, left - 6, at + 4, "end")
        }
        for tick in x.ticks {
            let at = left + tick.place * (right - left)
            text += "<path class=\"axis\" d=\"M\(Self.number(at)) \(Self.number(bottom))v4\"/>"
            // Words at the edges stay inside.
            let half = 3.3 * Double(tick.text.count)
            text += word(tick.text, min(at, width - half - 1), bottom + 17, "middle")
        }
        text += "<path class=\"axis\" d=\"M\(Self.number(left)) \(Self.number(bottom))H\(Self.number(right))\"/>\n"
        if !xLabel.isEmpty { text += word(xLabel, (left + right) / 2, height - 5, "middle") }
        for bar in bars {
            guard let from = across(bar.from), let to = across(bar.to), let height = up(bar.height) else { continue }
            text += rectangle("bar", from, height, max(to - from - 1, 0.5), max(bottom - height, bar.height > 0 ? 0.7 : 0))
            text += "><title>\(ReportMarkup.escaped(bar.text))</title></rect>"
        }
        for (place, line) in lines.enumerated() { text += path(line, place, across, up) }
        return text + "</svg>\n"
    }

    private func path(_ line: Line, _ place: Int, _ across: (Double) -> Double?, _ up: (Double) -> Double?) -> String {
        var drawn = ""
        var dots = ""
        var isBroken = true
        for (index, point) in line.points.enumerated() {
            guard let x = across(point.x), let y = up(point.y) else {
                isBroken = true
                continue
            }
            // A point without neighbours would be no line at all.
            let isLast = index + 1 >= line.points.count || !line.points[index + 1].y.isFinite
            if isBroken, isLast {
                dots += "<circle class=\"dot k\(place % Self.patterns)\" cx=\"\(Self.number(x))\" cy=\"\(Self.number(y))\" r=\"2\"/>"
            }
            drawn += (isBroken ? "M" : "L") + Self.number(x) + " " + Self.number(y)
            isBroken = false
        }
        return "<path class=\"line k\(place % Self.patterns)\" d=\"\(drawn)\"/>\(dots)\n"
    }

    private func rectangle(_ name: String, _ x: Double, _ y: Double, _ width: Double, _ height: Double) -> String {
        "<rect class=\"\(name)\" x=\"\(Self.number(x))\" y=\"\(Self.number(y))\" width=\"\(Self.number(width))\" height=\"\(Self.number(height))\""
    }

    private func word(_ text: String, _ x: Double, _ y: Double, _ anchor: String) -> String {
        "<text x=\"\(Self.number(x))\" y=\"\(Self.number(y))\" text-anchor=\"\(anchor)\">\(ReportMarkup.escaped(text))</text>"
    }

    /// One digit after the point: a tenth of a pixel.
    private static func number(_ value: Double) -> String {
        let tenths = Int((min(max(value, -1e6), 1e6) * 10).rounded())
        if tenths % 10 == 0 { return "\(tenths / 10)" }
        return (tenths < 0 ? "-" : "") + "\(abs(tenths) / 10).\(abs(tenths) % 10)"
    }
}
