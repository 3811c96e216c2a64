/// As much of DER (X.690 §8, §10) as keys and ECDSA signatures need. Writes; reads nothing but two integers.
enum DER {
    static func element(_ tag: UInt8, _ content: [UInt8]) -> [UInt8] {
        var bytes: [UInt8] = [tag]
        if content.count < 0x80 {
            bytes.append(UInt8(content.count))
        } else {
            let length = withUnsafeBytes(of: UInt32(content.count).bigEndian) { Array($0.drop { $0 == 0 }) }
            bytes.append(0x80 | UInt8(length.count))
            bytes += length
        }
        return bytes + content
    }

    static func sequence(_ parts: [UInt8]...) -> [UInt8] { element(0x30, parts.flatMap { $0 }) }

    /// A whole number that isn't negative, big-endian; zeros before it don't count.
    static func integer(_ magnitude: some Collection<UInt8>) -> [UInt8] {
        let digits = Array(magnitude.drop { $0 == 0 })
        guard let first = digits.first else { return element(0x02, [0]) }
        return element(0x02, first < 0x80 ? digits : [0] + digits)
    }

    /// Whole bytes, no bit unused.
    static func bits(_ content: [UInt8]) -> [UInt8] { element(0x03, [0] + content) }

    /// `encoded`: the identifier's content.
    static func object(_ encoded: [UInt8]) -> [UInt8] { element(0x06, encoded) }
}

/// An ECDSA signature in JWS is its two numbers side by side, each as long as the curve's order (RFC 7518 §3.4); OpenSSL's is a sequence.
enum ECDSASignature {
    /// nil when it hasn't the one length that it may have.
    static func sequence(ofJoined signature: [UInt8], width: Int) -> [UInt8]? {
        guard signature.count == width * 2 else { return nil }
        return DER.sequence(DER.integer(signature.prefix(width)), DER.integer(signature.suffix(width)))
    }

    /// nil when it isn't a sequence of two numbers that fit; only what OpenSSL made comes here.
    static func joined(ofSequence der: [UInt8], width: Int) -> [UInt8]? {
        guard der.count > 2, der[0] == 0x30, der[1] < 0x80, der.count == Int(der[1]) + 2 else { return nil }
        var joined: [UInt8] = []
        var place = 2
        for _ in 0..<2 {
            guard place + 2 <= der.count, der[place] == 0x02, place + 2 + Int(der[place + 1]) <= der.count else { return nil }
            let digits = Array(der[(place + 2)..<(place + 2 + Int(der[place + 1]))].drop { $0 == 0 })
            guard digits.count <= width else { return nil }
            joined += [UInt8](repeating: 0, count: width - digits.count) + digits
            place += 2 + Int(der[place + 1])
        }
        return place == der.count ? joined : nil
    }
}
