import HubConsole
import Testing

@Suite("hubctl presence --explain")
struct ExplanationTextTests {
    private static let plain = Terminal(hasColour: false)

    @Test("the sentence, the connections, the transitions")
    func whole() {
        let body =
            #"{"user":"alice","status":"online","version":7,"lastSeen":1796011080000,"because":"online because of x","now":1796011200000,"#
            + #""connections":[{"connection":"n1-1","node":"n1","device":"phone","state":"online","since":1796011080000,"leaseLeft":71400,"#
            + #""answer":"here","address":"192.0.2.7:4000","heardAgo":3100},{"connection":"n2-9","node":"n2","device":"laptop","#
            + #""state":"away","since":1796011199000,"leaseLeft":0,"answer":"nodeGone"}],"#
            + #""transitions":[{"status":"offline","version":6,"time":1796011079005,"cause":"nodeDead","connection":"n0-1","node":"n0","#
            + #""device":"phone","sweptBy":"n2"},{"status":"online","version":7,"time":1796011080000,"cause":"connected","#
            + #""connection":"n1-1","node":"n1","device":"phone"}]}"#
        #expect(
            ExplanationText.lines(Array(body.utf8), on: Self.plain) == [
                "alice is online because of x.",
                "",
                "connections",
                "  device  node  state   address         age    last heard    lease left  connection",
                "  phone   n1    online  192.0.2.7:4000  2 min  3 s ago       1 min       n1-1",
                "  laptop  n2    away    -               1 s    node is gone  ran out     n2-9",
                "",
                "the last 2 transitions",
                "  time (UTC)          status   cause                   device  node  version  connection",
                "  11-30 03:57:59.005  offline  node dead, swept by n2  phone   n0    6        n0-1",
                "  11-30 03:58:00.000  online   connected               phone   n1    7        n1-1",
            ])
    }

    @Test("nothing known is said, control characters are made harmless")
    func sparse() {
        let body = #"{"user":"x","status":"offline","because":"offline\u001b[31m","now":1,"connections":[],"transitions":[]}"#
        #expect(
            ExplanationText.lines(Array(body.utf8), on: Self.plain) == [
                "x is offline\u{FFFD}[31m.", "", "no connection", "", "no transition is kept",
            ])
        #expect(ExplanationText.lines(Array(#"{"user":"x","status":"offline"}"#.utf8), on: Self.plain) == nil)
    }
}
