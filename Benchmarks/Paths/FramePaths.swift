import HubBase
import HubNet

/// Frames in and out, deadlines, compression.
func framePaths() -> [Path] {
    let limits = FrameLimits(messageBytes: 1 << 20, fragments: 64)
    let key: UInt32 = 0x1234_5678

    func masked(_ text: [UInt8]) -> [UInt8] {
        var frame = ByteBuffer(capacity: text.count + 16)
        _ = frame.reserve(16)
        frame.advance(by: 16)
        frame.append(text)
        let header = FrameEncoder.writeHeader(before: frame.base + 16, .text, payloadBytes: text.count, maskingKey: key)
        Masking.apply(key, to: UnsafeMutableRawBufferPointer(start: frame.base + 16, count: text.count))
        return Array(frame.bytes[(16 - header)...])
    }

    return [
        Path(name: "decode", what: "a masked text frame of 211 bytes: header, unmasking, UTF-8") { times in
            let frame = masked(chat(128))
            let work = UnsafeMutableRawBufferPointer.allocate(byteCount: frame.count, alignment: 16)
            defer { work.deallocate() }
            var decoder = FrameDecoder(role: .server)
            var consumed = 0
            for _ in 0..<times {
                work.copyBytes(from: frame)
                if case .message(_, _, _, let bytes) = decoder.next(work, limits: limits) { consumed &+= bytes }
            }
            return consumed
        },
        Path(name: "encode", what: "a frame header before a payload of 300 bytes") { times in
            let room = UnsafeMutableRawPointer.allocate(byteCount: 512, alignment: 16)
            defer { room.deallocate() }
            var bytes = 0
            for turn in 0..<times {
                bytes &+= FrameEncoder.writeHeader(before: room + 16, .text, payloadBytes: 300 &+ turn & 1)
            }
            return bytes
        },
        Path(name: "unmask", what: "1,024 bytes") { times in
            let bytes = UnsafeMutableRawBufferPointer.allocate(byteCount: 1024, alignment: 16)
            defer { bytes.deallocate() }
            bytes.initializeMemory(as: UInt8.self, repeating: 7)
            for turn in 0..<times { Masking.apply(key &+ UInt32(truncatingIfNeeded: turn), to: bytes) }
            return Int(bytes[5])
        },
        Path(name: "wheel", what: "a deadline armed anew among 10,000, and one in sixteen fired") { times in
            var now = Instant(nanoseconds: 1_000_000_000)
            var wheel = TimerWheel(now: now)
            for index in 0..<UInt32(10_000) { wheel.arm(index, at: now + .milliseconds(UInt64(index) * 3)) }
            var fired = 0
            for turn in 0..<times {
                wheel.arm(UInt32(turn % 10_000), at: now + .milliseconds(30_000))
                if turn & 15 == 0 {
                    now = now + .milliseconds(2)
                    while wheel.popDue(now) != nil { fired += 1 }
                }
            }
            return fired + wheel.armedCount
        },
        Path(name: "deflate", what: "a chat of 1 KB, always the same, of eleven words, level 1") { deflate([chat(1024)], $0) },
        Path(name: "deflate-prose", what: "64 chats of 1 KB by turns, of 64 words and with ids, level 1") { deflate(Prose.chats, $0) },
    ]
}

private func deflate(_ texts: [[UInt8]], _ times: Int) -> Int {
    guard let deflater = Deflater(level: 1, windowBits: 15) else { return 0 }
    var out = ByteBuffer(capacity: 4096)
    var bytes = 0
    for turn in 0..<times {
        out.removeAll()
        deflater.reset()
        bytes &+= texts[turn % texts.count].withUnsafeBytes { deflater.deflate($0, into: &out) } ?? 0
    }
    return bytes
}
