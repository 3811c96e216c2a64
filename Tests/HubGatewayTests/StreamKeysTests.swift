import HubBase
import HubGateway
import Testing

@Suite("keys of streams")
struct StreamKeysTests {
    private let keys = StreamKeys(secret: Secret([UInt8](repeating: 7, count: 32)))
    private let connection: Name = "rsxdpqu6wmqc-jpia9pw854w"

    @Test("a key is the connection's id and 128 bits that only this process can make")
    func key() throws {
        let key = keys.key(of: connection)
        let (found, proof) = try #require(StreamKeys.split(key.bytes))
        #expect(found == connection && proof.count == 32)
        #expect(keys.proves(proof, connection))
        let others = StreamKeys(secret: Secret([UInt8](repeating: 8, count: 32)))
        #expect(!others.proves(proof, connection))
        #expect(!keys.proves(proof, "rsxdpqu6wmqc-jpia9pw854x"))
        // HMAC-SHA-256 of the id by that secret, as another program computes it.
        #expect(String(decoding: proof, as: UTF8.self) == "2da34a43b145009ca3fa23185bdeb388")
    }

    @Test("each changed, missing or added character makes it another key or none")
    func damaged() {
        let key = keys.key(of: connection).bytes
        for place in key.indices {
            for byte in [UInt8(ascii: "0"), UInt8(ascii: "f"), UInt8(ascii: "."), UInt8(ascii: "-"), 0, 0xFF] where byte != key[place] {
                var guess = key
                guess[place] = byte
                if let (connection, proof) = StreamKeys.split(guess) { #expect(!keys.proves(proof, connection)) }
            }
            var shorter = key
            shorter.remove(at: place)
            if let (connection, proof) = StreamKeys.split(shorter) { #expect(!keys.proves(proof, connection)) }
        }
        for text in [
            "", ".", "x", String(repeating: "a", count: 32), "." + String(repeating: "a", count: 32),
            "a:b." + String(repeating: "a", count: 32),
        ] {
            #expect(StreamKeys.split(Array(text.utf8)) == nil)
        }
        #expect(StreamKeys.split([UInt8](repeating: UInt8(ascii: "a"), count: 10_000) + key) == nil)
    }
}
