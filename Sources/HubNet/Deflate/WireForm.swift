/// What a connection's messages look like: one byte beside the connection's phase, 0 for plain WebSocket frames, so that the fan-out's loop
/// tells the forms apart by one comparison.
struct WireForm: Equatable {
    let rawValue: UInt8

    static let plain = WireForm(rawValue: 0)
    /// No connection's.
    static let none = WireForm(rawValue: 0xFF)
    /// Server-sent events instead of frames.
    static let events = WireForm(rawValue: 0x10)
    static let ownsDeflater: UInt8 = 0x40
    static let ownsInflater: UInt8 = 0x80

    init(rawValue: UInt8) { self.rawValue = rawValue }

    init(_ agreement: DeflateAgreement) {
        rawValue =
            agreement.serverWindowBits | (agreement.serverTakesOver ? Self.ownsDeflater : 0)
            | (agreement.clientTakesOver ? Self.ownsInflater : 0)
    }

    var isPlain: Bool { rawValue == 0 }
    /// 9 … 15: what leaves is compressed with that window.
    var windowBits: UInt8 { rawValue & 0x0F }
    var ownsDeflater: Bool { rawValue & Self.ownsDeflater != 0 }
    var ownsInflater: Bool { rawValue & Self.ownsInflater != 0 }
    /// How a queue of it is cut.
    var walk: FrameWalk { self == .events ? .events : .frames }
    var ownsContexts: Bool { rawValue & (Self.ownsDeflater | Self.ownsInflater) != 0 }
}
