import HubBase
import HubCore
import Testing

/// What a node keeps of one user in a channel: how many devices, whatever became of their connections.
@Suite("One user's connections in a channel") struct LocalMemberTests {
    private let start = Instant(nanoseconds: 1_000_000_000)

    @Test("devices with a name count once each, those without one by connection, hidden ones not at all")
    func devices() {
        var member = LocalMember()
        #expect(member.isEmpty && member.devices == 0)
        member.add(1, device: "phone", isVisible: true)
        member.add(2, device: "phone", isVisible: true)
        member.add(3, device: "tablet", isVisible: false)
        #expect(member.devices == 1)
        member.show(true, 3)
        member.add(4, device: "", isVisible: true)
        member.add(5, device: "", isVisible: true)
        #expect(member.devices == 4 && member.holds(5) && !member.holds(6))
        for connection: UInt64 in [1, 4, 6] { member.remove(connection) }
        #expect(member.devices == 3)
        for connection: UInt64 in [2, 3] { member.remove(connection) }
        #expect(member.devices == 1 && !member.isEmpty)
        member.remove(5)
        #expect(member.isEmpty && member.devices == 0)
    }

    @Test("of those that are awaited the one that ended first is back when its device is, and only of that device")
    func back() {
        var member = LocalMember()
        for connection: UInt64 in 1...3 { member.add(connection, device: connection == 3 ? "tablet" : "phone", isVisible: true) }
        for connection: UInt64 in [2, 1, 3] { member.lose(connection, until: start + .seconds(10)) }
        member.endAwaiting("")
        member.endAwaiting("laptop")
        #expect(member.devices == 2)
        member.endAwaiting("phone")
        #expect(!member.holds(2) && member.holds(1) && member.devices == 2)
        #expect(member.awaits(1))
        member.remove(1)
        #expect(member.devices == 1)
        member.add(4, device: "tablet", isVisible: true)
        #expect(!member.awaits(4), "it's there")
        member.awaitAgain(1, device: "phone", until: start + .seconds(20))
        #expect(member.awaits(1) && member.devices == 2)
    }

    @Test("however often somebody comes and is lost, few are awaited, and the last of them for their whole time")
    func flapping() {
        var member = LocalMember()
        for connection: UInt64 in 1...10_000 {
            member.add(connection, device: "", isVisible: true)
            member.lose(connection, until: start + .seconds(connection))
        }
        #expect(member.devices == 4 && (9_997...10_000).allSatisfy { member.holds($0) })
    }
}
