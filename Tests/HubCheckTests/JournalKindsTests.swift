import HubBase
import HubCheck
import Testing

@Suite("Journals: what's found of each kind, and who isn't accused")
struct JournalKindsTests {
    typealias Script = JournalScript

    // MARK: Found

    @Test("a message whose id the hub made, or that went to the default channel, is owed like any other")
    func named() throws {
        for fields in [#""channel":"room:1","payload":1"#, #""messageId":"m6","payload":1"#, #""payload":1"#] {
            var script = Script.talk()
            script.out(6, "alice", #""type":"chat","id":"p6.0",\#(fields)"#)
            script.acked(6.1, "alice", "m6", at: 6, sent: 6)
            script.hears(6.1, "alice", "alice", "m6", at: 6)
            var heard = script
            script.ends(100, "alice", "bob")
            #expect(try script.faults() == [.lost: 1], "\(fields)")
            heard.hears(6.1, "bob", "alice", "m6", at: 6)
            heard.ends(100, "alice", "bob")
            #expect(try heard.faults() == [:])
        }
    }

    @Test("one message at two places is found whoever got it where, unless the first place holds another one, or is beyond the end")
    func places() throws {
        var others = Script.talk()
        others.ends(6, "alice", "bob")
        others.enters(7, "carol", at: 5)
        others.hears(8, "carol", "alice", "m3", at: 6)
        #expect(try others.faults() == [.contradiction: 1])

        var back = Script.talk()
        back.ends(6, "bob")
        back.enters(7, "bob", at: 5)
        back.hears(8, "bob", "alice", "m3", at: 6)
        #expect(try back.faults()[.contradiction] == 1)

        var moved = Script.talk(5, without: [5])
        moved.hears(5.3, "bob", "alice", "m5", at: 5, Script.at(5, tag: "z"))
        #expect(try moved.faults() == [.contradiction: 1], "one offset, two tags")
        moved.resync(5.4, "bob", to: Script.at(6, "y"))
        #expect(try moved.faults() == [:], "an old master's came late, and who got it was told")
        var tried = Script.talk(4)
        tried.sends(5, "alice", "m5")
        tried.hears(5.1, "bob", "alice", "m5", at: 5, Script.at(5, tag: "z"))
        tried.resync(6, "bob", to: Script.at(4))
        for client in ["alice", "bob"] { tried.hears(7, client, "alice", "m5", at: 5) }
        tried.acked(7.1, "alice", "m5", at: 5, sent: 5)
        #expect(try tried.faults() == [:], "its node tried it until it was acknowledged")

        // Somebody was told of something else.
        var told = Script.talk()
        told.ends(5.5, "bob")
        told.enters(5.6, "carol", at: 5)
        told.subscribes(5.8, "carol", Script.standing(5, recovered: false), from: "zzzzzzzz.1.zzzzzzzz")
        told.sends(6, "alice", "m3")
        told.acked(6.1, "alice", "m3", at: 6, sent: 6)
        told.hears(6.1, "carol", "alice", "m3", at: 6)
        told.ends(6.2, "alice", "carol")
        #expect(try told.faults()[.contradiction] == 1)

        var taken = Script.talk(3)
        taken.sends(4, "alice", "m4")
        taken.hears(4.1, "bob", "alice", "m4", at: 4)
        taken.ends(4.2, "alice", "bob")
        taken.enters(5, "carol", at: 3)
        taken.says(5.5, "carol", "c4", at: 4, Script.at(4, tag: "c"), to: ["carol"])
        taken.welcome(6, "alice")
        taken.says(6.5, "alice", "m4", at: 5, to: ["carol"])
        #expect(try taken.faults() == [:], "4 was taken back before it was acknowledged")
        var late = Script.talk()
        late.enters(5.5, "carol", at: 5)
        late.says(700, "alice", "m3", at: 6, to: ["alice", "bob", "carol"])
        #expect(try late.faults()[.contradiction] == nil, "its id is forgotten by then")
    }

    @Test("a message at two places was taken back where the channel forked before the first one, or somebody who stood there was told so")
    func placesOfAFork() throws {
        func script(_ happens: (inout JournalScript) -> Void) throws -> [CheckReport.Fault: UInt64] {
            var script = JournalScript.talk(3)
            for number in [4, 5] {
                script.sends(Double(number), "alice", "m\(number)")
                script.hears(Double(number) + 0.1, "bob", "alice", "m\(number)", at: number)
            }
            script.ends(5.2, "alice")
            happens(&script)
            script.ends(6.9, "bob")
            script.enters(7, "carol", at: 6)
            script.welcome(7, "alice")
            for number in [4, 5] { script.says(7.5, "alice", "m\(number)", at: number + 3, to: ["carol"]) }
            return try script.faults()
        }
        #expect(try script { _ in } == [.contradiction: 2], "nothing happened")
        let forked = try script { script in
            script.ends(5.5, "bob")
            script.enters(5.6, "dora", at: 3)
            script.says(5.8, "dora", "d4", at: 4, JournalScript.at(4, tag: "d"), to: ["dora"])
            script.ends(5.9, "dora")
        }
        #expect(forked == [:], "something else stands at 4, before 5")
        #expect(try script { $0.resync(6, "bob", to: JournalScript.at(6)) } == [:])
        #expect(try script { $0.resync(6, "bob", to: JournalScript.at(6), reason: "linkLost") } == [.contradiction: 2])
        #expect(try script { $0.resync(6, "bob", to: JournalScript.at(6, "y")) } == [:], "the epoch ended with what was taken back")
    }

    @Test("a recovery that the hub made by itself is judged from where the client had been brought to, or else within its page")
    func resumed() throws {
        func script(_ missed: [Int], knows: Bool = true) throws -> Set<CheckReport.Fault> {
            var script = Script.talk(3)
            script.ends(3.5, "bob")
            for number in 4...6 { script.says(Double(number), "alice", "m\(number)", at: number, to: ["alice"]) }
            let page = missed.map { Script.entry("alice", "m\($0)", at: $0) }
            script.welcome(30, knows ? "bob" : "carol", channels: #""room:1":{\#(Script.standing(6, recovered: true, missed: page))}"#)
            return Set(try script.faults().keys)
        }
        #expect(try script([4, 5, 6]) == [])
        #expect(try script([3, 4, 5, 6]) == [], "its last id was an older one")
        #expect(try script([4, 6]).isEmpty == false)
        #expect(try script([5, 6]).isEmpty == false)
        #expect(try script([]).isEmpty == false)
        #expect(try script([4, 5, 6], knows: false) == [])
        #expect(try script([4, 6], knows: false) == [.falseRecovery])
        #expect(try script([4, 5], knows: false) == [.falseRecovery])
    }

    @Test("who is sent back and gets the very same again gets it twice; what stands there now is something new")
    func rewound() throws {
        for tag in ["x", "n"] {
            var script = Script.talk()
            script.resync(5.5, "bob", to: Script.at(3))
            for offset in 4...5 { script.hears(6, "bob", "alice", "m\(offset)", at: offset, Script.at(offset, tag: tag)) }
            #expect(try script.faults()[.twice] == (tag == "x" ? 2 : nil))
        }
    }

    @Test("a chat that comes as an event contradicts")
    func classes() throws {
        var script = Script.talk(5, without: [5])
        script.got(5.3, "bob", Script.publication("alice", "m5", at: 5, kind: "event"))
        #expect(try script.faults() == [.contradiction: 1])
    }

    @Test("an ack for what wasn't asked, or was answered before, contradicts")
    func unasked() throws {
        var script = Script.talk()
        script.acked(6, "alice", "m6", at: 6, sent: 99)
        #expect(try script.faults()[.contradiction] == 1)
        var again = Script.talk()
        again.acked(6, "alice", "m5", at: 5, sent: 5)
        #expect(try again.faults() == [.contradiction: 1])
    }

    @Test("another payload under the same id that's acknowledged contradicts; refused it doesn't, nor does the sender's muddle")
    func conflicts() throws {
        var script = Script.talk()
        script.sends(6, "alice", "m5", payload: 2)
        var refused = script
        script.acked(6.1, "alice", "m5", at: 5, sent: 6, isDuplicate: true)
        #expect(try script.faults() == [.contradiction: 1])
        refused.got(6.1, "alice", #""type":"error","id":"p6.0","code":"duplicateConflict","message":"x","retry":false"#)
        #expect(try refused.faults() == [:])

        var muddled = Script.talk(3)
        for (time, payload) in [(4.0, 1), (4.1, 2), (4.2, 2)] { muddled.sends(time, "alice", "m4", payload: payload) }
        for client in ["alice", "bob"] { muddled.hears(4.3, client, "alice", "m4", at: 4) }
        #expect(try muddled.faults() == [:], "the first one stands")
        muddled.acked(4.4, "alice", "m4", at: 4, sent: 4.2)
        #expect(try muddled.faults() == [.contradiction: 1], "it isn't what was acknowledged")
    }

    @Test(
        "a line that's neither is refused, with its number",
        arguments: [
            #""note":"x""#, #""end":false"#, #""end":1"#, #""IN":{"type":"pong"}"#, #""in":{"type":"pong"},"end":true"#, #""out":1"#,
            #""end":true,"heard":"x""#, #""killed":false"#,
        ])
    func refused(_ rest: String) throws {
        var script = Script.talk(1)
        let number = script.lines.count + 1
        script.line(6, "bob", rest)
        let problem = #expect(throws: JournalReader.Problem.self) { _ = try script.report() }
        #expect(problem?.description.hasPrefix("journal:\(number): ") == true, "\(problem?.description ?? "")")
    }

    // MARK: Not accused

    @Test("requests may be sent before the welcome: it says in whose name, also over HTTP, where there's none")
    func early() throws {
        var script = JournalScript()
        script.out(0, "alice", #""type":"subscribe","id":1,"channel":"room:1""#)
        script.sends(0.01, "alice", "m1")
        script.welcome(0.05, "alice")
        script.got(0.1, "alice", #""type":"ack","id":1,\#(Script.standing(0))"#)
        script.hears(0.2, "alice", "alice", "m1", at: 1)
        script.acked(0.3, "alice", "m1", at: 1, sent: 0.01)
        // Another one on the same journal name, and the backend.
        script.ends(20, "alice")
        script.sends(21, "alice", "m2")
        script.got(21.1, "alice", #""type":"system","event":"welcome","user":"alba","channels":{"room:1":{\#(Script.standing(1))}}"#)
        script.hears(21.2, "alice", "alba", "m2", at: 2)
        script.acked(21.3, "alice", "m2", at: 2, sent: 21)
        for number in 3...4 {
            script.sends(Double(number) + 20, "backend", "b\(number)")
            script.got(Double(number) + 20.1, "alice", Script.publication("", "b\(number)", at: number).replacing(#""user":"","#, with: ""))
            script.acked(Double(number) + 20.2, "backend", "b\(number)", at: number, sent: Double(number) + 20)
        }
        let report = try script.report()
        #expect(report.isClean, "\(report.text())")
        #expect((report.sent, report.acknowledged, report.unanswered) == (4, 4, 0))
    }

    @Test("who subscribes without an id hears from the first message on, is owed the rest, and may be refused")
    func silent() throws {
        var script = JournalScript()
        for client in ["alice", "bob"] { script.welcome(0, client) }
        script.out(0.1, "bob", #""type":"subscribe","channels":["room:1"]"#)
        var unasked = script
        unasked.lines.removeLast()
        script.says(1, "alice", "m1", at: 1, to: ["bob"])
        unasked.says(1, "alice", "m1", at: 1, to: ["bob"])
        #expect(try script.faults() == [:])
        #expect(try unasked.faults() == [.unasked: 1])
        var hole = script
        hole.says(2, "alice", "m2", at: 2, to: [])
        #expect(try hole.faults() == [.lost: 1])
        script.out(3, "bob", #""type":"subscribe","channel":"room:1""#)
        script.got(3.1, "bob", #""type":"error","code":"tooMany","message":"x","retry":false"#)
        script.says(4, "alice", "m2", at: 2, to: [])
        #expect(try script.faults() == [:])
    }

    @Test("who unsubscribes without an id may still get what was under way, in order, and nothing later")
    func leaves() throws {
        var script = Script.talk()
        script.out(6, "bob", #""type":"unsubscribe","channel":"room:1""#)
        script.says(7, "alice", "m6", at: 6, to: ["alice", "bob"])
        script.says(30, "alice", "m7", at: 7, to: ["alice"])
        var late = script
        var back = script
        #expect(try script.faults() == [:])
        late.hears(31, "bob", "alice", "m7", at: 7)
        #expect(try late.faults() == [.unasked: 1])
        back.subscribes(40, "bob", Script.standing(7))
        #expect(try back.faults() == [:])
        var twice = Script.talk()
        twice.out(6, "bob", #""type":"unsubscribe","channel":"room:1""#)
        twice.hears(6.1, "bob", "alice", "m5", at: 5)
        #expect(try twice.faults() == [.twice: 1])
    }

    @Test("one id may be several requests': answers are told apart by what they carry")
    func repeatedId() throws {
        var script = JournalScript()
        script.welcome(0, "alice")
        script.out(0.1, "alice", #""type":"subscribe","id":1,"channel":"room:1""#)
        script.out(0.2, "alice", #""type":"read","id":1,"channel":"room:1","payload":{"offset":1}"#)
        for number in 1...2 {
            script.out(0.2, "alice", #""type":"chat","id":1,"channel":"room:1","messageId":"m\#(number)","payload":1"#)
        }
        script.out(0.3, "alice", #""type":"ping","id":1"#)
        script.got(0.3, "alice", #""type":"pong","id":1"#)
        script.got(0.4, "alice", #""type":"ack","id":1,\#(Script.standing(0))"#)
        script.got(0.5, "alice", #""type":"ack","id":1,"channel":"room:1","offset":1"#)
        for number in 1...2 {
            script.hears(0.6, "alice", "alice", "m\(number)", at: number)
            script.got(
                0.7, "alice",
                #""type":"ack","id":1,"channel":"room:1","messageId":"m\#(number)","offset":\#(number),"position":"\#(Script.at(number))""#)
        }
        let report = try script.report()
        #expect(report.isClean, "\(report.text())")
        #expect(report.acknowledged == 2)

        // One of two was refused, and nobody can say which.
        var refused = Script.talk()
        refused.out(6, "bob", #""type":"subscribe","id":7,"channel":"room:1""#)
        refused.out(6, "bob", #""type":"chat","id":7,"channel":"room:2","messageId":"b1","payload":1"#)
        refused.got(6.1, "bob", #""type":"error","id":7,"code":"forbidden","message":"x","retry":false"#)
        var subscribed = refused
        refused.says(7, "alice", "m6", at: 6, to: ["alice"])
        #expect(try refused.faults() == [:])
        subscribed.got(6.2, "bob", #""type":"ack","id":7,\#(Script.standing(5))"#)
        subscribed.says(7, "alice", "m6", at: 6, to: ["alice", "bob"])
        #expect(try subscribed.faults() == [:])
    }

    @Test("a refreshed token's channels are subscribed without an answer; what's unsubscribed since isn't")
    func refreshed() throws {
        var script = JournalScript()
        for client in ["alice", "bob"] { script.welcome(0, client) }
        script.out(0.1, "bob", #""type":"connect","id":1,"token":"t""#)
        script.got(0.2, "bob", #""type":"ack","id":1,"user":"bob""#)
        script.says(1, "alice", "m1", at: 1, to: ["bob"])
        #expect(try script.faults() == [:])
        var hole = script
        hole.says(2, "alice", "m2", at: 2, to: [])
        #expect(try hole.faults() == [.lost: 1])
        script.out(2, "bob", #""type":"unsubscribe","id":2,"channel":"room:1""#)
        script.got(2.1, "bob", #""type":"ack","id":2,"channel":"room:1""#)
        script.says(30, "alice", "m2", at: 2, to: ["bob"])
        #expect(try script.faults() == [.unasked: 1])
    }
}
