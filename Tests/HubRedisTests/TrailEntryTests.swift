import HubBase
import HubCore
import HubRedis
import HubWire
import Testing

@Suite("an entry of a user's trail")
struct TrailEntryTests {
    private func parse(_ text: String) -> PresenceTransition? { Array(text.utf8).withUnsafeBytes { TrailEntry.parse($0) } }
    private func close(_ text: String) -> PresenceTransition? { Array(text.utf8).withUnsafeBytes { TrailEntry.close($0) } }

    @Test("as the scripts write it")
    func written() {
        let entry = parse("fl1796011158488123:1796011158488:4:hub217:rsxdpqu6wmqc-jpia6:node-17:de:vice1700000000000")
        #expect(
            entry
                == PresenceTransition(
                    status: .offline, cause: .lost, version: 1_796_011_158_488_123, time: 1_796_011_158_488, sweeper: "hub2",
                    connection: "rsxdpqu6wmqc-jpia", node: "node-1", device: "de:vice"))
        // The record was lost: nobody knows which connection it was.
        #expect(parse("fe9:8:0:0:")?.connection == .empty)
    }

    @Test(
        "what isn't ours is nothing",
        arguments: [
            "", "o", "oc", "xc1:1:0:0:", "oq1:1:0:0:", "oc:1:0:0:", "oc1::0:0:", "oc1:1:", "oc1:1:5:ab", "oc1:1:0:0:3:ab",
            "oc9007199254740992:1:0:0:", "oc1:1:0:0:2:ab2:cd", "oc1:1:0:0:2:ab2:cdx", "oc1:1:999:a",
        ])
    func foreign(_ text: String) { #expect(parse(text) == nil) }

    @Test("a close in grace, and what an older hub kept of it")
    func closes() {
        #expect(close("1796011158488;l4:ab-16:node-15:phone9")?.time == 1_796_011_158_488)
        #expect(close("1796011158488;x4:ab-16:node-15:phone9")?.cause == .left)
        for text in ["1796011158488", "", ";", "1;", "1;q0:", "1;l"] { #expect(close(text) == nil) }
    }
}
