import HubBase
import HubClient
import HubConsole

/// `hubctl members CHANNEL [--json]`: everybody in a channel, in as many pages as it takes.
enum MembersCommand {
    static func run(_ arguments: CommandLineArguments, _ output: inout Output) throws(Failure) {
        let channel = try Names.parse(arguments.operands[0], "channel")
        let hub = try Hub(arguments)
        let path = "/v1/channels/\(HubURL.encode(channel.bytes))/members"
        var cursor: String?
        var members: [String: UInt64] = [:]
        while !output.isGone {
            let answer = try hub.get(path + (cursor.map { "?cursor=\($0)" } ?? ""))
            if arguments.has("json") { output.line(answer) }
            guard let page = JSONObject(answer), let entries = page.objects("members"), let occupancy = page.number("occupancy") else {
                throw .refused("\(hub.url) answered something that is no list of members; is it a hub?")
            }
            for entry in entries { if let user = entry.text("user") { members[user] = entry.number("devices") ?? 1 } }
            // A cursor is digits; anything else would go into the next request's path.
            cursor = page.text("cursor").flatMap { $0.allSatisfy(\.isWholeNumber) && $0.utf8.count <= 20 && !$0.isEmpty ? $0 : nil }
            guard cursor == nil else { continue }
            if !arguments.has("json") { show(members, occupancy, page.isTrue("stale"), &output) }
            return
        }
    }

    private static func show(_ members: [String: UInt64], _ occupancy: UInt64, _ isStale: Bool, _ output: inout Output) {
        for line in MembersText.lines(members, occupancy: occupancy, isStale: isStale, on: output.terminal) { output.line(line) }
    }
}
