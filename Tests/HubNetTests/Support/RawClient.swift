import CHubShims
import Glibc

/// A client made of bytes: blocking, with a deadline on every wait, no help from the code under test.
final class RawClient {
    struct Frame: Equatable {
        var first: UInt8
        var payload: [UInt8]
        var opcode: UInt8 { first & 0x0F }
        var text: String { String(decoding: payload, as: UTF8.self) }
        /// Of a close frame.
        var code: UInt16 { payload.count >= 2 ? UInt16(payload[0]) << 8 | UInt16(payload[1]) : 1005 }
    }

    enum Ending: Error, Equatable { case endOfStream, reset, deadline }

    let descriptor: Int32
    private var held: [UInt8] = []
    /// TLS between the socket and what is sent and read.
    private(set) var layer: TLSLayer?

    /// `receiveBuffer`: a small window, for readers that are to be slow.
    init(port: Int, receiveBuffer: Int32? = nil) {
        descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
        precondition(descriptor >= 0)
        if var size = receiveBuffer { setsockopt(descriptor, SOL_SOCKET, SO_RCVBUF, &size, 4) }
        var patience = timeval(tv_sec: 10, tv_usec: 0)
        setsockopt(descriptor, SOL_SOCKET, SO_RCVTIMEO, &patience, socklen_t(MemoryLayout<timeval>.size))
        setsockopt(descriptor, SOL_SOCKET, SO_SNDTIMEO, &patience, socklen_t(MemoryLayout<timeval>.size))
        _ = hub_set_nodelay(descriptor)
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_port = UInt16(port).bigEndian
        address.sin_addr.s_addr = UInt32(0x7F00_0001).bigEndian
        let result = withUnsafePointer(to: &address) {
            $0.withMemoryRebound(to: sockaddr.self, capacity: 1) { connect(descriptor, $0, socklen_t(MemoryLayout<sockaddr_in>.size)) }
        }
        precondition(result == 0, "connect: \(errno)")
    }

    deinit { Glibc.close(descriptor) }

    /// False when the peer is gone.
    @discardableResult
    func send(_ bytes: [UInt8]) -> Bool { Self.send(descriptor, layer?.encrypt(bytes) ?? bytes) }

    /// Past TLS, if there is any.
    @discardableResult
    func sendRaw(_ bytes: [UInt8]) -> Bool { Self.send(descriptor, bytes) }

    /// What is sent and read from now on goes through `layer`, whose handshake is done.
    func take(_ layer: TLSLayer) { self.layer = layer }

    /// Begins TLS and waits for its end. `pieceBytes`: how much goes into one packet.
    @discardableResult
    func secure(_ offer: TLSLayer.Offer = TLSLayer.Offer(), pieceBytes: Int = .max) throws -> TLSLayer {
        let layer = TLSLayer(offer)
        while true {
            let isDone: Bool
            do { isDone = try layer.shakeHands() } catch {
                sendRaw(layer.takeOutput())
                throw error
            }
            var output = layer.takeOutput()[...]
            while !output.isEmpty {
                sendRaw(Array(output.prefix(pieceBytes)))
                output = output.dropFirst(pieceBytes)
            }
            if isDone { break }
            layer.offer(try receive())
        }
        self.layer = layer
        return layer
    }

    @discardableResult
    static func send(_ descriptor: Int32, _ bytes: [UInt8]) -> Bool {
        var offset = 0
        while offset < bytes.count {
            let count = bytes.withUnsafeBytes {
                Glibc.send(descriptor, $0.baseAddress! + offset, bytes.count - offset, Int32(MSG_NOSIGNAL))
            }
            if count <= 0 { return false }
            offset += count
        }
        return true
    }

    @discardableResult
    func send(_ text: String) -> Bool { send([UInt8](text.utf8)) }

