import HubBase
import HubSwarm
import Testing

@Suite("The swarm's payload")
struct SwarmPayloadTests {
    private static func bytes(_ payload: SwarmPayload, size: Int) -> [UInt8] {
        var buffer = ByteBuffer(capacity: 64)
        payload.encode(size: size, into: &buffer)
        return buffer.copyBytes()
    }

    @Test("is JSON with the scheduled time, and reads back", arguments: [0, 64, 200, 4096])
    func roundTrip(_ size: Int) {
        let payload = SwarmPayload(run: 77, bot: 3, sequence: 12, scheduled: 1_234_567_890_123)
        let bytes = Self.bytes(payload, size: size)
        #expect(bytes.withUnsafeBytes { SwarmPayload($0) } == payload)
        if size >= 100 { #expect(bytes.count == size) }
    }

    @Test("the bytes")
    func exact() {
        let payload = SwarmPayload(run: 7, bot: 1, sequence: 2, scheduled: 3)
        #expect(String(decoding: Self.bytes(payload, size: 0), as: UTF8.self) == #"{"run":7,"bot":1,"sequence":2,"scheduled":3}"#)
        #expect(
            String(decoding: Self.bytes(payload, size: 58), as: UTF8.self) == #"{"run":7,"bot":1,"sequence":2,"scheduled":3,"fill":"xxxx"}"#
        )
    }

    @Test(
        "what isn't ours is nil",
        arguments: [
            "", "{", "{}", #"{"text":"hi"}"#, #"{"run":7,"bot":1,"sequence":2,"scheduled":"#,
            #"{"run":,"bot":1,"sequence":2,"scheduled":3}"#,
            #"{"run":99999999999999999999,"bot":1,"sequence":2,"scheduled":3}"#, #"{"run":7,"bot":4294967296,"sequence":2,"scheduled":3}"#,
            #"{"run":-7,"bot":1,"sequence":2,"scheduled":3}"#,
        ])
    func foreign(_ text: String) {
        #expect([UInt8](text.utf8).withUnsafeBytes { SwarmPayload($0) } == nil)
    }
}
