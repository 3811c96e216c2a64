import HubBase
import HubWire

/// Why a file isn't a snapshot to begin with; `place`: where, in bytes.
package enum SnapshotDamage: Error, Equatable, CustomStringConvertible {
    case notASnapshot
    case version(UInt32)
    case truncated(place: Int)
    case checksum(place: Int)
    case malformed(String, place: Int)
    /// More than this node's limits allow.
    case tooLarge(String)

    package var description: String {
        switch self {
        case .notASnapshot: "it isn't a hub's snapshot"
        case .version(let version): "it is of version \(version), and this hub reads versions up to \(SnapshotFormat.version)"
        case .truncated(let place): "it ends at byte \(place), in the middle"
        case .checksum(let place): "a checksum at byte \(place) doesn't fit"
        case .malformed(let what, let place): "\(what) at byte \(place) makes no sense"
        case .tooLarge(let what): "it holds more \(what) than this node may"
        }
    }
}

/// A snapshot as it was read.
package struct Snapshot {
    /// It holds all that its broker ever handed out.
    package var isClean: Bool
    /// When it was begun, in milliseconds since 1970.
    package var wallClock: UInt64
    /// nil: of a version that had none.
    package var generation: Generation?
    package var channels: [ChannelImage]
}

/// Reads a snapshot's bytes, whatever they are: every length is checked against what's there before anything is taken, every sum against
/// the broker's limits and an eighth more, and a history has to be a chain.
///
/// The eighth: a full broker still keeps revocations, and the channels of a snapshot that's taken over several turns are of different moments.
/// What a node wrote it can read.
package struct SnapshotDecoder {
    private let bytes: UnsafeRawBufferPointer
    private let limits: MemoryLimits
    private let now: Instant
    /// How long ago it was written: what was left then is less by that.
    private var downtime = Span.zero
    private var place = 0
    private var generation: Generation?
    private var channels: [ChannelImage] = []
    private var names = Set<Name>()
    private var historyBytes = 0
    private var idCount = 0
    private var readCount = 0

    private init(_ bytes: UnsafeRawBufferPointer, _ limits: MemoryLimits, _ now: Instant) {
        self.bytes = bytes
        self.limits = limits.withRoom
        self.now = now
    }

    /// `wallClock`: milliseconds since 1970, now. A clock that went back takes nothing from what was left. Cost: one look at each byte, and a
    /// copy of each publication.
    package static func decode(
        _ bytes: UnsafeRawBufferPointer, limits: MemoryLimits, at now: Instant, wallClock: UInt64
    ) throws(SnapshotDamage) -> Snapshot {
        var decoder = SnapshotDecoder(bytes, limits, now)
        let (isClean, written) = try decoder.header()
        decoder.downtime = .milliseconds(wallClock > written ? wallClock - written : 0)
        while try decoder.record() {}
        guard decoder.place == bytes.count else { throw .malformed("what follows the end", place: decoder.place) }
        return Snapshot(isClean: isClean, wallClock: written, generation: decoder.generation, channels: decoder.channels)
    }

    private mutating func header() throws(SnapshotDamage) -> (isClean: Bool, wallClock: UInt64) {
        guard bytes.count >= SnapshotFormat.headerBytes else { throw .notASnapshot }
        var fields = Fields(bytes, 0..<SnapshotFormat.headerBytes)
        guard fields.skip(SnapshotFormat.magic) else { throw .notASnapshot }
        let version = try fields.number(UInt32.self)
        let flags = try fields.number(UInt32.self)
        let wallClock = try fields.number(UInt64.self)
        let checksum = FNV1a.hash(UnsafeRawBufferPointer(rebasing: bytes[..<fields.place]))
        guard try fields.number(UInt64.self) == checksum else { throw .checksum(place: 0) }
        guard SnapshotFormat.versions.contains(version) else { throw .version(version) }
        place = SnapshotFormat.headerBytes
        return (flags & 1 == 1, wallClock)
    }

    /// False: it was the last one.
    private mutating func record() throws(SnapshotDamage) -> Bool {
        let start = place
        let frame = SnapshotFormat.recordHeadBytes + SnapshotFormat.checksumBytes
        guard bytes.count - start >= frame else { throw .truncated(place: bytes.count) }
        let length = Int(UInt32(littleEndian: bytes.loadUnaligned(fromByteOffset: start + 1, as: UInt32.self)))
        guard length <= SnapshotFormat.recordBytesMax else { throw .malformed("a record's length", place: start) }
        guard bytes.count - start - frame >= length else { throw .truncated(place: bytes.count) }
        let end = start + SnapshotFormat.recordHeadBytes + length
        let checksum = UInt64(littleEndian: bytes.loadUnaligned(fromByteOffset: end, as: UInt64.self))
        guard FNV1a.hash(UnsafeRawBufferPointer(rebasing: bytes[start..<end])) == checksum else { throw .checksum(place: start) }
        guard let kind = SnapshotFormat.Kind(rawValue: bytes[start]) else { throw .malformed("a record's kind", place: start) }
        var fields = Fields(bytes, start + SnapshotFormat.recordHeadBytes..<end)
        place = end + SnapshotFormat.checksumBytes
        switch kind {
        case .channel: try channel(&fields)
        case .publications: while !fields.isEmpty { try publication(&fields) }
        case .ids: while !fields.isEmpty { try id(&fields) }
        case .reads: while !fields.isEmpty { try read(&fields) }
        case .generation:
            let word = try fields.mark()
            guard word != .none, channels.isEmpty, generation == nil else { throw .malformed("a generation", place: start) }
            generation = Generation(word: word, ends: try ends(&fields))
        case .end:
            try finishChannel(start)
            guard try fields.number(UInt64.self) == UInt64(channels.count) else { throw .malformed("the number of channels", place: start) }
        }
        guard fields.isEmpty else { throw .malformed("the end of a record", place: fields.place) }
        return kind != .end
    }

    private mutating func channel(_ fields: inout Fields) throws(SnapshotDamage) {
        try finishChannel(fields.place)
        guard channels.count < limits.channels else { throw .tooLarge("channels") }
        let start = fields.place
        var image = ChannelImage(name: try fields.name(), position: .start)
        guard !image.name.isEmpty, names.insert(image.name).inserted else { throw .malformed("a channel's name", place: start) }
        image.position = try fields.position()
        image.metaEnds = try ends(&fields)
        image.historyEnds = try ends(&fields)
        image.readsEnd = try ends(&fields)
        channels.append(image)
    }

    /// A history that's there ends where its channel stands.
    private func finishChannel(_ place: Int) throws(SnapshotDamage) {
        guard let last = channels.last, last.history.count > 0 else { return }
        guard last.history[last.history.count - 1].position == last.position else { throw .malformed("a history's end", place: place) }
    }

    private mutating func publication(_ fields: inout Fields) throws(SnapshotDamage) {
        guard let last = channels.indices.last else { throw .malformed("a publication without a channel", place: fields.place) }
        let start = fields.place
        let offset = try fields.number(UInt64.self)
        let tag = try fields.mark()
        let previous = try fields.mark()
        let length = Int(try fields.number(UInt32.self))
        guard let publication = PublicationCodec.decode(try fields.take(length)), publication.messageClass.isDurable, offset >= 1,
            offset < 1 << 53, tag != .none
        else { throw .malformed("a publication", place: start) }
        let count = channels[last].history.count
        if count > 0 {
            let before = channels[last].history[count - 1].position
            guard offset == before.offset + 1, previous == before.tag else { throw .malformed("a publication's place", place: start) }
        }
        historyBytes += MemoryChannel.cost(of: publication)
        guard historyBytes <= limits.historyBytes else { throw .tooLarge("bytes of history") }
        let position = Position(epoch: channels[last].position.epoch, offset: offset, tag: tag)
        channels[last].history.append(PositionedPublication(position: position, previous: previous, publication: publication))
    }

    private mutating func id(_ fields: inout Fields) throws(SnapshotDamage) {
        guard let last = channels.indices.last else { throw .malformed("an id without a channel", place: fields.place) }
        idCount += 1
        guard idCount <= limits.messageIds else { throw .tooLarge("message ids") }
        let key = MessageKey(sender: try fields.name(), messageId: try fields.name())
        let digest = try fields.number(UInt64.self)
        let position = try fields.position()
        channels[last].ids.append(RememberedId(key: key, digest: digest, position: position, ends: try ends(&fields)))
    }

    private mutating func read(_ fields: inout Fields) throws(SnapshotDamage) {
        guard let last = channels.indices.last else { throw .malformed("a read position without a channel", place: fields.place) }
        readCount += 1
        guard readCount <= limits.readPositions else { throw .tooLarge("read positions") }
        let user = try fields.name()
        channels[last].reads[user] = try fields.number(UInt64.self)
    }

    private func ends(_ fields: inout Fields) throws(SnapshotDamage) -> Instant {
        let left = try fields.number(UInt64.self)
        if left == .max { return .distantFuture }
        let span = Span.milliseconds(left)
        return span > downtime ? now + Span(nanoseconds: span.nanoseconds - downtime.nanoseconds) : now
    }
}

