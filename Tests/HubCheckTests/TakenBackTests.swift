import HubBase
import HubCheck
import Testing

/// What was acknowledged and is gone must be told to everybody who stood before it (decisions 0250, 0318).
@Suite("Journals: what was taken back")
struct TakenBackTests {
    typealias Script = JournalScript

    /// Whether each of them stays to the end or goes long after, the same is found.
    func faults(_ script: Script, leaving clients: [String]) throws -> Set<CheckReport.Fault> {
        var left = script
        for client in clients { left.ends(100, client) }
        let found = Set(try script.faults().keys)
        #expect(try Set(left.faults().keys) == found)
        return found
    }

    @Test("two lines of messages at the same places, each acknowledged to its own sender, are found, however long both go on")
    func split() throws {
        for length in [1, 10] {
            var script = Script.talk()
            for number in 6..<6 + length {
                for (client, tag) in [("alice", "a"), ("bob", "b")] {
                    script.says(Double(number), client, "\(tag)\(number)", at: number, Script.at(number, tag: tag), to: [client])
                }
            }
            #expect(try faults(script, leaving: ["alice", "bob"]) == [.lost])
        }
    }

    @Test(
        "who is told recovered, and brought to what took the place of an acknowledged message, was recovered falsely; whoever is told wasn't"
    )
    func recovery() throws {
        for isTold in [true, false] {
            var script = Script.talk(3)
            script.ends(3.5, "bob")
            script.says(4, "alice", "m4", at: 4, to: ["alice"])
            script.resync(6, "alice", to: Script.at(3))
            script.says(7, "alice", "n4", at: 4, Script.at(4, tag: "n"), to: ["alice"])
            script.welcome(8, "bob")
            let there = Script.at(4, tag: "n")
            let missed = isTold ? [] : [Script.entry("alice", "n4", at: 4, there)]
            script.subscribes(8.1, "bob", Script.standing(4, there, recovered: !isTold, missed: missed), from: Script.at(3))
            #expect(try faults(script, leaving: ["alice", "bob"]) == (isTold ? [] : [.falseRecovery]))
        }
    }

    @Test("a place that was reused in silence is found though all goes on from it, also where nobody had heard what stood there")
    func reused() throws {
        for isTold in [true, false] {
            var script = Script.talk(3)
            script.ends(3.5, "alice")
            script.welcome(3.6, "alice")
            script.says(4, "alice", "m4", at: 4, to: [])
            if isTold { script.resync(4.5, "bob", to: Script.at(3)) }
            script.says(5, "alice", "n4", at: 4, Script.at(4, tag: "n"), to: ["bob"])
            script.says(6, "alice", "n5", at: 5, to: ["bob"])
            #expect(try faults(script, leaving: ["alice", "bob"]) == (isTold ? [] : [.lost]))
        }
    }

    @Test("telling the one who was acknowledged isn't telling the others; a new epoch, told to everybody, is")
    func everybody() throws {
        for told in [["alice"], ["bob"], ["alice", "bob"]] {
            var script = Script.talk(5, without: [5])
            script.sends(5.2, "bob", "x5")
            script.acked(5.4, "bob", "x5", at: 5, Script.at(5, tag: "z"), sent: 5.2)
            script.hears(5.3, "bob", "bob", "x5", at: 5, Script.at(5, tag: "z"))
            for client in told { script.resync(6, client, to: Script.at(5, "y", tag: "z")) }
            #expect(try faults(script, leaving: ["alice", "bob"]) == (told.count == 2 ? [] : [.lost]), "\(told)")
        }
    }

