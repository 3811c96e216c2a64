import CZlib
import HubNet

/// The other end's zlib, straight: what a client compresses with, and what it can inflate.
final class DeflatePeer {
    private let out = UnsafeMutablePointer<z_stream>.allocate(capacity: 1)
    private let `in` = UnsafeMutablePointer<z_stream>.allocate(capacity: 1)
    private let windowBits: Int32
    private static let size = Int32(MemoryLayout<z_stream>.size)

    /// `windowBits`: of both directions.
    init(windowBits: Int32 = 15) {
        self.windowBits = windowBits
        out.initialize(to: z_stream())
        `in`.initialize(to: z_stream())
        precondition(deflateInit2_(out, 6, Z_DEFLATED, -windowBits, 8, Z_DEFAULT_STRATEGY, ZLIB_VERSION, Self.size) == Z_OK)
        precondition(inflateInit2_(`in`, -windowBits, ZLIB_VERSION, Self.size) == Z_OK)
    }

    deinit {
        deflateEnd(out)
        inflateEnd(`in`)
        out.deallocate()
        `in`.deallocate()
    }

    /// A message's payload (RFC 7692 §7.2.1).
    func deflate(_ bytes: [UInt8], takesOver: Bool = false) -> [UInt8] {
        if !takesOver { deflateReset(out) }
        var bytes = bytes
        var result = [UInt8](repeating: 0, count: bytes.count + bytes.count / 100 + 64)
        let count = bytes.withUnsafeMutableBytes { source in
            result.withUnsafeMutableBytes { target in
                out.pointee.next_in = source.baseAddress?.assumingMemoryBound(to: UInt8.self)
                out.pointee.avail_in = UInt32(source.count)
                out.pointee.next_out = target.baseAddress?.assumingMemoryBound(to: UInt8.self)
                out.pointee.avail_out = UInt32(target.count)
                precondition(CZlib.deflate(out, Z_SYNC_FLUSH) == Z_OK && out.pointee.avail_out > 0)
                return target.count - Int(out.pointee.avail_out)
            }
        }
        precondition(result[..<count].suffix(4) == [0, 0, 0xFF, 0xFF])
        return [UInt8](result[..<(count - 4)])
    }

    /// A message (RFC 7692 §7.2.2); nil when it can't be inflated within the window. Output is taken byte by byte, so that zlib has no more to
    /// refer back to than the window.
    func inflate(_ payload: [UInt8], takesOver: Bool = false) -> [UInt8]? {
        if !takesOver { inflateReset(`in`) }
        var source = payload + [0, 0, 0xFF, 0xFF]
        var result: [UInt8] = []
        return source.withUnsafeMutableBytes { source in
            `in`.pointee.next_in = source.baseAddress?.assumingMemoryBound(to: UInt8.self)
            `in`.pointee.avail_in = UInt32(source.count)
            while true {
                var byte: UInt8 = 0
                let code = withUnsafeMutablePointer(to: &byte) {
                    `in`.pointee.next_out = $0
                    `in`.pointee.avail_out = 1
                    return CZlib.inflate(`in`, Z_SYNC_FLUSH)
                }
                if `in`.pointee.avail_out == 0 { result.append(byte) }
                if code != Z_OK && code != Z_BUF_ERROR { return nil }
                if `in`.pointee.avail_in == 0 && `in`.pointee.avail_out > 0 { return result }
                if code == Z_BUF_ERROR && `in`.pointee.avail_out > 0 { return nil }
            }
        }
    }
}

extension RawClient {
    /// Opens a WebSocket with an offer; returns what was agreed to, nil when nothing was.
    func upgrade(offering offer: String, _ path: String = "/ws") throws -> String? {
        let request = Self.get(path)
        // The last line break is one character.
        send(request.dropLast(1) + "Sec-WebSocket-Extensions: \(offer)\r\n\r\n")
        let lines = try readHead().split(separator: "\r\n")
        precondition(lines[0].contains("101"), "\(lines)")
        return lines.first { $0.hasPrefix("Sec-WebSocket-Extensions: ") }.map { String($0.dropFirst("Sec-WebSocket-Extensions: ".count)) }
    }

    func sendCompressed(_ payload: [UInt8], _ first: UInt8 = 0xC1) { send(Self.frame(first, payload)) }
}

extension LoopFixture {
    /// A client that offers compression, and its id.
    func joinDeflating(_ offer: String = "permessage-deflate", receiveBuffer: Int32? = nil) throws -> (RawClient, ConnectionID) {
        let before = opens.all.count
        let client = RawClient(port: port, receiveBuffer: receiveBuffer)
        _ = try client.upgrade(offering: offer)
        return (client, opens.wait(for: before + 1)[before])
    }
}
