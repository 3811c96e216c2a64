import HubBase

/// A node's connections all have its incarnation and a number for an id (`<incarnation>-<number in base 36>`): the number is all that has to
/// be kept of one.
enum ConnectionKey {
    /// nil for an id that isn't made so, or that would be spelled otherwise.
    static func number(of connection: Name, node: Name) -> UInt64? {
        let bytes = connection.bytes
        let start = node.bytes.count + 1
        guard bytes.count > start, bytes.count <= start + 13, bytes[start - 1] == UInt8(ascii: "-"), bytes.starts(with: node.bytes),
            bytes[start] != UInt8(ascii: "0") || bytes.count == start + 1
        else { return nil }
        var number: UInt64 = 0
        for byte in bytes[start...] {
            let digit: UInt64
            switch byte {
            case UInt8(ascii: "0")...UInt8(ascii: "9"): digit = UInt64(byte - UInt8(ascii: "0"))
            case UInt8(ascii: "a")...UInt8(ascii: "z"): digit = UInt64(byte - UInt8(ascii: "a")) + 10
            default: return nil
            }
            let (product, isTooLarge) = number.multipliedReportingOverflow(by: 36)
            let (sum, overflows) = product.addingReportingOverflow(digit)
            guard !isTooLarge, !overflows else { return nil }
            number = sum
        }
        return number
    }

    static func connection(_ number: UInt64, node: Name) -> Name {
        var digits: [UInt8] = []
        var rest = number
        repeat {
            let digit = UInt8(truncatingIfNeeded: rest % 36)
            digits.append(digit < 10 ? UInt8(ascii: "0") + digit : UInt8(ascii: "a") + digit - 10)
            rest /= 36
        } while rest > 0
        var bytes: [UInt8] = []
        bytes.reserveCapacity(node.bytes.count + 1 + digits.count)
        bytes += node.bytes
        bytes.append(UInt8(ascii: "-"))
        bytes += digits.reversed()
        return Name(trusted: bytes)
    }
}
