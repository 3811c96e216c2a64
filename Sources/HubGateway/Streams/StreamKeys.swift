import HubBase

/// The keys of this node's streams of events: who has a stream's key may speak for it.
///
/// A key is the connection's id, which others get to see, and a code over it by a secret of this process. So nothing is kept for a stream, and any loop
/// of the node can check any of them.
package struct StreamKeys: Sendable {
    private let secret: Secret

    /// `secret`: 32 bytes of the system's chance.
    package init(secret: Secret) { self.secret = secret }

    /// 128 bits of the code, in hex digits.
    package static let proofBytes = 32

    /// `<connection>.<proof>`.
    package func key(of connection: Name) -> Name { Name(trusted: connection.bytes + [UInt8(ascii: ".")] + proof(of: connection)) }

    private func proof(of connection: Name) -> [UInt8] {
        let digits = Array("0123456789abcdef".utf8)
        return Digest.code(connection.bytes, secret).prefix(Self.proofBytes / 2).flatMap { [digits[Int($0 >> 4)], digits[Int($0 & 15)]] }
    }

    /// Takes the same time wherever a guess goes wrong.
    package func proves(_ proof: [UInt8], _ connection: Name) -> Bool { Digest.isEqual(proof, self.proof(of: connection)) }

    /// The two halves of what a client gave as a key; nil when it can't be one.
    package static func split(_ key: [UInt8]) -> (connection: Name, proof: [UInt8])? {
        guard let dot = key.lastIndex(of: UInt8(ascii: ".")), key.count - dot - 1 == proofBytes,
            let connection = Name(validating: Array(key[..<dot]), limit: 64),
            !connection.bytes.contains(UInt8(ascii: ":"))
        else { return nil }
        let proof = Array(key[(dot + 1)...])
        guard proof.allSatisfy({ (0x30...0x39).contains($0) || (0x61...0x66).contains($0) }) else { return nil }
        return (connection, proof)
    }
}
