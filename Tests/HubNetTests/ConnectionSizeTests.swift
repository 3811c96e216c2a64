import HubNet
import Testing

@Suite struct ConnectionSizeTests {
    @Test("what a loop keeps for a connection is 128 bytes, a delivery touches the first 64 of them")
    func size() {
        #expect(ConnectionSize.bytes <= 128)
        #expect(ConnectionSize.deliveryBytes <= 64)
    }
}
