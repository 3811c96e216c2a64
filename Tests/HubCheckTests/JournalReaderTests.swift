import HubCheck
import Testing

@Suite("Journals: what stood on the wire, judged")
struct JournalReaderTests {
    func judge(_ lines: [String]) throws -> CheckReport {
        var reader = JournalReader()
        return try reader.judge([("journal", Array(lines.joined(separator: "\n").utf8))])
    }

    let opening = [
        #"{"t":1,"client":"a","in":{"type":"system","event":"welcome","user":"alice","channels":{"user:alice":{"channel":"user:alice","offset":0,"position":".0."}}}}"#,
        #"{"t":2,"client":"b","in":{"type":"system","event":"welcome","user":"bob","channels":{}}}"#,
        #"{"t":3,"client":"b","out":{"type":"subscribe","id":1,"channels":["r",{"channel":"q"}]}}"#,
        #"{"t":4,"client":"b","in":{"type":"ack","id":1,"channels":[{"channel":"r","offset":0,"position":".0."},{"channel":"q","code":"forbidden"}]}}"#,
        #"{"t":5,"client":"a","out":{"type":"chat","id":"x","channel":"r","messageId":"m1","payload":1}}"#,
        #"{"t":6,"client":"a","in":{"type":"ack","id":"x","channel":"r","messageId":"m1","offset":1,"position":"aaaaaaaa.1.bbbbbbb1"}}"#,
    ]

    func delivery(_ time: Int, _ offset: Int) -> String {
        #"{"t":\#(time),"client":"b","in":{"type":"chat","channel":"r","user":"alice","messageId":"m\#(offset)","position":"aaaaaaaa.\#(offset).bbbbbbb\#(offset)","payload":1}}"#
    }

    @Test("what was sent, acknowledged and delivered is clean; without the delivery it's lost")
    func clean() throws {
        let report = try judge(opening + [delivery(7, 1)])
        #expect(report.isClean, "\(report.text())")
        #expect((report.sent, report.acknowledged, report.delivered) == (1, 1, 1))
        #expect(try judge(opening).count(.lost) == 1)
    }

    @Test("lines count in the order of their time, whatever file they're in")
    func order() throws {
        var reader = JournalReader()
        let report = try reader.judge([
            ("b", Array(([delivery(7, 1)] + opening.filter { $0.contains(#""client":"b""#) }).joined(separator: "\n").utf8)),
            ("a", Array(opening.filter { $0.contains(#""client":"a""#) }.joined(separator: "\n").utf8)),
        ])
        #expect(report.isClean, "\(report.text(clients: reader.clientNames))")
    }

    @Test("a recovery in pages is followed through history")
    func pages() throws {
        let page = { (offset: Int) in
            #"{"type":"chat","user":"alice","messageId":"m\#(offset)","position":"aaaaaaaa.\#(offset).bbbbbbb\#(offset)"}"#
        }
        let lines =
            opening + [
                delivery(7, 1), #"{"t":8,"client":"b","end":true}"#,
                #"{"t":9,"client":"b","out":{"type":"subscribe","id":1,"channel":"r","position":"aaaaaaaa.1.bbbbbbb1"}}"#,
                #"{"t":10,"client":"b","in":{"type":"ack","id":1,"channel":"r","offset":3,"position":"aaaaaaaa.3.bbbbbbb3","recovered":true,"more":true,"publications":[\#(page(2))]}}"#,
                #"{"t":11,"client":"b","out":{"type":"history","id":2,"channel":"r","since":"aaaaaaaa.2.bbbbbbb2"}}"#,
            ]
        let rest =
            #"{"t":12,"client":"b","in":{"type":"ack","id":2,"channel":"r","position":"aaaaaaaa.3.bbbbbbb3","publications":[\#(page(3))]}}"#
        #expect(try judge(lines + [rest, delivery(13, 4)]).isClean)
        #expect(try judge(lines).count(.lost) == 1)
    }

    @Test("a line that isn't a journal's is named")
    func malformed() {
        var reader = JournalReader()
        let problem = #expect(throws: JournalReader.Problem.self) {
            _ = try reader.judge([("one.jsonl", Array("{\"t\":1,\"client\":\"a\",\"end\":true}\n{\"t\":2}".utf8))])
        }
        #expect(problem?.description.hasPrefix("one.jsonl:2") == true)
    }
}
