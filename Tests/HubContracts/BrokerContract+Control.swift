import HubBase
import HubCore
import HubWire
import Testing

/// What every broker promises of nodes' words to each other.
extension BrokerContract {
    private final class Ear: BrokerDelegate {
        var heard: [[UInt8]] = []
        var counts: [RequestTag: Int] = [:]
        var isUp = false
        var isInsideCall = false

        func sent(_ result: Result<Int, WireError>, tag: RequestTag) {
            #expect(!isInsideCall)
            counts[tag] = (try? result.get()) ?? -1
        }
        func received(control message: UnsafeRawBufferPointer) {
            #expect(!isInsideCall)
            heard.append([UInt8](message))
        }
        func brokerHealth(_ health: BackendHealth) { isUp = health == .up }
        func published(_ result: Result<PublishResult, WireError>, tag: RequestTag) {}
        func readMoved(_ result: Result<UInt64, WireError>, tag: RequestTag) {}
        func subscribed(_ channel: Name, _ result: Result<Position, WireError>, tag: RequestTag) {}
        func historyRead(_ channel: Name, _ result: Result<HistoryPage, WireError>, tag: RequestTag) {}
        func readMarks(_ channel: Name, _ result: Result<[ReadMark], WireError>, tag: RequestTag) {}
        func probed(_ result: Result<Void, WireError>, tag: RequestTag) {}
        func received(_ publication: PositionedPublication, channel: Name) {}
        func received(_ publication: Publication, channel: Name) {}
        func resync(_ channel: Name, to position: Position, reason: ResyncReason) {}
    }

    /// A message to a node reaches that one alone, whole and in order, never from inside the call; to one that isn't there: nobody, and that's told.
    ///
    /// `sender` and `receiver` may be the same broker, whose node's incarnation is `node`.
    package static func checkControl(_ fixture: any BrokerFixture, from sender: any Broker, to receiver: any Broker, at node: Name) {
        let ears = sender === receiver ? [Ear()] : [Ear(), Ear()]
        sender.delegate = ears[0]
        receiver.delegate = ears[ears.count - 1]
        sender.start(at: fixture.now)
        if sender !== receiver { receiver.start(at: fixture.now) }
        #expect(fixture.run { ears.allSatisfy(\.isUp) })
        let messages = (0..<50).map { number in [UInt8]("\(number):\r\n\u{0}*$".utf8) + [UInt8](repeating: 0xFF, count: number * 100) }
        for (number, message) in messages.enumerated() {
            ears[0].isInsideCall = true
            sender.send(message, to: node, tag: RequestTag(high: 9, low: UInt64(number)), at: fixture.now)
            ears[0].isInsideCall = false
        }
        sender.send([1], to: "nobodyathome", tag: RequestTag(high: 9, low: 100), at: fixture.now)
        #expect(fixture.run { ears[0].counts.count == 51 && ears[ears.count - 1].heard.count >= 50 })
        #expect(ears[ears.count - 1].heard == messages)
        if ears.count > 1 { #expect(ears[0].heard.isEmpty) }
        for number in 0..<50 { #expect(ears[0].counts[RequestTag(high: 9, low: UInt64(number))] == 1) }
        #expect(ears[0].counts[RequestTag(high: 9, low: 100)] == 0)
    }
}
