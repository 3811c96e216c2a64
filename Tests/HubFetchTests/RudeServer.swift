import Glibc
import HubNet
import Synchronization

/// An HTTP server that misbehaves as the path says, on plain sockets, a thread a connection.
final class RudeServer: Sendable {
    let port: Int
    private let listener: Int32
    /// Connections that were accepted, and requests that were read whole.
    private let seen = Mutex((connections: 0, requests: [String](), open: [Int32]()))

    var connections: Int { seen.withLock { $0.connections } }
    /// Heads and bodies.
    var requests: [String] { seen.withLock { $0.requests } }

    init() throws {
        let listener = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_addr.s_addr = UInt32(0x7F00_0001).bigEndian
        var length = socklen_t(MemoryLayout<sockaddr_in>.size)
        let bound = withUnsafeMutablePointer(to: &address) {
            $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                bind(listener, $0, length) == 0 && getsockname(listener, $0, &length) == 0
            }
        }
        precondition(bound && listen(listener, 128) == 0)
        port = Int(UInt16(bigEndian: address.sin_port))
        self.listener = listener
        try LoopThread(name: "rude") { [self] in
            // By nobody else: its number may be another server's at once, and this thread would accept what comes to that one.
            defer { close(listener) }
            while true {
                let peer = accept(listener, nil, nil)
                guard peer >= 0 else { return }
                seen.withLock {
                    $0.connections += 1
                    $0.open.append(peer)
                }
                try? LoopThread(name: "rude peer") { [self] in serve(peer) }.detach()
            }
        }.detach()
    }

    /// Ends the listener and every connection; the threads end with them.
    func stop() {
        shutdown(listener, Int32(SHUT_RDWR))
        seen.withLock { seen in
            for peer in seen.open { shutdown(peer, Int32(SHUT_RDWR)) }
        }
    }

    private func serve(_ peer: Int32) {
        defer {
            seen.withLock { seen in
                seen.open.removeAll { $0 == peer }
                _ = close(peer)
            }
        }
        while let (path, head, body) = readRequest(peer) {
            seen.withLock { $0.requests.append(head + body) }
            switch path {
            case "/ok": say(peer, "HTTP/1.1 200 OK\r\nContent-Length: \(body.utf8.count)\r\nX-One:  a b \r\n\r\n" + body)
            case "/chunked": say(peer, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2;x=y\r\nde\r\n0\r\n\r\n")
            case "/interim":
                say(peer, "HTTP/1.1 103 Early Hints\r\nX-Early: 1\r\n\r\nHTTP/1.1 200 OK\r\nX-Late: 2\r\nContent-Length: 0\r\n\r\n")
            case "/redirect": say(peer, "HTTP/1.1 301 Moved\r\nLocation: http://127.0.0.1:\(port)/ok\r\nContent-Length: 0\r\n\r\n")
            case "/busy": say(peer, "HTTP/1.1 429 Slow Down\r\nRetry-After: 7\r\nContent-Length: 0\r\n\r\n")
            case "/silent": continue
            case "/half":
                say(peer, "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nonly this")
                continue
            case "/cut":
                say(peer, "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nonly this")
                return
            case "/close": return
            case "/reset":
                var linger = linger(l_onoff: 1, l_linger: 0)
                setsockopt(peer, SOL_SOCKET, SO_LINGER, &linger, socklen_t(MemoryLayout.size(ofValue: linger)))
                return
            case "/announced": say(peer, "HTTP/1.1 200 OK\r\nContent-Length: 5000000000\r\n\r\n")
            case "/huge":
                say(peer, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
                let piece = "400\r\n" + String(repeating: "x", count: 1024) + "\r\n"
                while say(peer, piece) {}
                return
            case "/heads":
                say(peer, "HTTP/1.1 200 OK\r\n")
                while say(peer, "X-More: " + String(repeating: "x", count: 1000) + "\r\n") {}
                return
            case "/drip":
                say(peer, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
                while say(peer, "1\r\nx\r\n") { usleep(20_000) }
                return
            case "/nonsense":
                say(peer, "SSH-2.0-OpenSSH_9.2\r\n")
                return
            case "/lengths":
                say(peer, "HTTP/1.1 200 OK\r\nContent-Length: 4\r\nContent-Length: 40\r\n\r\nabcd")
                return
            default: say(peer, "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n")
            }
        }
    }

    @discardableResult private func say(_ peer: Int32, _ text: String) -> Bool {
        var bytes = Array(text.utf8)[...]
        while !bytes.isEmpty {
            let sent = bytes.withUnsafeBytes { send(peer, $0.baseAddress, $0.count, Int32(MSG_NOSIGNAL)) }
            guard sent > 0 else { return false }
            bytes = bytes.dropFirst(sent)
        }
        return true
    }

    private func readRequest(_ peer: Int32) -> (path: String, head: String, body: String)? {
        var bytes: [UInt8] = []
        var piece = [UInt8](repeating: 0, count: 64 * 1024)
        while true {
            let text = String(decoding: bytes, as: UTF8.self)
            if let end = Self.range(of: "\r\n\r\n", in: bytes) {
                let head = String(decoding: bytes[..<end.upperBound], as: UTF8.self)
                let length = head.split(separator: "\r\n").first { $0.lowercased().hasPrefix("content-length:") }
                    .flatMap { Int($0.dropFirst(15).filter { $0 != " " }) }
                let body = bytes[end.upperBound...]
                if body.count >= length ?? 0 {
                    return (String(text.split(separator: " ")[1]), head, String(decoding: body, as: UTF8.self))
                }
            }
            let count = recv(peer, &piece, piece.count, 0)
            guard count > 0 else { return nil }
            bytes += piece[..<count]
        }
    }

    private static func range(of text: String, in bytes: [UInt8]) -> Range<Int>? {
        let wanted = Array(text.utf8)
        guard bytes.count >= wanted.count else { return nil }
        for start in 0...(bytes.count - wanted.count) where bytes[start..<start + wanted.count].elementsEqual(wanted) {
            return start..<start + wanted.count
        }
        return nil
    }
}
