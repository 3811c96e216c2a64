import HubBase
import HubClient
import HubConsole
import HubWire

/// `hubctl history CHANNEL [--since PLACE] [--before PLACE] [--limit N] [--reverse] [--json]`: in as many pages as it takes.
enum HistoryCommand {
    private static let pageMax = 1_000

    static func run(_ arguments: CommandLineArguments, _ output: inout Output) throws(Failure) {
        let channel = try Names.parse(arguments.operands[0], "channel")
        var left = try limit(arguments)
        var since = try place(arguments, "since")
        var before = try place(arguments, "before")
        let isReverse = arguments.has("reverse")
        let hub = try Hub(arguments)
        while left > 0, !output.isGone {
            var query = "limit=\(min(left, pageMax))"
            if let since { query += "&since=\(HubURL.encode(since.utf8))" }
            if let before { query += "&before=\(HubURL.encode(before.utf8))" }
            if isReverse { query += "&reverse=true" }
            let answer = try hub.get("/v1/channels/\(HubURL.encode(channel.bytes))/history?\(query)")
            guard let page = JSONObject(answer), let publications = page.objects("publications") else {
                throw .refused("\(hub.url) answered something that is no history; is it a hub?")
            }
            if page.fields.contains(where: { $0.key == "recovered" }), !page.isTrue("recovered") {
                output.note(
                    "it can't be proved that nothing is missing before this: \(Terminal.safe(page.text("reason") ?? "no reason given"))")
            }
            for publication in publications { print(publication, arguments.has("json"), &output) }
            guard page.isTrue("more"), let last = publications.last?.text("position") else { return }
            left -= publications.count
            if isReverse { before = last } else { since = last }
        }
    }

    private static func print(_ publication: JSONObject, _ isJSON: Bool, _ output: inout Output) {
        if isJSON {
            output.line(publication.raw)
        } else if let line = EnvelopeText.publication(
            publication.raw, clock: Output.moment(publication.number("time") ?? 0), on: output.terminal)
        {
            output.line(line)
        }
    }

    private static func limit(_ arguments: CommandLineArguments) throws(Failure) -> Int {
        guard let text = arguments.value("limit") else { return .max }
        guard let limit = Int(text), limit > 0 else { throw .usage("--limit is a number from 1, not \(CommandLineError.quoted(text))") }
        return limit
    }

    /// A position or an offset.
    private static func place(_ arguments: CommandLineArguments, _ flag: String) throws(Failure) -> String? {
        guard let text = arguments.value(flag) else { return nil }
        if !text.isEmpty, text.utf8.allSatisfy({ $0 >= 48 && $0 <= 57 }) { return text }
        _ = try Names.position(text, "--\(flag)")
        return text
    }
}
