import HubBase
import HubCore
import HubRedis
import HubWire

/// A snapshot's bytes, with the checksums made right where records can be told apart: else no input gets past the first one. What's taken
/// for a snapshot is written down again and read back the same.
func fuzzSnapshot(_ bytes: UnsafeRawBufferPointer) throws {
    var signed = [UInt8](SnapshotFormat.header(isClean: bytes.first.map { $0 & 1 == 1 } ?? false, wallClock: 1_000))
    signed += bytes.dropFirst()
    var place = SnapshotFormat.headerBytes
    let (head, tail) = (SnapshotFormat.recordHeadBytes, SnapshotFormat.checksumBytes)
    while signed.count - place >= head + tail {
        let length = (0..<4).reduce(0) { $0 | Int(signed[place + 1 + $1]) << (8 * $1) }
        guard signed.count - place - head - tail >= length else { break }
        let checksum = FNV1a.hash(Array(signed[place..<place + head + length]))
        for byte in 0..<8 { signed[place + head + length + byte] = UInt8(truncatingIfNeeded: checksum >> UInt64(8 * byte)) }
        place += head + length + tail
    }
    let now = Instant(nanoseconds: 1_000_000_000)
    guard let snapshot = decode(signed, at: now) else { return }
    var out = ByteBuffer(capacity: signed.count)
    out.append(SnapshotFormat.header(isClean: snapshot.isClean, wallClock: snapshot.wallClock))
    var encoder = SnapshotEncoder(at: now)
    if let generation = snapshot.generation { encoder.append(generation, to: &out) }
    for image in snapshot.channels { encoder.append(image, to: &out) }
    encoder.finish(&out)
    let again = decode(out.copyBytes(), at: now)
    try require(again != nil, "what was written down is a snapshot")
    try require(again?.generation?.word == snapshot.generation?.word, "the generation comes back")
    try require(again?.channels.map(\.position) == snapshot.channels.map(\.position), "channels come back where they were")
    try require(again?.channels.map(\.history.count) == snapshot.channels.map(\.history.count), "histories come back whole")
    for keepsEpochs in [true, false] {
        let broker = MemoryBroker(namespaces: [:], chance: Chance(seed: 1))
        broker.restore(snapshot.channels, generation: snapshot.generation, keepsEpochs: keepsEpochs, at: now)
        broker.start(at: now)
        broker.advance(at: now + .seconds(1))
    }
}

private func decode(_ bytes: [UInt8], at now: Instant) -> Snapshot? {
    bytes.withUnsafeBytes {
        try? SnapshotDecoder.decode($0, limits: MemoryLimits(), at: now, wallClock: 2_000)
    }
}

/// Whatever Redis answers where a page of history is expected.
func fuzzPage(_ bytes: UnsafeRawBufferPointer) throws {
    let reader = ReplyReader()
    reader.feed(bytes)
    let at = Position(epoch: Mark("epochaaa") ?? .none, offset: 3, tag: Mark("tagaaaaa") ?? .none)
    while case .reply = reader.next() {
        let queries = [
            HistoryQuery(after: .position(at), limit: 10), HistoryQuery(after: .position(.origin(at.tag)), limit: 10),
            HistoryQuery(before: .position(at), isReverse: true, limit: 10),
        ]
        for query in queries {
            guard let page = StreamPage(reader.reply, to: query) else { continue }
            try require(
                page.entries.allSatisfy { $0.position.offset >= 1 && $0.position.offset <= page.tip.offset }, "entries lie before the tip")
            _ = page.page(to: query)
        }
    }
}

/// Whatever stands in Redis where presence keeps its values: trail, close, connection, feed.
func fuzzTrail(_ bytes: UnsafeRawBufferPointer) throws {
    if let transition = TrailEntry.parse(bytes) {
        try require(transition.version < 1 << 53 && transition.time < 1 << 53, "numbers fit into what the wire carries")
    }
    if let close = TrailEntry.close(bytes) { try require(close.status == .offline && close.sweeper.isEmpty, "a close ends in offline") }
    _ = ConnectionValue.parse(bytes)
    if let changes = FeedPayload.parse(bytes) { try require(changes.count <= FeedPayload.limit, "as many as a script can make") }
}
