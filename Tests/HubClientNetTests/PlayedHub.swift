import HubBase
import HubNet

/// A hub that plays a part, on a loop of its own. HTTP: `/ok` answers what it was told, `/large` more than anybody wants. `/v1/ws` welcomes,
/// acknowledges subscriptions, echoes chats as publications; the channel's name says what else happens.
final class PlayedHub {
    let port: Int
    private let signal: LoopSignal
    private let thread: LoopThread

    init() throws {
        let boxes = try ListenSocket.open(SocketAddress("127.0.0.1:0")!, count: 1)
        port = boxes[0].address.port
        let loop = try NetLoop(NetLoop.Options(name: "played hub"))
        loop.serve(boxes[0].take())
        signal = loop.signal
        thread = try LoopThread(name: "played hub") {
            let part = Part(loop)
            loop.handler = part
            loop.server = part
            loop.run()
            withExtendedLifetime(part) {}
        }
    }

    deinit {
        signal.stop()
        thread.join()
    }

    private final class Part: LoopHandler, ServerHandler {
        let loop: NetLoop
        var welcomes = 0

        init(_ loop: NetLoop) { self.loop = loop }

        func woken() {}
        func timerFired(kind: UInt32, value: UInt64) {}
        func turnEnding() {}
        func closed(_ id: ConnectionID, _ end: ConnectionEnd) {}

        func request(_ request: borrowing HTTPRequest, on id: ConnectionID) -> RequestOutcome {
            let path = String(decoding: request.path.bytes(in: request.head), as: UTF8.self)
            switch path {
            case "/v1/ws":
                if request.queryValue("user") == nil, request.header("authorization") == nil { return .respond(HTTPResponse(status: 401)) }
                return .upgrade(subprotocol: "hub.v1.json")
            case "/ok":
                let key = request.header("authorization").map { String(decoding: $0, as: UTF8.self) } ?? "none"
                let method = request.method == .post ? "POST" : "GET"
                return .respond(HTTPResponse(status: 200, body: Array("\(method) \(key) ".utf8) + [UInt8](request.body)))
            case "/large": return .respond(HTTPResponse(status: 200, body: Array(repeating: 120, count: 9 * 1024 * 1024)))
            default: return .respond(HTTPResponse(status: 404, body: Array("{}".utf8)))
            }
        }

        func opened(_ id: ConnectionID) {
            welcomes += 1
            send(#"{"type":"system","event":"welcome","connection":"c\#(welcomes)","node":"played","user":"u","ping":20000}"#, id)
        }

        func message(_ bytes: UnsafeRawBufferPointer, _ kind: MessageKind, on id: ConnectionID) {
            let text = String(decoding: bytes, as: UTF8.self)
            let number = text.firstMatch(after: "\"id\":")
            let channel = text.firstMatch(after: "\"channel\":\"")
            if text.contains("\"type\":\"subscribe\"") {
                if channel == "drained", welcomes == 1 { return loop.close(id, code: 1012, reason: "40") }
                if channel == "nonsense" { return send("nonsense", id) }
                // Says which position was asked for, so that a test can tell.
                let asked = text.contains("abcdefgh.1.aaaaaaaa")
                send(
                    #"{"type":"ack","id":\#(number),"channel":"\#(channel)","offset":\#(asked ? 1 : 0),"position":"\#(asked ? "abcdefgh.1.aaaaaaaa" : ".0.")"}"#,
                    id)
            } else if text.contains("\"type\":\"chat\"") {
                let place = #""channel":"\#(channel)","offset":1,"position":"abcdefgh.1.aaaaaaaa""#
                send(#"{"type":"chat",\#(place),"user":"u","payload":{}}"#, id)
                send(#"{"type":"ack","id":\#(number),\#(place)}"#, id)
                if channel == "slow", welcomes == 1 { loop.close(id, code: 4008, reason: "") }
            }
        }

        private func send(_ text: String, _ id: ConnectionID) {
            loop.sendMessage(.text, to: id, as: .reply) { buffer in Array(text.utf8).withUnsafeBytes { buffer.append($0) } }
        }
    }
}

extension String {
    /// What stands after `key`, up to the next quote, comma or brace.
    fileprivate func firstMatch(after key: String) -> String {
        let bytes = Array(utf8)
        let pattern = Array(key.utf8)
        guard bytes.count >= pattern.count else { return "" }
        for start in 0...(bytes.count - pattern.count) where Array(bytes[start..<start + pattern.count]) == pattern {
            return String(decoding: bytes[(start + pattern.count)...].prefix { !"\",}".utf8.contains($0) }, as: UTF8.self)
        }
        return ""
    }
}
