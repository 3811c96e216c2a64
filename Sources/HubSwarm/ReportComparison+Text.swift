/// The comparison to look at: for a terminal, and as a page.
extension ReportComparison {
    private var explanation: String {
        "figures are means over parts of \(ReportNumbers.length(Double(partSeconds))) of each run, longer ones where there’s little in them; "
            + "noise: how large a change can be chance"
    }

    package var text: String {
        let header = ["", "first", "second", "change", "noise", "meaning"]
        let cells = [header] + rows.map { [$0.name, $0.left, $0.right, $0.change, $0.noise, $0.meaning.rawValue] }
        let widths = header.indices.map { column in cells.map { $0[column].count }.max() ?? 0 }
        var lines = cells.map { row -> String in
            let padded = row.enumerated().map { column, cell -> String in
                let padding = String(repeating: " ", count: widths[column] - cell.count)
                return column == 0 || column == row.count - 1 ? cell + (column == 0 ? padding : "") : padding + cell
            }
            return "  " + padded.joined(separator: "  ")
        }
        lines.append("  " + explanation)
        for difference in differences {
            lines.append(
                "differs: \(ReportNumbers.plain(difference[0])): \(ReportNumbers.plain(difference[1])) against \(ReportNumbers.plain(difference[2]))"
            )
        }
        return lines.joined(separator: "\n")
    }

    package var html: String {
        var body = "<header><h1>Two swarm runs compared</h1><p class=\"soft\">"
        body += ReportMarkup.escaped(
            "\(left.scenario.isEmpty ? "flags" : left.scenario), \(ReportNumbers.date(left.date)), against \(right.scenario.isEmpty ? "flags" : right.scenario), \(ReportNumbers.date(right.date))"
        )
        body += "</p></header>\n<main><section>"
        body += ReportMarkup.table(
            "Figures of the measured time",
            [.init("Figure"), .number("First"), .number("Second"), .number("Change"), .number("Noise"), .init("Meaning")],
            rows.map { row in
                [
                    .init(row.name), .number(row.left), .number(row.right), .number(row.change), .number(row.noise),
                    .init(row.meaning.rawValue, mood: row.meaning == .better ? .good : row.meaning == .worse ? .bad : .plain),
                ]
            })
        body += "<p class=\"soft\">\(ReportMarkup.escaped(Report.capitalized(explanation))).</p></section>\n"
        if !differences.isEmpty {
            body += "<section><h2>What else differs</h2>"
            body += ReportMarkup.table(
                "Options and environment", [.init("Name"), .init("First"), .init("Second")], differences.map { $0.map { .init($0) } })
            body += "</section>\n"
        }
        return ReportMarkup.page(title: "Two swarm runs compared", body: body + "</main>")
    }
}
