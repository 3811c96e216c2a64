import HubBase
import HubCore
import Testing

import HubGateway

@Suite("Health: the data path is proven or it isn't")
struct HealthMachineTests {
    private let start = Instant(nanoseconds: 1_000_000_000_000)

    @Test("ready only once a probe has come back, never because a link says so")
    func ready() {
        var machine = HealthMachine()
        #expect(machine.takeChange(at: start) == nil, "starting isn't degraded")
        machine.brokerChanged(.up, at: start)
        #expect(machine.takeChange(at: start) == nil)
        #expect(machine.probeIsDue(at: start) == true)
        #expect(machine.probeIsDue(at: start + .milliseconds(1999)) == false)
        machine.probeReturned(at: start + .milliseconds(1))
        #expect(machine.takeChange(at: start + .milliseconds(1)) == .up)
        #expect(machine.takeChange(at: start + .milliseconds(2)) == nil)
    }

    @Test("a path that swallows probes is down within five seconds of the last good one")
    func silent() {
        var machine = HealthMachine()
        machine.brokerChanged(.up, at: start)
        _ = machine.probeIsDue(at: start)
        machine.probeReturned(at: start)
        #expect(machine.takeChange(at: start) == .up)
        _ = machine.probeIsDue(at: start + .seconds(2))
        #expect(machine.takeChange(at: start + .milliseconds(4_700)) == nil)
        guard case .down = machine.takeChange(at: start + .milliseconds(4_900)) else {
            Issue.record("still up")
            return
        }
        machine.probeReturned(at: start + .seconds(6))
        #expect(machine.takeChange(at: start + .seconds(6)) == .up)
    }

    @Test("a link that says it's down is believed at once, and a new link must be proven anew")
    func link() {
        var machine = HealthMachine()
        machine.brokerChanged(.up, at: start)
        _ = machine.probeIsDue(at: start)
        machine.probeReturned(at: start)
        _ = machine.takeChange(at: start)
        machine.brokerChanged(.down("connection refused"), at: start + .seconds(1))
        #expect(machine.takeChange(at: start + .seconds(1)) == .down("connection refused"))
        machine.brokerChanged(.up, at: start + .seconds(2))
        #expect(machine.takeChange(at: start + .seconds(2)) == nil)
        #expect(machine.probeIsDue(at: start + .seconds(2)) == true)
    }

    @Test("another reason for being down is told: what an operator mends during an outage shows at once")
    func reasons() {
        var machine = HealthMachine()
        machine.brokerChanged(.up, at: start)
        _ = machine.probeIsDue(at: start)
        machine.probeReturned(at: start)
        _ = machine.takeChange(at: start)
        machine.brokerChanged(.down("end of stream"), at: start + .seconds(1))
        #expect(machine.takeChange(at: start + .seconds(1)) == .down("end of stream"))
        #expect(machine.takeChange(at: start + .seconds(2)) == nil)
        machine.brokerChanged(.down("the password is wrong"), at: start + .seconds(3))
        #expect(machine.takeChange(at: start + .seconds(3)) == .down("the password is wrong"))
        #expect(machine.takeChange(at: start + .seconds(4)) == nil)
        // The link holds again, and who was shut out can't be read.
        machine.lacksRevocations = true
        machine.brokerChanged(.up, at: start + .seconds(5))
        _ = machine.probeIsDue(at: start + .seconds(5))
        machine.probeReturned(at: start + .seconds(5))
        #expect(machine.takeChange(at: start + .seconds(6)) == nil, "reading them takes a moment")
        #expect(machine.takeChange(at: start + .seconds(9)) == .down("the revocations of tokens can't be read"))
    }

    @Test("a path that stays silent is told once, not with each millisecond that passes")
    func silentOnce() {
        var machine = HealthMachine()
        machine.brokerChanged(.up, at: start)
        _ = machine.probeIsDue(at: start)
        machine.probeReturned(at: start)
        _ = machine.takeChange(at: start)
        var told = 0
        for step in 1...200 where machine.takeChange(at: start + .milliseconds(UInt64(step) * 100)) != nil { told += 1 }
        #expect(told == 1)
    }

