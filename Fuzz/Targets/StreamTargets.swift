import HubBase
import HubCore
import HubNet

/// Any message as an event: one empty line, at the end, and a reader gets the message back with LF for each line end.
func fuzzEvents(_ bytes: UnsafeRawBufferPointer) throws {
    var wire = ByteBuffer(capacity: bytes.count + 16)
    EventEncoder.append(bytes, into: &wire)
    let lines = wire.bytes.split(separator: 10, omittingEmptySubsequences: false)
    try require(
        lines.count >= 3 && lines[lines.count - 1].isEmpty && lines[lines.count - 2].isEmpty, "an event doesn't end in an empty line")
    var read: [UInt8] = []
    for (place, line) in lines.dropLast(2).enumerated() {
        try require(line.starts(with: "data: ".utf8) && !line.contains(13), "a line of an event isn't data")
        if place > 0 { read.append(10) }
        read += line.dropFirst(6)
    }
    var expected: [UInt8] = []
    for (place, byte) in bytes.enumerated() where !(byte == 10 && place > 0 && bytes[place - 1] == 13) {
        expected.append(byte == 13 ? 10 : byte)
    }
    try require(read == expected, "an event is read as another message")
    var close = ByteBuffer(capacity: 64)
    EventEncoder.appendClose(code: 1013, reason: bytes, into: &close)
    try require(close.bytes.filter { $0 == 10 }.count <= 4, "a reason broke its line")
    _ = EventEncoder.endsFor(bytes)
}

/// What comes over a control channel: what is read is written and read again as the same.
func fuzzControl(_ bytes: UnsafeRawBufferPointer) throws {
    guard let message = ControlMessage(bytes, bodyMax: 4096) else { return }
    let again = message.bytes().withUnsafeBytes { ControlMessage($0, bodyMax: 4096) }
    try require(again == message, "a control message is read as another one when it's written again")
    if case .post(let post, _, _) = message { try require(post.body.count <= 4096, "a body passed its limit") }
}
