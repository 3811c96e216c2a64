import HubBase

/// What the device of a connection is called whose client named none: made from the connection's id, so that nobody has to keep it. Another
/// connection's is another one, as far as 40 bits go.
package enum DeviceName {
    package static func standard(of connection: Name) -> Name {
        var word = FNV1a.hash(connection.bytes)
        // FNV's bits mix upwards only.
        word ^= word >> 32
        word &*= 0x9E37_79B9_7F4A_7C15
        word ^= word >> 29
        return Name(trusted: Array("device-\(Mark(chance: word))".utf8))
    }

    /// Whether a device is called so: its client named none, and its next connection's is another name.
    package static func isStandard(_ name: Name) -> Bool {
        let bytes = name.bytes
        return bytes.count == 15 && bytes.starts(with: "device-".utf8) && bytes[7...].withUnsafeBytes { Mark($0) } != nil
    }
}
