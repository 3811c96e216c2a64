import HubBase
import HubClient
import HubConsole
import HubWire

/// `hubctl disconnect USER [--may-return]`
enum DisconnectCommand {
    static func run(_ arguments: CommandLineArguments, _ output: inout Output) throws(Failure) {
        let user = try Names.parse(arguments.operands[0], "user")
        let mayReturn = arguments.has("may-return")
        let path = "/v1/users/" + HubURL.encode(user.bytes) + "/disconnect"
        let answer = try JSONObject(Hub(arguments).post(path, Array("{\"mayReturn\":\(mayReturn)}".utf8)))
        guard let answer else { throw .refused("the hub answered something that is no revocation; is it a hub?") }
        output.line("\(user): all connections are being closed\(mayReturn ? "; the clients may come back" : "")")
        output.warnIfNotKept(answer)
    }
}

extension Output {
    /// Whoever can't be reached now won't hear of it later: that is no success to be quiet about.
    fileprivate mutating func warnIfNotKept(_ answer: JSONObject) {
        guard answer["kept"] != nil, !answer.isTrue("kept") else { return }
        error("NOT KEPT: \(answer.text("message").map(Terminal.safe) ?? "nodes that can't be reached now won't hear of it later")")
    }
}

/// `hubctl revoke --user USER | --token JTI | --all [--before TIME]`
enum RevokeCommand {
    static func run(_ arguments: CommandLineArguments, _ output: inout Output) throws(Failure) {
        let ways = ["user", "token", "all"].filter(arguments.has)
        guard ways.count == 1, let way = ways.first else { throw .usage("give exactly one of --user USER, --token JTI and --all") }
        var body = ByteBuffer(capacity: 128)
        body.append("{")
        let what: String
        switch way {
        case "all":
            body.append("\"all\":true")
            what = "all tokens"
        default:
            let name = try Names.parse(arguments.value(way) ?? "", way)
            body.append(way == "user" ? "\"user\":\"" : "\"token\":\"")
            name.bytes.withUnsafeBytes { JSONText.escape($0, into: &body) }
            body.append("\"")
            what = way == "user" ? "all tokens of \(name)" : "the token \(name)"
        }
        if let text = arguments.value("before") {
            guard way != "token" else { throw .usage("--before goes with --user or --all") }
            guard let seconds = UInt64(text), seconds < 1 << 43 else {
                throw .usage("--before is in whole seconds since 1970, not \(CommandLineError.quoted(text))")
            }
            body.append(",\"before\":")
            body.append(decimal: seconds * 1000)
        }
        body.append("}")
        let answer = try Hub(arguments).post("/v1/revocations", body.copyBytes())
        guard let answer = JSONObject(answer), let until = answer.number("expires") else {
            throw .refused("the hub answered something that is no revocation; is it a hub?")
        }
        let isKept = answer["kept"] == nil || answer.isTrue("kept")
        output.line("\(what) revoked\(isKept ? "; kept until \(Output.moment(until))" : "")")
        output.warnIfNotKept(answer)
    }
}
