/// One offer of permessage-deflate, read strictly (RFC 7692 §7.1): each parameter known, there once, with a value where it has one.
struct DeflateOffer: Equatable {
    var serverNoContextTakeover = false
    var clientNoContextTakeover = false
    /// Base-2 logarithm of the largest window that the server may use; nil: not limited.
    var serverMaxWindowBits: UInt8?
    var clientMaxWindowBits = ClientWindow.notOffered

    enum ClientWindow: Equatable {
        /// The answer mustn't name it (§7.1.2.2).
        case notOffered
        /// The client can be told a limit.
        case supported
        /// It can be told one, and won't pass this one anyway.
        case atMost(UInt8)
    }

    /// nil: the offer isn't legal, and so is declined (§7.1: "an invalid extension negotiation offer").
    init?(_ parameters: consuming ExtensionParameters) {
        var hasClientBits = false
        while let parameter = parameters.next() {
            if ASCII.equals(parameter.name, "server_no_context_takeover") {
                guard parameter.value == nil, !serverNoContextTakeover else { return nil }
                serverNoContextTakeover = true
            } else if ASCII.equals(parameter.name, "client_no_context_takeover") {
                guard parameter.value == nil, !clientNoContextTakeover else { return nil }
                clientNoContextTakeover = true
            } else if ASCII.equals(parameter.name, "server_max_window_bits") {
                guard let value = parameter.value, let bits = Self.windowBits(value), serverMaxWindowBits == nil else { return nil }
                serverMaxWindowBits = bits
            } else if ASCII.equals(parameter.name, "client_max_window_bits") {
                guard !hasClientBits else { return nil }
                hasClientBits = true
                clientMaxWindowBits = .supported
                if let value = parameter.value {
                    guard let bits = Self.windowBits(value) else { return nil }
                    clientMaxWindowBits = .atMost(bits)
                }
            } else {
                return nil
            }
        }
    }

    /// 8 … 15 in decimal without leading zeros (§7.1.2).
    private static func windowBits(_ value: UnsafeRawBufferPointer) -> UInt8? {
        var bits: UInt8 = 0
        for byte in value where byte != UInt8(ascii: "\\") {
            guard ASCII.isDigit(byte), bits > 0 || byte != UInt8(ascii: "0"), bits < 10 else { return nil }
            bits = bits * 10 + (byte - UInt8(ascii: "0"))
        }
        return 8...15 ~= bits ? bits : nil
    }
}
