import HubBase

/// What server and client agreed to (RFC 7692 §7.1): chosen from the client's offers, and what the 101 says of it.
///
/// Without takeover, a message is compressed by itself: a broadcast's bytes serve every connection, and no connection owns state. So that is
/// asked for in both directions, except where connections may own contexts.
package struct DeflateAgreement: Equatable, Sendable {
    /// Base-2 logarithm of the window that we compress with: 9 … 15.
    package var serverWindowBits: UInt8
    /// Of the window that the client compresses with, as far as we know: 8 … 15.
    package var clientWindowBits: UInt8
    /// Our compression goes on from message to message.
    package var serverTakesOver = false
    /// The client's does.
    package var clientTakesOver = false
    /// What the answer says. It needn't repeat what the client offered and we don't need.
    private var namesServerWindow: Bool
    private var namesClientWindow: Bool

    /// The first offer that can be accepted; nil: none, the connection goes uncompressed.
    /// - Parameter takesOver: whether the connection may own compression state.
    package static func negotiate(_ request: borrowing HTTPRequest, _ options: DeflateOptions, takesOver: Bool = false) -> DeflateAgreement?
    {
        guard options.level > 0 else { return nil }
        for header in request.headers
        where ASCII.equals(header.name.bytes(in: request.head), ignoringCase: "sec-websocket-extensions") {
            var list = ExtensionList(header.value.bytes(in: request.head))
            while let element = list.next() {
                guard case .named(let name, let parameters) = element, ASCII.equals(name, "permessage-deflate"),
                    let offer = DeflateOffer(parameters), let agreement = DeflateAgreement(offer, options, takesOver: takesOver)
                else { continue }
                return agreement
            }
        }
        return nil
    }

    /// nil: the offer is legal, but can't be kept.
    init?(_ offer: DeflateOffer, _ options: DeflateOptions, takesOver: Bool = false) {
        let ours = UInt8(clamping: min(max(options.windowBits, 9), 15))
        // zlib's raw deflate has no window of 2^8 (it silently takes 2^9, which such a client couldn't inflate).
        if offer.serverMaxWindowBits == 8 { return nil }
        serverWindowBits = min(offer.serverMaxWindowBits ?? 15, ours)
        namesServerWindow = offer.serverMaxWindowBits != nil
        switch offer.clientMaxWindowBits {
        case .notOffered:
            clientWindowBits = 15
            namesClientWindow = false
        case .supported:
            clientWindowBits = ours
            namesClientWindow = ours < 15
        case .atMost(let bits):
            clientWindowBits = min(bits, ours)
            namesClientWindow = true
        }
        serverTakesOver = takesOver && !offer.serverNoContextTakeover
        clientTakesOver = takesOver && !offer.clientNoContextTakeover
    }

    mutating func takesNothingOver() {
        serverTakesOver = false
        clientTakesOver = false
    }

    /// Appends the value of `Sec-WebSocket-Extensions`. Either side may be told to do without takeover, offered or not (§7.1.1).
    package func write(into out: inout ByteBuffer) {
        out.append("permessage-deflate")
        if !serverTakesOver { out.append("; server_no_context_takeover") }
        if !clientTakesOver { out.append("; client_no_context_takeover") }
        if namesServerWindow {
            out.append("; server_max_window_bits=")
            out.append(decimal: UInt64(serverWindowBits))
        }
        if namesClientWindow {
            out.append("; client_max_window_bits=")
            out.append(decimal: UInt64(clientWindowBits))
        }
    }
}
