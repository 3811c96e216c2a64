import HubBase

/// The server's side of the opening handshake (RFC 6455 §4.2), judged by token lists: what is mandatory and bad is refused, what is
/// optional and bad is declined.
package enum OpeningHandshake {
    package enum Judgement {
        case accept(AcceptKey)
        /// It closes the connection.
        case refuse(HTTPResponse)
    }

    /// Judges the form alone: origin, rights and limits are the handler's.
    package static func judge(_ request: borrowing HTTPRequest) -> Judgement {
        guard request.method == .get else {
            return refuse(405, "a WebSocket is opened with GET", [("Allow", "GET")])
        }
        guard request.minorVersion >= 1 else { return refuse(400, "a WebSocket needs HTTP/1.1") }
        if request.count(of: "upgrade") == 0 {
            return refuse(426, "this is a WebSocket endpoint", [("Upgrade", "websocket"), ("Sec-WebSocket-Version", "13")])
        }
        guard request.listContains("websocket", in: "upgrade") else { return refuse(400, "Upgrade doesn't name websocket") }
        guard request.listContains("upgrade", in: "connection") else { return refuse(400, "Connection doesn't name Upgrade") }
        guard !announcesBody(request) else { return refuse(400, "a WebSocket is opened without a body") }
        guard request.count(of: "sec-websocket-version") == 1, let version = request.header("sec-websocket-version") else {
            return refuse(400, "one Sec-WebSocket-Version is needed")
        }
        guard ASCII.equals(version, "13") else {
            return refuse(
                426, "only version 13 of the WebSocket protocol is spoken here",
                [("Upgrade", "websocket"), ("Sec-WebSocket-Version", "13")])
        }
        guard request.count(of: "sec-websocket-key") == 1, let value = request.header("sec-websocket-key") else {
            return refuse(400, "one Sec-WebSocket-Key is needed")
        }
        guard let key = WebSocketKey(value) else { return refuse(400, "Sec-WebSocket-Key isn't 16 bytes in base64") }
        return .accept(key.acceptKey)
    }

    /// A body would stand where the first frame is looked for. Told by the head, whether or not the body was waited for.
    private static func announcesBody(_ request: borrowing HTTPRequest) -> Bool {
        if !request.body.isEmpty || request.count(of: "transfer-encoding") > 0 { return true }
        guard let length = request.header("content-length") else { return false }
        return !length.allSatisfy { $0 == UInt8(ascii: "0") }
    }

    /// Appends the 101.
    package static func write101(
        _ acceptKey: AcceptKey, subprotocol: StaticString?, deflate: DeflateAgreement? = nil, into out: inout ByteBuffer
    ) {
        out.append("HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: ")
        withUnsafeBytes(of: acceptKey.text) { out.append($0) }
        if let subprotocol {
            out.append("\r\nSec-WebSocket-Protocol: ")
            out.append(subprotocol)
        }
        if let deflate {
            out.append("\r\nSec-WebSocket-Extensions: ")
            deflate.write(into: &out)
        }
        out.append("\r\n\r\n")
    }

    private static func refuse(_ status: Int, _ message: StaticString, _ headers: [(name: String, value: String)] = []) -> Judgement {
        var response = HTTPRefusal(status: status, message: message).response
        response.headers += headers
        return .refuse(response)
    }
}
