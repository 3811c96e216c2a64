import HubBase
import HubCore
import Testing

@Suite("Relations between settings of the transport")
struct ConfigurationRelationsTests {
    private func problems(_ change: (inout Configuration) -> Void) -> [String] {
        var configuration = Configuration()
        configuration.isDevelopment = true
        change(&configuration)
        return configuration.problems()
    }

    @Test("the defaults fit")
    func defaults() { #expect(problems { _ in } == []) }

    @Test("the answer to a ping has less time than lies between pings")
    func pong() {
        #expect(problems { $0.deadlines.pong = .milliseconds(19_999) } == [])
        #expect(problems { $0.deadlines.pong = .seconds(20) } == ["deadlines.pong (20s) must be shorter than ping (20s)"])
        #expect(problems { $0.ping = .seconds(5) } == ["deadlines.pong (10s) must be shorter than ping (5s)"])
    }

    @Test("the node's memory for queues holds a whole queue")
    func sendMemory() {
        #expect(problems { $0.limits.sendMemory = $0.limits.outboundBytes } == [])
        let broken = problems { $0.limits.sendMemory = $0.limits.outboundBytes - 1 }
        #expect(broken.count == 1 && broken[0].hasPrefix("limits.sendMemory (1048575) must be at least limits.outboundBytes (1048576)"))
    }
}