    @Test("what a killed node acknowledged may go without a word: nobody else knows of it; another node's may not")
    func killed() throws {
        for (node, isExcused) in [("n1", true), ("n2", false)] {
            var script = Script.talk(3)
            script.ends(3.5, "alice")
            script.welcome(3.6, "alice")
            script.says(4, "alice", "m4", at: 4, to: [])
            script.line(4.5, node, #""killed":true"#)
            script.says(5, "alice", "n4", at: 4, Script.at(4, tag: "n"), to: ["bob"])
            #expect(try faults(script, leaving: ["bob"]) == (isExcused ? [] : [.lost]))
        }
    }

    @Test("what goes while a hub says that it's degraded needn't know; once all has been well for the grace, it must")
    func degraded() throws {
        for (restored, isOwed) in [(nil, false), (80, true), (95, false)] as [(Double?, Bool)] {
            var script = Script.talk(3)
            script.enters(3.5, "carol", at: 3)
            script.got(3.8, "carol", #""type":"system","event":"degraded","reason":"redis""#)
            script.sends(4, "alice", "m4")
            script.acked(4.1, "alice", "m4", at: 4, sent: 4)
            script.ends(4.2, "alice")
            script.sends(4.5, "bob", "n4")
            script.acked(4.7, "bob", "n4", at: 4, Script.at(4, tag: "n"), sent: 4.5)
            script.hears(4.6, "bob", "bob", "n4", at: 4, Script.at(4, tag: "n"))
            if let restored { script.got(restored, "carol", #""type":"system","event":"restored""#) }
            script.ends(100, "bob", "carol")
            #expect(try script.faults()[.lost] ?? 0 == (isOwed ? 2 : 0))
        }
    }

    // MARK: Tails

    @Test("the repeat of an older message, said to be one or seen to be one, hides nothing that was acknowledged behind it")
    func repeated() throws {
        for (isSaid, isHeard) in [(true, true), (true, false), (false, true)] {
            var script = Script.talk(3)
            script.enters(0.5, "carol")
            for number in 1...3 { script.hears(Double(number) + 0.01, "carol", "alice", "m\(number)", at: number) }
            // Its ack is lost with the connection.
            script.sends(4, "alice", "m4")
            if isHeard { for client in ["bob", "carol"] { script.hears(4.1, client, "alice", "m4", at: 4) } }
            script.ends(4.2, "alice")
            if !isHeard { script.resync(4.5, "bob", to: Script.at(4)) }
            if !isHeard { script.resync(4.5, "carol", to: Script.at(4)) }
            script.says(5, "carol", "m5", at: 5, to: ["carol"])
            script.enters(6, "alice", at: 5)
            script.sends(6.5, "alice", "m4")
            script.acked(6.6, "alice", "m4", at: 4, sent: 6.5, isDuplicate: isSaid)
            #expect(try faults(script, leaving: ["alice", "bob", "carol"]) == [.lost], "\(isSaid) \(isHeard)")
        }
    }

    @Test("a repeat that's acknowledged in an epoch that has ended doesn't hide what's lost of the new one")
    func repeatedOfBefore() throws {
        var script = Script.talk(3)
        script.sends(4, "alice", "m4")
        script.hears(4.1, "bob", "alice", "m4", at: 4)
        script.ends(4.2, "alice")
        script.resync(4.5, "bob", to: Script.at(4, "y"))
        script.enters(5, "carol", at: 0)
        script.resync(5.2, "carol", to: Script.at(4, "y"))
        script.says(5.5, "carol", "c5", at: 5, Script.at(5, "y"), to: ["carol"])
        script.welcome(6, "alice")
        script.sends(6.5, "alice", "m4")
        script.acked(6.6, "alice", "m4", at: 4, sent: 6.5, isDuplicate: true)
        #expect(try faults(script, leaving: ["bob", "carol"]) == [.lost])
    }

    @Test("an answer that lies behind what was acknowledged long before is owed the rest, whatever kind of answer it is")
    func stale() throws {
        var fresh = Script.talk()
        fresh.ends(6, "bob")
        fresh.says(7, "alice", "m6", at: 6, to: ["alice"])
        fresh.welcome(40, "bob")
        var unrecovered = fresh
        var resynced = Script.talk(5, without: [4, 5])
        fresh.subscribes(40.1, "bob", Script.standing(5))
        unrecovered.subscribes(40.1, "bob", Script.standing(5, recovered: false), from: "zzzzzzzz.5.zzzzzzzz")
        resynced.resync(5.5, "bob", to: Script.at(4))
        for script in [fresh, unrecovered, resynced] {
            #expect(try faults(script, leaving: ["alice", "bob"]) == [.lost])
            var soon = script
            soon.ends(45, "bob")
            #expect(try soon.faults()[.lost] == (script.lines == resynced.lines ? 1 : nil), "the grace isn't over")
        }
    }
}
