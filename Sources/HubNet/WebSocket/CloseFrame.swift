import HubBase

/// What a close frame's payload may be (RFC 6455 §5.5.1, §7.4).
enum CloseFrame {
    /// Whether a peer may send `code`: the ones that RFC 6455 §7.4.1 and the registry give to the wire, and those for libraries and
    /// applications. 1004, 1005, 1006 and 1015 never travel.
    static func mayTravel(_ code: UInt16) -> Bool {
        switch code {
        case 1000...1003, 1007...1014, 3000...4999: true
        default: false
        }
    }

    /// The step for a close frame whose payload, at `range` of the front, is `payload`.
    static func judge(_ payload: UnsafeRawBufferPointer, at range: ByteRange, consumed: Int) -> FrameStep {
        if payload.isEmpty { return .close(code: nil, reason: range, consumed: consumed) }
        guard payload.count >= 2 else { return .failed(code: 1002, reason: "a close frame with half a code") }
        let code = UInt16(payload[0]) << 8 | UInt16(payload[1])
        guard mayTravel(code) else { return .failed(code: 1002, reason: "a close code that mustn't be sent") }
        guard UTF8Check.isValid(UnsafeRawBufferPointer(rebasing: payload[2...])) else {
            return .failed(code: 1007, reason: "the close reason isn't UTF-8")
        }
        let reason = ByteRange(offset: Int(range.offset) + 2, count: payload.count - 2)
        return .close(code: code, reason: reason, consumed: consumed)
    }
}
