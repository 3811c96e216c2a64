import HubBase
import HubCore
import HubNet
import Testing

import HubGateway

@Suite("What waits for an answer")
struct SlabTests {
    @Test("a late answer finds nothing rather than another's request")
    func generations() {
        var slab = Slab<String>()
        let first = slab.insert("first")
        #expect(first != 0)
        #expect(slab.remove(first) == "first")
        let second = slab.insert("second")
        #expect(slab.remove(first) == nil)
        #expect(slab.remove(second) == "second")
        #expect(slab.count == 0)
    }

    @Test("hostile keys find nothing", arguments: [0, 1, UInt64.max, 1 << 32, 0xFFFF_FFFF])
    func hostile(key: UInt64) {
        var slab = Slab<Int>()
        #expect(slab.remove(key) == nil)
        #expect(slab.update(key) { $0 += 1 } == nil)
    }

    @Test("a request's id is carried back verbatim, short or long")
    func requestId() {
        for text in ["7", "\"a\"", "123456789012345678901234", "\"" + String(repeating: "x", count: 64) + "\""] {
            let bytes = Array(text.utf8)
            let id = bytes.withUnsafeBytes { RequestID($0) }
            #expect(id.withBytes { Array($0) } == bytes)
            #expect(id.isPresent)
        }
        #expect(!RequestID.none.isPresent)
    }

    @Test("a connection's id leads back to the connection, and another node's doesn't")
    func identity() {
        let node = NodeIdentity(name: "n1", incarnation: "abcdefghijkl")
        let serial = ConnectionSerial(loop: 3, ConnectionID(index: 0xFF_FFFF, generation: 0xFFFF_FFFF))
        #expect(node.serial(of: node.connection(serial.value)) == serial)
        #expect(serial.loop == 3)
        #expect(serial.id == ConnectionID(index: 0xFF_FFFF, generation: 0xFFFF_FFFF))
        #expect(node.serial(of: "zzzzzzzzzzzz-1") == nil)
        #expect(node.serial(of: "abcdefghijkl-") == nil)
        #expect(node.serial(of: "abcdefghijkl-!") == nil)
    }
}
