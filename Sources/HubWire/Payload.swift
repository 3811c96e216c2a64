import HubBase

/// The few payloads that the hub itself reads.
package enum Payload {
    package enum Status: UInt8, Sendable { case online, away, invisible }

    /// `{"isTyping": bool}`
    package static func isTyping(_ payload: UnsafeRawBufferPointer) -> Bool? { fatalError("skeleton") }
    /// `{"offset": n}`
    package static func readOffset(_ payload: UnsafeRawBufferPointer) -> UInt64? { fatalError("skeleton") }
    /// `{"status": "online"|"away"|"invisible"}`
    package static func status(_ payload: UnsafeRawBufferPointer) -> Status? { fatalError("skeleton") }
}
