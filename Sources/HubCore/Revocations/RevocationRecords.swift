import HubBase

/// How revocations lie in a file that is only ever appended to: "hub-revo", then for each 4 length (little-endian), the revocation as in its
/// publication, 8 FNV-1a of both. The checksum is against torn writes and bad disks, not against people.
package enum RevocationRecords {
    package static let magic = Array("hub-revo".utf8)
    private static let lengthMax = 4096

    package struct Read: Equatable {
        package var revocations: [Revocation]
        /// What isn't readable begins here, in bytes; nil: all was.
        package var damagedFrom: Int?

        package init(revocations: [Revocation], damagedFrom: Int?) {
            self.revocations = revocations
            self.damagedFrom = damagedFrom
        }
    }

    package static func append(_ revocation: Revocation, to out: inout ByteBuffer) {
        let start = out.count
        let payload = revocation.payload
        for shift in stride(from: 0, to: 32, by: 8) { out.append(UInt8(truncatingIfNeeded: payload.count >> shift)) }
        out.append(payload)
        let sum = FNV1a.hash(UnsafeRawBufferPointer(rebasing: out.bytes[start...]))
        for shift in stride(from: UInt64(0), to: 64, by: 8) { out.append(UInt8(truncatingIfNeeded: sum >> shift)) }
    }

    /// Whatever the bytes are. A record that was never finished is at the end; behind one that is damaged nothing is believed.
    package static func read(_ bytes: [UInt8]) -> Read {
        guard bytes.starts(with: magic) else { return Read(revocations: [], damagedFrom: bytes.isEmpty ? nil : 0) }
        var found: [Revocation] = []
        var place = magic.count
        while place < bytes.count {
            guard let (revocation, end) = record(bytes, at: place) else { return Read(revocations: found, damagedFrom: place) }
            found.append(revocation)
            place = end
        }
        return Read(revocations: found, damagedFrom: nil)
    }

    private static func record(_ bytes: [UInt8], at place: Int) -> (Revocation, end: Int)? {
        guard bytes.count - place >= 12 else { return nil }
        let length = number(bytes[place..<place + 4])
        guard length <= UInt64(lengthMax), bytes.count - place - 12 >= Int(length) else { return nil }
        let sumAt = place + 4 + Int(length)
        let sum = bytes.withUnsafeBytes { FNV1a.hash(UnsafeRawBufferPointer(rebasing: $0[place..<sumAt])) }
        guard number(bytes[sumAt..<sumAt + 8]) == sum, let revocation = Revocation(payload: Array(bytes[place + 4..<sumAt])) else {
            return nil
        }
        return (revocation, sumAt + 8)
    }

    private static func number(_ bytes: ArraySlice<UInt8>) -> UInt64 { bytes.reversed().reduce(0) { $0 << 8 | UInt64($1) } }
}
