import HubBase
import HubCheck

/// A journal that a test makes up: `alice`, `bob` and others, times in seconds, one channel unless said otherwise.
struct JournalScript {
    static let room = "room:1"
    var lines: [String] = []

    /// `alice` has sent `count` messages, a second apart from 1 s on, and she and `bob` have followed the room since 0.1 s; `without`: those that
    /// never came to bob.
    static func talk(_ count: Int = 5, without missing: Set<Int> = []) -> JournalScript {
        var script = JournalScript()
        for client in ["alice", "bob"] { script.enters(0, client) }
        for number in stride(from: 1, through: count, by: 1) {
            script.says(Double(number), "alice", "m\(number)", at: number, to: missing.contains(number) ? ["alice"] : ["alice", "bob"])
        }
        return script
    }

    /// A position's text: `x` is the epoch's letter, `tag` the letter of which tags are made.
    static func at(_ offset: Int, _ epoch: String = "x", tag: String? = nil) -> String {
        if offset == 0 { return ".0.genaaaaa" }
        let mark = String(("\(tag ?? epoch)\(offset)" + "aaaaaaaa").prefix(8))
        return "\(String(repeating: epoch, count: 8)).\(offset).\(mark)"
    }

    mutating func line(_ time: Double, _ client: String, _ rest: String) {
        lines.append(#"{"t":\#(Int(time * 1_000_000)),"client":"\#(client)",\#(rest)}"#)
    }

    mutating func out(_ time: Double, _ client: String, _ envelope: String) { line(time, client, #""out":{\#(envelope)}"#) }
    mutating func got(_ time: Double, _ client: String, _ envelope: String) { line(time, client, #""in":{\#(envelope)}"#) }
    mutating func ends(_ time: Double, _ clients: String...) { for client in clients { line(time, client, #""end":true"#) } }

    mutating func welcome(_ time: Double, _ client: String, channels: String = "", node: String = "n1") {
        got(time, client, #""type":"system","event":"welcome","user":"\#(client)","node":"\#(node)","channels":{\#(channels)}"#)
    }

    /// The fields of an answer that says where the room stands.
    static func standing(_ offset: Int, _ position: String? = nil, recovered: Bool? = nil, missed: [String] = []) -> String {
        let told = recovered.map { #","recovered":\#($0)"# } ?? ""
        return
            #""channel":"\#(room)","offset":\#(offset),"position":"\#(position ?? at(offset))"\#(told),"publications":[\#(missed.joined(separator: ","))]"#
    }

    mutating func enters(_ time: Double, _ client: String, at offset: Int = 0) {
        welcome(time, client)
        subscribes(time + 0.1, client, Self.standing(offset))
    }

    /// `from`: the position that it comes back with.
    mutating func subscribes(_ time: Double, _ client: String, _ answer: String, from: String? = nil) {
        let position = from.map { #","position":"\#($0)""# } ?? ""
        out(time, client, #""type":"subscribe","id":"s\#(time)","channel":"\#(Self.room)"\#(position)"#)
        got(time + 0.01, client, #""type":"ack","id":"s\#(time)",\#(answer)"#)
    }

    static func publication(_ user: String, _ id: String, at offset: Int, _ position: String? = nil, kind: String = "chat") -> String {
        #""type":"\#(kind)","channel":"\#(room)","user":"\#(user)","messageId":"\#(id)","offset":\#(offset),"position":"\#(position ?? at(offset))","payload":1"#
    }

    static func entry(_ user: String, _ id: String, at offset: Int, _ position: String? = nil) -> String {
        "{\(publication(user, id, at: offset, position))}"
    }

    mutating func sends(_ time: Double, _ client: String, _ id: String, payload: Int = 1) {
        out(time, client, #""type":"chat","id":"p\#(time)","channel":"\#(Self.room)","messageId":"\#(id)","payload":\#(payload)"#)
    }

    /// The answer to what was sent at `sent`.
    mutating func acked(
        _ time: Double, _ client: String, _ id: String, at offset: Int, _ position: String? = nil, sent: Double, isDuplicate: Bool = false
    ) {
        got(
            time, client,
            #""type":"ack","id":"p\#(sent)","channel":"\#(Self.room)","messageId":"\#(id)","offset":\#(offset),"position":"\#(position ?? Self.at(offset))"\#(isDuplicate ? #","duplicate":true"# : "")"#
        )
    }

    mutating func hears(_ time: Double, _ client: String, _ user: String, _ id: String, at offset: Int, _ position: String? = nil) {
        got(time, client, Self.publication(user, id, at: offset, position))
    }

    mutating func says(
        _ time: Double, _ client: String, _ id: String, at offset: Int, _ position: String? = nil, to listeners: [String]
    ) {
        sends(time, client, id)
        for listener in listeners { hears(time + 0.01, listener, client, id, at: offset, position) }
        acked(time + 0.02, client, id, at: offset, position, sent: time)
    }

    mutating func resync(_ time: Double, _ client: String, to position: String, reason: String = "epochChanged") {
        got(time, client, #""type":"system","event":"resync","channel":"\#(Self.room)","position":"\#(position)","reason":"\#(reason)""#)
    }

    func report() throws -> CheckReport {
        var reader = JournalReader()
        return try reader.judge([("journal", Array(lines.joined(separator: "\n").utf8))])
    }

    func faults() throws -> [CheckReport.Fault: UInt64] { try report().counts }
}
