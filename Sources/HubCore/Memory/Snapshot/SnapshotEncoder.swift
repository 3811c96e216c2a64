import HubBase
import HubWire

/// How a snapshot of the embedded broker lies in its file. Numbers are little-endian; names are a length byte and their bytes; spans are
/// milliseconds that were left when the image was written (all ones: without end).
///
///     header, 32 bytes   "hub-snap", 4 version, 4 flags (1: clean), 8 wall clock (ms since 1970), 8 checksum
///     records            1 kind, 4 length, the content, 8 checksum of all of that
///       1 channel        name, 8 epoch, 8 offset, 8 tag, 8 left of it, 8 of its history, 8 of its read positions
///       2 publications   of that channel, the oldest first: 8 offset, 8 tag, 8 previous tag, 4 length, the publication (PublicationCodec)
///       3 ids            sender, id, 8 digest of the content, 8 epoch, 8 offset, 8 tag, 8 left
///       4 read positions user, 8 offset
///       5 generation     before the first channel: 8 word, 8 left of it (decision 0135); none in version 1
///       255 end          8 channels
///
/// A channel's records 2 to 4 follow its record 1, each as often as needed: none gets much larger than `recordBytes`, so a reader needs no
/// trust in lengths. The checksum is FNV-1a: against torn writes and bad disks, not against people.
package enum SnapshotFormat {
    package static let magic: StaticString = "hub-snap"
    package static let version: UInt32 = 2
    /// Those that are read.
    package static let versions: ClosedRange<UInt32> = 1...2
    package static let headerBytes = 32
    package static let recordHeadBytes = 5
    package static let checksumBytes = 8
    /// Where a record is closed and the next one begun.
    static let recordBytes = 1 << 20
    /// No record of ours is larger: the above and one publication of the largest size.
    package static let recordBytesMax = 64 << 20

    package enum Kind: UInt8 { case channel = 1, publications, ids, reads, generation, end = 255 }

    /// The header's bytes alone: a snapshot that was clean loses that word in place, before anything changes.
    package static func header(isClean: Bool, wallClock: UInt64) -> [UInt8] {
        var out = ByteBuffer(capacity: headerBytes)
        out.append(magic)
        out.append(little: version)
        out.append(little: isClean ? 1 : UInt32(0))
        out.append(little: wallClock)
        out.append(little: FNV1a.hash(out.bytes))
        return out.copyBytes()
    }
}

/// Writes images down. Cost: one copy of their bytes.
package struct SnapshotEncoder {
    private let now: Instant
    private var channels: UInt64 = 0
    private var recordStart: Int?

    /// `now`: on the clock of the images' ends.
    package init(at now: Instant) { self.now = now }

    package mutating func append(_ image: ChannelImage, to out: inout ByteBuffer) {
        channels += 1
        begin(.channel, &out)
        name(image.name, &out)
        position(image.position, &out)
        left(image.metaEnds, &out)
        left(image.historyEnds, &out)
        left(image.readsEnd, &out)
        end(&out)
        for place in 0..<image.history.count {
            grow(.publications, &out)
            let one = image.history[place]
            out.append(little: one.position.offset)
            out.append(little: one.position.tag.raw)
            out.append(little: one.previous.raw)
            let lengthAt = out.count
            out.append(little: UInt32(0))
            PublicationCodec.encode(one.publication, into: &out)
            out.overwrite(little: UInt32(truncatingIfNeeded: out.count - lengthAt - 4), at: lengthAt)
        }
        end(&out)
        for place in 0..<image.ids.count {
            grow(.ids, &out)
            let one = image.ids[place]
            name(one.key.sender, &out)
            name(one.key.messageId, &out)
            out.append(little: one.digest)
            position(one.position, &out)
            left(one.ends, &out)
        }
        end(&out)
        for (user, offset) in image.reads {
            grow(.reads, &out)
            name(user, &out)
            out.append(little: offset)
        }
        end(&out)
    }

    /// Before the first image.
    package mutating func append(_ generation: Generation, to out: inout ByteBuffer) {
        begin(.generation, &out)
        out.append(little: generation.word.raw)
        left(generation.ends, &out)
        end(&out)
    }

    /// Behind the last image.
    package mutating func finish(_ out: inout ByteBuffer) {
        begin(.end, &out)
        out.append(little: channels)
        end(&out)
    }

    // MARK: Records

    private mutating func begin(_ kind: SnapshotFormat.Kind, _ out: inout ByteBuffer) {
        recordStart = out.count
        out.append(kind.rawValue)
        out.append(little: UInt32(0))
    }

    private mutating func end(_ out: inout ByteBuffer) {
        guard let start = recordStart else { return }
        recordStart = nil
        out.overwrite(little: UInt32(truncatingIfNeeded: out.count - start - SnapshotFormat.recordHeadBytes), at: start + 1)
        out.append(little: FNV1a.hash(UnsafeRawBufferPointer(rebasing: out.bytes[start...])))
    }

    /// Room for one more entry.
    private mutating func grow(_ kind: SnapshotFormat.Kind, _ out: inout ByteBuffer) {
        if let start = recordStart, out.count - start < SnapshotFormat.recordBytes { return }
        end(&out)
        begin(kind, &out)
    }

    private func name(_ name: Name, _ out: inout ByteBuffer) {
        out.append(UInt8(truncatingIfNeeded: name.bytes.count))
        out.append(name.bytes)
    }

    private func position(_ position: Position, _ out: inout ByteBuffer) {
        out.append(little: position.epoch.raw)
        out.append(little: position.offset)
        out.append(little: position.tag.raw)
    }

    private func left(_ ends: Instant, _ out: inout ByteBuffer) {
        out.append(little: ends == .distantFuture ? .max : ends.since(now).milliseconds)
    }
}

extension ByteBuffer {
    fileprivate mutating func append<Value: FixedWidthInteger>(little value: Value) {
        let size = MemoryLayout<Value>.size
        reserve(size).storeBytes(of: value.littleEndian, as: Value.self)
        advance(by: size)
    }

    fileprivate mutating func overwrite(little value: UInt32, at place: Int) {
        precondition(place >= 0 && place + 4 <= count)
        (reserve(0) - count + place).storeBytes(of: value.littleEndian, as: UInt32.self)
    }
}
