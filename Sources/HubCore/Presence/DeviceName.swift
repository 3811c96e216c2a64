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
}