    @Test("a store that's full is told by the first probe that finds it so, and is over when two in a row have found room")
    func full() {
        var machine = HealthMachine()
        machine.brokerChanged(.up, at: start)
        _ = machine.probeIsDue(at: start)
        machine.probeReturned(at: start)
        #expect(machine.takeChange(at: start) == .up)
        machine.probeFoundFull(at: start + .seconds(2))
        guard case .full(let reason) = machine.takeChange(at: start + .seconds(2)) else {
            Issue.record("not full")
            return
        }
        #expect(reason.contains("storeFull"))
        // One that finds a little room between two that don't changes nothing.
        machine.probeReturned(at: start + .seconds(4))
        machine.probeFoundFull(at: start + .seconds(6))
        machine.probeReturned(at: start + .seconds(8))
        #expect(machine.takeChange(at: start + .seconds(8)) == nil)
        machine.probeReturned(at: start + .seconds(10))
        #expect(machine.takeChange(at: start + .seconds(10)) == .up)
        // What doesn't come back any more is down, full or not.
        machine.probeFoundFull(at: start + .seconds(12))
        _ = machine.takeChange(at: start + .seconds(12))
        guard case .down = machine.takeChange(at: start + .seconds(17)) else {
            Issue.record("still there")
            return
        }
    }

    @Test("a node that can't read which tokens were revoked isn't ready: a moment passes in silence, more is said")
    func revocations() {
        var machine = HealthMachine()
        machine.lacksRevocations = true
        machine.brokerChanged(.up, at: start)
        _ = machine.probeIsDue(at: start)
        machine.probeReturned(at: start)
        #expect(machine.takeChange(at: start + .milliseconds(100)) == nil)
        machine.probeReturned(at: start + .seconds(3))
        guard case .down = machine.takeChange(at: start + .seconds(3)) else {
            Issue.record("nothing is said")
            return
        }
        machine.lacksRevocations = false
        machine.probeReturned(at: start + .seconds(4))
        #expect(machine.takeChange(at: start + .seconds(4)) == .up)
        // Read anew while the path holds, it stays ready; after the path was lost it waits.
        machine.lacksRevocations = true
        #expect(machine.takeChange(at: start + .milliseconds(4100)) == nil)
        machine.brokerChanged(.down("gone"), at: start + .seconds(5))
        _ = machine.takeChange(at: start + .seconds(5))
        machine.brokerChanged(.up, at: start + .seconds(6))
        machine.probeReturned(at: start + .seconds(6))
        #expect(machine.takeChange(at: start + .seconds(6)) == nil)
        machine.lacksRevocations = false
        #expect(machine.takeChange(at: start + .milliseconds(6100)) == .up)
    }

    @Test("the world isn't told the addresses in a link's words")
    func publicly() {
        var machine = HealthMachine()
        machine.brokerChanged(.down("redis://10.0.0.7:6379/0: connection refused"), at: start)
        let change = machine.takeChange(at: start)
        #expect(change == .down("redis://10.0.0.7:6379/0: connection refused"), "the log's")
        #expect(machine.isLinkDown)
        #expect(HealthMachine.publicly(change ?? .up, isLink: true) == .down("the link to Redis is down"))
        #expect(HealthMachine.publicly(.down("no probe has come back"), isLink: false) == .down("no probe has come back"))
        #expect(HealthMachine.publicly(.up, isLink: false) == .up)
        #expect(HealthMachine.publicly(change ?? .up, isLink: true, outage: "1 of 3 masters is away") == .down("1 of 3 masters is away"))
    }

    @Test("a node that stood still doesn't take that for a path that swallows probes")
    func pause() {
        var machine = HealthMachine()
        machine.brokerChanged(.up, at: start)
        machine.look(at: start)
        _ = machine.probeIsDue(at: start)
        machine.probeReturned(at: start)
        #expect(machine.takeChange(at: start) == .up)
        machine.look(at: start + .seconds(60))
        #expect(machine.takeChange(at: start + .seconds(60)) == nil)
        // From there on time counts again.
        var now = start + .seconds(60)
        for _ in 0..<100 {
            now = now + .milliseconds(50)
            machine.look(at: now)
        }
        guard case .down = machine.takeChange(at: now) else {
            Issue.record("still up")
            return
        }
    }
}
