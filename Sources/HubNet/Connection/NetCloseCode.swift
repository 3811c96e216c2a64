/// The close codes that this layer gives by itself (RFC 6455 §7.4.1; protocol: close codes).
enum NetCloseCode {
    /// Stands for a close without a code.
    static let none: UInt16 = 1005
    static let policy: UInt16 = 1008
    static let tooSlow: UInt16 = 4008
    static let silent: UInt16 = 4011
}