/// The fields of a record, taken one after another within its bounds.
private struct Fields {
    private let bytes: UnsafeRawBufferPointer
    private(set) var place: Int
    private let end: Int

    /// `range` lies within `bytes`.
    init(_ bytes: UnsafeRawBufferPointer, _ range: Range<Int>) {
        self.bytes = bytes
        place = range.lowerBound
        end = range.upperBound
    }

    var isEmpty: Bool { place == end }

    mutating func take(_ count: Int) throws(SnapshotDamage) -> UnsafeRawBufferPointer {
        guard count >= 0, end - place >= count else { throw .malformed("a field's length", place: place) }
        defer { place += count }
        return UnsafeRawBufferPointer(rebasing: bytes[place..<place + count])
    }

    mutating func number<Value: FixedWidthInteger>(_ type: Value.Type) throws(SnapshotDamage) -> Value {
        Value(littleEndian: try take(MemoryLayout<Value>.size).loadUnaligned(as: Value.self))
    }

    mutating func skip(_ text: StaticString) -> Bool {
        guard let found = try? take(text.utf8CodeUnitCount) else { return false }
        return found.elementsEqual(UnsafeRawBufferPointer(start: text.utf8Start, count: text.utf8CodeUnitCount))
    }

    mutating func mark() throws(SnapshotDamage) -> Mark {
        let start = place
        let found = try take(8)
        if found.allSatisfy({ $0 == 0 }) { return .none }
        guard let mark = Mark(found) else { throw .malformed("a mark", place: start) }
        return mark
    }

    mutating func position() throws(SnapshotDamage) -> Position {
        let start = place
        let position = Position(epoch: try mark(), offset: try number(UInt64.self), tag: try mark())
        let isWhole = position.epoch != .none && position.offset >= 1 && position.offset < 1 << 53 && position.tag != .none
        guard isWhole || position == .start else { throw .malformed("a position", place: start) }
        return position
    }

    /// Empty where it may be: the backend's own name.
    mutating func name() throws(SnapshotDamage) -> Name {
        let start = place
        let found = try take(Int(try number(UInt8.self)))
        if found.isEmpty { return .empty }
        if found.elementsEqual(RevocationKeeper.channel.bytes) { return RevocationKeeper.channel }
        guard let name = Name(validating: found) else { throw .malformed("a name", place: start) }
        return name
    }
}

extension MemoryLimits {
    fileprivate var withRoom: MemoryLimits {
        func more(_ limit: Int) -> Int { limit.addingReportingOverflow(limit / 8).overflow ? .max : limit + limit / 8 }
        var limits = self
        limits.channels = more(channels)
        limits.historyBytes = more(historyBytes)
        limits.messageIds = more(messageIds)
        limits.readPositions = more(readPositions)
        return limits
    }
}
