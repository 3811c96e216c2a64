import Foundation
import HubBase
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

    func page(_ offset: Int) -> String {
        #"{"type":"chat","user":"alice","messageId":"m\#(offset)","position":"aaaaaaaa.\#(offset).bbbbbbb\#(offset)"}"#
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

    @Test("a recovery that breaks off midway is an announced gap, and its last page must end where it says")
    func broken() throws {
        let lines =
            opening + [
                delivery(7, 1), #"{"t":8,"client":"b","end":true}"#,
                #"{"t":9,"client":"b","out":{"type":"subscribe","id":1,"channel":"r","position":"aaaaaaaa.1.bbbbbbb1"}}"#,
                #"{"t":10,"client":"b","in":{"type":"ack","id":1,"channel":"r","offset":2,"position":"aaaaaaaa.2.bbbbbbb2","recovered":true,"more":true,"publications":[\#(page(2))]}}"#,
                #"{"t":11,"client":"b","out":{"type":"history","id":2,"channel":"r","since":"aaaaaaaa.2.bbbbbbb2"}}"#,
            ]
        func ends(_ fields: String) -> String {
            #"{"t":12,"client":"b","in":{"type":"ack","id":2,"channel":"r","position":"aaaaaaaa.3.bbbbbbb3",\#(fields)}}"#
        }
        let told = try judge(lines + [ends(#""recovered":false,"reason":"trimmed""#), delivery(13, 4)])
        #expect(told.isClean)
        #expect(told.unrecovered == 1)
        #expect(try judge(lines + [ends(#""recovered":true"#), delivery(13, 4)]).counts == [.falseRecovery: 1])
    }

    /// `bob` gets `m1` of `m1` and `m2`, which are acknowledged at 7 and 9 s, and does something at 300 s.
    func tail(_ lines: [String], grace: Span = DeliveryChecker.grace) throws -> [CheckReport.Fault: UInt64] {
        var reader = JournalReader(grace: grace)
        let second = [
            delivery(7_000_000, 1),
            #"{"t":8000000,"client":"a","out":{"type":"chat","id":"y","channel":"r","messageId":"m2","payload":1}}"#,
            #"{"t":9000000,"client":"a","in":{"type":"ack","id":"y","channel":"r","messageId":"m2","offset":2,"position":"aaaaaaaa.2.bbbbbbb2"}}"#,
        ]
        return try reader.judge([("journal", Array((opening + second + lines).joined(separator: "\n").utf8))]).counts
    }

    @Test("a lost tail is found when its reader's connection ends, when it unsubscribes, and when it subscribes again past it")
    func tails() throws {
        let end = #"{"t":300000000,"client":"b","end":true}"#
        #expect(try tail([end]) == [.lost: 1])
        #expect(try tail([end], grace: .seconds(300)) == [:])
        #expect(try tail([#"{"t":300000000,"client":"b","end":true,"heard":18999999}"#]) == [:])
        #expect(try tail([#"{"t":300000000,"client":"b","end":true,"heard":19000000}"#]) == [.lost: 1])
        let unsubscribes = [
            #"{"t":299000000,"client":"b","out":{"type":"unsubscribe","id":2,"channel":"r"}}"#,
            #"{"t":299000001,"client":"b","in":{"type":"ack","id":2,"channel":"r"}}"#,
        ]
        #expect(try tail(unsubscribes + [end]) == [.lost: 1])
        let again = [
            #"{"t":299000000,"client":"b","out":{"type":"subscribe","id":2,"channel":"r"}}"#,
            #"{"t":299000001,"client":"b","in":{"type":"ack","id":2,"channel":"r","offset":2,"position":"aaaaaaaa.2.bbbbbbb2"}}"#,
        ]
        #expect(try tail(again) == [.lost: 1, .gap: 1])
        let degraded = [#"{"t":9500000,"client":"b","in":{"type":"system","event":"degraded","reason":"gone"}}"#]
        #expect(try tail(degraded + [end]) == [:])
        #expect(try tail(degraded + [#"{"t":99500000,"client":"b","in":{"type":"system","event":"restored"}}"#, end]) == [.lost: 1])
    }

    @Test("a refused subscription ends the one before it; the next begins anew")
    func refusedSubscription() throws {
        func refused(_ answer: String) -> [String] {
            [
                #"{"t":10000000,"client":"b","out":{"type":"subscribe","id":2,"channels":["r"]}}"#,
                #"{"t":10000001,"client":"b","in":{\#(answer)}}"#,
                #"{"t":11000000,"client":"b","out":{"type":"subscribe","id":3,"channel":"r"}}"#,
                #"{"t":11000001,"client":"b","in":{"type":"ack","id":3,"channel":"r","offset":2,"position":"aaaaaaaa.2.bbbbbbb2"}}"#,
            ]
        }
        #expect(try tail(refused(#""type":"error","id":2,"code":"unavailable","message":"x","retry":true"#)) == [:])
        #expect(
            try tail(refused(#""type":"ack","id":2,"channels":[{"channel":"r","code":"unavailable","message":"x","retry":true}]"#)) == [:])
    }

    @Test("another payload than was sent, or than others got, contradicts; another way to write it doesn't")
    func payloads() throws {
        func judged(_ sent: String, _ got: String, replaces: Bool = false) throws -> [CheckReport.Fault: UInt64] {
            var lines = opening
            lines[4] = lines[4].replacingOccurrences(of: #""payload":1"#, with: #""payload":\#(sent)"#)
            lines.append(delivery(7, 1).replacingOccurrences(of: #""payload":1"#, with: #""payload":\#(got)"#))
            var reader = JournalReader(replacesPayloads: replaces)
            return try reader.judge([("journal", Array(lines.joined(separator: "\n").utf8))]).counts
        }
        let same = [
            ("1", "1"), ("1", "1.0"), ("1e3", "1000"), (#"{"a":[1,"é",null]}"#, #"{ "a" : [1, "\u00e9" ,null] }"#),
            ("9007199254740993", "9007199254740993"),
        ]
        for (sent, got) in same { #expect(try judged(sent, got) == [:], "\(sent) and \(got)") }
        let other = [
            ("1", "2"), ("1", #""1""#), (#"{"a":1,"b":2}"#, #"{"a":2,"b":1}"#), ("[[1],2]", "[[1,2]]"), ("true", "false"),
            (#"["a","b"]"#, #"["ab"]"#),
            ("9007199254740993", "9007199254740992"),
        ]
        for (sent, got) in other { #expect(try judged(sent, got) == [.contradiction: 1], "\(sent) and \(got)") }
        #expect(try judged("1", "2", replaces: true) == [:])
    }

    @Test("an offset that isn't its position's contradicts, wherever the two stand")
    func offsets() throws {
        let delivered = delivery(7, 1).replacingOccurrences(of: #""position""#, with: #""offset":77,"position""#)
        #expect(try judge(opening + [delivered]).counts == [.contradiction: 1])
        var lines = opening + [delivery(7, 1)]
        lines[5] = lines[5].replacingOccurrences(of: #""offset":1"#, with: #""offset":3"#)
        #expect(try judge(lines).counts == [.contradiction: 1])
        lines = opening + [delivery(7, 1)]
        lines[3] = lines[3].replacingOccurrences(of: #""offset":0"#, with: #""offset":1"#)
        #expect(try judge(lines).counts == [.contradiction: 1])
    }

    @Test("an ack that names another message or channel than was asked contradicts")
    func acknowledgesAnother() throws {
        for (field, other) in [
            (#""messageId":"m1""#, #""messageId":"m2""#), (#""channel":"r""#, #""channel":"q""#), (#""messageId":"m1""#, #""messageId":7"#),
        ] {
            var lines = opening + [delivery(7, 1)]
            lines[5] = lines[5].replacingOccurrences(of: field, with: other)
            #expect(try judge(lines).counts == [.contradiction: 1], "\(other)")
        }
    }

    @Test("what was refused for good and came all the same contradicts; what may have happened before the refusal doesn't")
    func refusedYetDelivered() throws {
        func judged(_ answer: String, retried: Bool = false) throws -> [CheckReport.Fault: UInt64] {
            var lines = opening
            lines[5] = #"{"t":6,"client":"a","in":{"type":"error","id":"x",\#(answer)}}"#
            if retried {
                lines.insert(#"{"t":5,"client":"a","out":{"type":"chat","id":"w","channel":"r","messageId":"m1","payload":1}}"#, at: 4)
            }
            return try judge(lines + [delivery(7, 1)]).counts
        }
        for code in ["forbidden", "tooLarge", "malformed"] {
            #expect(try judged(#""code":"\#(code)","message":"x","retry":false"#) == [.contradiction: 1])
        }
        for code in ["uncertain", "internal", "duplicateConflict"] {
            #expect(try judged(#""code":"\#(code)","message":"x","retry":false"#) == [:])
        }
        #expect(try judged(#""code":"unavailable","message":"x","retry":true"#) == [:])
        #expect(
            try judged(#""code":"forbidden","message":"x","retry":false"#, retried: true) == [:], "the first attempt was never answered")
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