    /// Resets the connection.
    func reset() {
        var linger = linger(l_onoff: 1, l_linger: 0)
        setsockopt(descriptor, SOL_SOCKET, SO_LINGER, &linger, socklen_t(MemoryLayout<Glibc.linger>.size))
        // The descriptor itself is closed in deinit: an ordinary end is made a reset by connecting it to nowhere.
        var nowhere = sockaddr()
        nowhere.sa_family = sa_family_t(AF_UNSPEC)
        connect(descriptor, &nowhere, socklen_t(MemoryLayout<sockaddr>.size))
    }

    func finishSending() { shutdown(descriptor, Int32(SHUT_WR)) }

    private func fill() throws {
        let bytes = try receive()
        guard let layer else {
            held += bytes
            return
        }
        layer.offer(bytes)
        held += try layer.decrypt()
    }

    /// Whatever comes next, past TLS.
    func receive() throws -> ArraySlice<UInt8> {
        var buffer = [UInt8](repeating: 0, count: 65536)
        let count = recv(descriptor, &buffer, buffer.count, 0)
        if count > 0 { return buffer[..<count] }
        if count == 0 { throw Ending.endOfStream }
        throw errno == EAGAIN ? Ending.deadline : Ending.reset
    }

    func read(_ count: Int) throws -> [UInt8] {
        while held.count < count { try fill() }
        let bytes = [UInt8](held[..<count])
        held.removeFirst(count)
        return bytes
    }

    /// Up to and with the empty line.
    func readHead() throws -> String {
        while true {
            for end in held.indices.dropFirst(3) where held[end - 3...end].elementsEqual([13, 10, 13, 10]) {
                return String(decoding: try read(end + 1), as: UTF8.self)
            }
            try fill()
        }
    }

    /// A response with a `Content-Length`.
    func readResponse() throws -> (head: String, body: String) {
        let head = try readHead()
        let line = head.lowercased().split(separator: "\r\n").first { $0.hasPrefix("content-length:") }
        let length = line.flatMap { Int($0.dropFirst(15).trimmingPrefix(while: { $0 == " " })) } ?? 0
        return (head, String(decoding: try read(length), as: UTF8.self))
    }

    func readFrame() throws -> Frame {
        let head = try read(2)
        precondition(head[1] & 0x80 == 0, "a server masked its frame")
        var count = Int(head[1])
        if count == 126 {
            count = try read(2).reduce(0) { $0 << 8 | Int($1) }
        } else if count == 127 {
            count = try read(8).reduce(0) { $0 << 8 | Int($1) }
        }
        return Frame(first: head[0], payload: try read(count))
    }

    /// What ends the stream; what came before is skipped.
    func readEnd() -> Ending {
        while true {
            do { try fill() } catch { return error as? Ending ?? .reset }
        }
    }

    static let key = "dGhlIHNhbXBsZSBub25jZQ=="

    static func get(_ path: String = "/ws") -> String {
        "GET \(path) HTTP/1.1\r\nHost: test\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: \(key)\r\n\r\n"
    }

    @discardableResult
    func upgrade(_ path: String = "/ws") throws -> String {
        send(Self.get(path))
        return try readHead()
    }

    /// A masked client frame.
    static func frame(_ first: UInt8, _ payload: [UInt8]) -> [UInt8] {
        let mask: [UInt8] = [0x37, 0xFA, 0x21, 0x3D]
        var bytes = [first]
        if payload.count < 126 {
            bytes.append(0x80 | UInt8(payload.count))
        } else if payload.count < 65536 {
            bytes += [0xFE, UInt8(payload.count >> 8), UInt8(payload.count & 255)]
        } else {
            bytes.append(0xFF)
            for shift in stride(from: 56, through: 0, by: -8) { bytes.append(UInt8(payload.count >> shift & 255)) }
        }
        bytes += mask
        for (place, byte) in payload.enumerated() { bytes.append(byte ^ mask[place & 3]) }
        return bytes
    }

    static func text(_ text: String) -> [UInt8] { frame(0x81, [UInt8](text.utf8)) }

    @discardableResult
    func sendText(_ text: String) -> Bool { send(Self.text(text)) }

    @discardableResult
    func sendClose(_ code: UInt16) -> Bool { send(Self.frame(0x88, [UInt8(code >> 8), UInt8(code & 255)])) }
}
