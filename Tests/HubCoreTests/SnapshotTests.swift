import HubBase
import HubCore
import HubWire
import Testing

/// A broker with some of everything, and its answers as text.
private final class Kept: BrokerDelegate {
    let broker: MemoryBroker
    var now: Instant
    var positions: [Name: Position] = [:]
    var results: [Result<PublishResult, WireError>] = []
    var pages: [HistoryPage] = []
    var marks: [ReadMark] = []

    init(seed: UInt64 = 1, at now: Instant = Instant(nanoseconds: 1_000_000_000), limits: MemoryLimits = MemoryLimits()) {
        broker = MemoryBroker(namespaces: BrokerOptions.all, chance: Chance(seed: seed), limits: limits)
        self.now = now
        broker.delegate = self
    }

    enum BrokerOptions {
        static var all: [String: HistoryOptions] {
            var none = HistoryOptions()
            none.size = 0
            return ["": HistoryOptions(), "none": none]
        }
    }

    static func publication(_ id: String, _ text: String = "{}", from user: Name = "alice") -> Publication {
        Publication(
            messageClass: .chat, user: user, device: "phone", messageId: Name(trusted: [UInt8](id.utf8)), time: 1_700_000_000_000,
            payload: [UInt8](text.utf8))
    }

    @discardableResult
    func publish(_ id: String, to channel: Name, _ text: String = "{}", attempt: PublishAttempt? = nil) -> Result<PublishResult, WireError>?
    {
        broker.publish(Kept.publication(id, text), to: channel, attempt: attempt, tag: .none, at: now)
        broker.advance(at: now)
        return results.last
    }

    func read(_ offset: UInt64, by user: Name, in channel: Name) {
        let publication = Publication(messageClass: .read, user: user, device: "", messageId: .empty, time: 1, payload: [49])
        broker.markRead(publication, offset: offset, in: channel, tag: .none, at: now)
        broker.advance(at: now)
    }

    func page(_ channel: Name, after position: Position) -> HistoryPage? {
        broker.readHistory(of: channel, HistoryQuery(after: .position(position), limit: 1_000, bytesMax: 1 << 30), tag: .none, at: now)
        broker.advance(at: now)
        return pages.last
    }

    func marks(of user: Name, in channel: Name) -> [ReadMark] {
        marks = []
        broker.readMarks(of: channel, user: user, limit: 100, tag: .none, at: now)
        broker.advance(at: now)
        return marks
    }

    /// All of it, as a file would hold it.
    func snapshot(isClean: Bool, wallClock: UInt64 = 1_000_000) -> [UInt8] {
        var out = ByteBuffer(capacity: 1024)
        out.append(SnapshotFormat.header(isClean: isClean, wallClock: wallClock))
        var encoder = SnapshotEncoder(at: now)
        encoder.append(broker.generation, to: &out)
        broker.beginImages()
        while true {
            let (images, isLast) = broker.takeImages(3)
            for image in images { encoder.append(image, to: &out) }
            if isLast { break }
        }
        encoder.finish(&out)
        return out.copyBytes()
    }

    func filled() -> Kept {
        broker.start(at: now)
        for number in 1...150 { publish("m\(number)", to: "chat:many", "{\"n\":\(number)}") }
        publish("m1", to: "none:unkept")
        for number in 0..<5 { publish("m1", to: Name(trusted: [UInt8]("chat:room-\(number)".utf8))) }
        read(120, by: "alice", in: "chat:many")
        read(7, by: "bob", in: "chat:many")
        publish("m1", to: "none:only-read")
        read(1, by: "", in: "none:only-read")
        return self
    }

    func published(_ result: Result<PublishResult, WireError>, tag: RequestTag) { results.append(result) }
    func readMoved(_ result: Result<UInt64, WireError>, tag: RequestTag) {}
    func subscribed(_ channel: Name, _ result: Result<Position, WireError>, tag: RequestTag) {}
    func historyRead(_ channel: Name, _ result: Result<HistoryPage, WireError>, tag: RequestTag) {
        if case .success(let page) = result { pages.append(page) }
    }
    func readMarks(_ channel: Name, _ result: Result<[ReadMark], WireError>, tag: RequestTag) {
        if case .success(let marks) = result { self.marks = marks }
    }
    func probed(_ result: Result<Void, WireError>, tag: RequestTag) {}
    func received(_ publication: PositionedPublication, channel: Name) {}
    func received(_ publication: Publication, channel: Name) {}
    func resync(_ channel: Name, to position: Position, reason: ResyncReason) {}
    func brokerHealth(_ health: BackendHealth) {}
}

@Suite("Snapshots of the embedded broker")
struct SnapshotTests {
    private static func decode(
        _ bytes: [UInt8], limits: MemoryLimits = MemoryLimits(), at now: Instant, wallClock: UInt64
    ) throws(SnapshotDamage) -> Snapshot {
        let copy = UnsafeMutableRawBufferPointer.allocate(byteCount: max(bytes.count, 1), alignment: 16)
        defer { copy.deallocate() }
        copy.copyBytes(from: bytes)
        return try SnapshotDecoder.decode(
            UnsafeRawBufferPointer(rebasing: copy[..<bytes.count]), limits: limits, at: now, wallClock: wallClock)
    }

    /// A node that starts `downtime` later with what `kept` had.
    private static func restarted(
        _ kept: Kept, isClean: Bool, downtime: Span = .seconds(5), seed: UInt64 = 2
    ) throws -> Kept {
        let bytes = kept.snapshot(isClean: isClean)
        // Another process: its monotonic clock says something else.
        let next = Kept(seed: seed, at: Instant(nanoseconds: 77_000_000_000))
        let snapshot = try decode(bytes, at: next.now, wallClock: 1_000_000 + downtime.milliseconds)
        #expect(snapshot.isClean == isClean && snapshot.wallClock == 1_000_000)
        next.broker.restore(snapshot.channels, generation: snapshot.generation, keepsEpochs: snapshot.isClean, at: next.now)
        next.broker.start(at: next.now)
        next.broker.advance(at: next.now)
        return next
    }

    @Test("after a clean stop all goes on where it was: positions, history, ids and read positions")
    func clean() throws {
        let kept = Kept().filled()
        let before = kept.page("chat:many", after: .start)
        let middle = before?.publications[40].position ?? .start
        let next = try Self.restarted(kept, isClean: true)
        #expect(next.broker.held == kept.broker.held)
        #expect(next.page("chat:many", after: .start) == before)
        #expect(next.page("chat:many", after: middle) == kept.page("chat:many", after: middle))
        #expect(next.page("chat:many", after: middle)?.continuity == .whole)
        // An id is remembered with its content and its first answer.
        let first = kept.publish("m150", to: "chat:many", "{\"n\":150}")
        #expect(next.publish("m150", to: "chat:many", "{\"n\":150}") == first)
        #expect((try? first?.get())?.isDuplicate == true)
        if case .failure(let error)? = next.publish("m150", to: "chat:many", "{\"n\":0}") {
            #expect(error.code == .duplicateConflict)
        } else {
            Issue.record("taken")
        }
        #expect((try? next.publish("m151", to: "chat:many")?.get())?.position.offset == 151)
        #expect((try? next.publish("m2", to: "none:unkept")?.get())?.position.offset == 2)
        #expect(next.marks(of: "alice", in: "chat:many") == [ReadMark(user: "alice", offset: 120), ReadMark(user: "bob", offset: 7)])
        #expect(next.marks(of: "", in: "none:only-read") == [ReadMark(user: "", offset: 1)])
    }

    @Test("after a crash what the last snapshot had is served, and nobody's position is taken for continued")
    func unclean() throws {
        let kept = Kept().filled()
        let before = kept.page("chat:many", after: .start)
        let next = try Self.restarted(kept, isClean: false)
        for place in [0, 40, 99] {
            let position = before?.publications[place].position ?? .start
            let page = next.page("chat:many", after: position)
            #expect(page?.continuity == .broken(.epochChanged))
            #expect(page?.publications.map(\.publication) == before?.publications.map(\.publication))
            #expect(page?.tip.epoch != before?.tip.epoch && page?.tip.offset == 150)
        }
        // Within the new epoch the chain is whole.
        let inside = next.page("chat:many", after: .start)?.publications[3].position ?? .start
        #expect(next.page("chat:many", after: inside)?.continuity == .whole)
        let again = try? next.publish("m150", to: "chat:many", "{\"n\":150}")?.get()
        #expect(again?.isDuplicate == true && again?.position == next.page("chat:many", after: .start)?.tip)
        #expect(next.marks(of: "bob", in: "chat:many").first == ReadMark(user: "bob", offset: 7))
    }

    /// Where an empty channel stood, and a channel that has begun there.
    private static func begun() -> (kept: Kept, origin: Position) {
        let kept = Kept()
        kept.broker.start(at: kept.now)
        let origin = kept.page("chat:empty", after: .start)?.tip ?? .start
        kept.publish("m1", to: "chat:begun")
        return (kept, origin)
    }

    @Test("who stood at a channel's beginning goes on after a clean stop, and is told after any other")
    func origin() throws {
        let (kept, origin) = Self.begun()
        #expect(origin.isOrigin && origin.tag != .none)
        let clean = try Self.restarted(kept, isClean: true)
        #expect(clean.page("chat:empty", after: origin)?.continuity == .whole)
        #expect(clean.page("chat:begun", after: origin)?.publications.count == 1)
        #expect(clean.page("chat:begun", after: origin)?.continuity == .whole)
        let unclean = try Self.restarted(kept, isClean: false)
        #expect(unclean.page("chat:empty", after: origin)?.continuity == .broken(.epochChanged))
        // What's kept isn't known to be all that was acknowledged.
        #expect(unclean.page("chat:begun", after: origin)?.continuity == .broken(.epochChanged))
        let next = unclean.page("chat:empty", after: origin)?.tip ?? .start
        unclean.publish("m1", to: "chat:empty")
        #expect(unclean.page("chat:empty", after: next)?.continuity == .whole)
        #expect(unclean.page("chat:empty", after: origin)?.continuity == .broken(.epochChanged))
        // It doesn't outlive what channels leave behind.
        let later = try Self.restarted(kept, isClean: true, downtime: .seconds(6 * 86_400))
        #expect(later.page("chat:empty", after: origin)?.continuity == .broken(.epochChanged))
    }

    @Test("a snapshot of version 1, which had no generation, is read")
    func firstVersion() throws {
        let (kept, origin) = Self.begun()
        var out = ByteBuffer(capacity: 1024)
        out.append(SnapshotFormat.header(isClean: true, wallClock: 1_000_000))
        var encoder = SnapshotEncoder(at: kept.now)
        kept.broker.beginImages()
        for image in kept.broker.takeImages(100).images { encoder.append(image, to: &out) }
        encoder.finish(&out)
        var bytes = out.copyBytes()
        bytes[8] = 1
        Self.sign(&bytes)
        let snapshot = try Self.decode(bytes, at: kept.now, wallClock: 1_000_000)
        #expect(snapshot.generation == nil && snapshot.channels.count == 1)
        let next = Kept(seed: 2, at: kept.now)
        next.broker.restore(snapshot.channels, generation: nil, keepsEpochs: true, at: kept.now)
        next.broker.start(at: kept.now)
        #expect(next.page("chat:begun", after: .start)?.publications.count == 1)
        #expect(next.page("chat:empty", after: origin)?.continuity == .broken(.epochChanged))
        bytes[8] = 3
        Self.sign(&bytes)
        #expect(throws: SnapshotDamage.version(3)) { _ = try Self.decode(bytes, at: kept.now, wallClock: 1) }
    }

    @Test("time goes on while a node is down: ids, history and places end when they would have")
    func downtime() throws {
        let kept = Kept().filled()
        let tip = kept.page("chat:many", after: .start)?.tip ?? .start
        let later = try Self.restarted(kept, isClean: true, downtime: .seconds(700))
        #expect((try? later.publish("m150", to: "chat:many", "{\"n\":150}")?.get())?.position.offset == 151)
        let muchLater = try Self.restarted(kept, isClean: true, downtime: .seconds(4_000))
        let page = muchLater.page("chat:many", after: tip)
        #expect(page?.continuity == .whole && page?.tip == tip)
        #expect(muchLater.page("chat:many", after: .start)?.publications == [])
        let afterAll = try Self.restarted(kept, isClean: true, downtime: .seconds(8 * 86_400))
        let end = afterAll.page("chat:many", after: .start)?.tip
        #expect(end?.isOrigin == true && end != .origin(kept.broker.generation.word))
        // A wall clock that went back takes nothing away, and gives nothing.
        let bytes = kept.snapshot(isClean: true)
        let back = try Self.decode(bytes, at: kept.now, wallClock: 5)
        let same = Kept(seed: 3, at: kept.now)
        same.broker.restore(back.channels, generation: back.generation, keepsEpochs: true, at: kept.now)
        #expect(same.broker.held == kept.broker.held)
    }

    @Test("an image is of its moment: what's published while others write it down isn't in it, and isn't lost")
    func images() throws {
        let kept = Kept().filled()
        kept.broker.beginImages()
        let images = kept.broker.takeImages(100).images
        for number in 151...400 { kept.publish("m\(number)", to: "chat:many") }
        let many = images.first { $0.name == "chat:many" }
        #expect(many?.position.offset == 150 && many?.history.count == 100 && many?.history.first?.position.offset == 51)
        #expect(kept.page("chat:many", after: .start)?.tip.offset == 400)
    }

    @Test("channels that come and go while a snapshot is taken are neither missed nor taken twice", arguments: 1...10)
    func walk(seed: UInt64) {
        var chance = Chance(seed: seed)
        let kept = Kept()
        kept.broker.start(at: kept.now)
        let lasting = (0..<60).map { Name(trusted: [UInt8]("chat:lasting-\($0)".utf8)) }
        // Some are only subscribed to: they're forgotten when they no longer are, and others take their places.
        var passing: [Name] = []
        func come() {
            let name = Name(trusted: [UInt8]("chat:passing-\(passing.count)".utf8))
            passing.append(name)
            kept.broker.subscribe(name, tag: .none, at: kept.now)
        }
        for name in lasting {
            for _ in 0..<Int.random(in: 0..<3, using: &chance) { come() }
            kept.publish("m1", to: name)
        }
        var seen: [Name] = []
        kept.broker.beginImages()
        while true {
            let (images, isLast) = kept.broker.takeImages(Int.random(in: 1..<6, using: &chance))
            seen += images.map(\.name)
            if isLast { break }
            for _ in 0..<Int.random(in: 0..<12, using: &chance) {
                if Bool.random(using: &chance) || passing.isEmpty {
                    come()
                } else {
                    kept.broker.unsubscribe(passing.remove(at: Int.random(in: passing.indices, using: &chance)), at: kept.now)
                }
            }
        }
        #expect(Set(seen) == Set(lasting))
        #expect(seen.count == lasting.count)
    }

    @Test("large channels lie in records of about a megabyte, and come back whole")
    func large() throws {
        let kept = Kept()
        kept.broker.start(at: kept.now)
        let text = "\"" + String(repeating: "x", count: 60_000) + "\""
        for number in 1...100 { kept.publish("m\(number)", to: "chat:large", text) }
        let bytes = kept.snapshot(isClean: true)
        #expect(bytes.count > 6_000_000)
        var place = SnapshotFormat.headerBytes
        while place < bytes.count {
            let length = (0..<4).reduce(0) { $0 | Int(bytes[place + 1 + $1]) << (8 * $1) }
            #expect(length < 1_200_000)
            place += SnapshotFormat.recordHeadBytes + length + SnapshotFormat.checksumBytes
        }
        let next = try Self.restarted(kept, isClean: true)
        #expect(next.page("chat:large", after: .start) == kept.page("chat:large", after: .start))
    }

    @Test("a file that's cut off anywhere is refused")
    func truncated() {
        let bytes = Kept().filled().snapshot(isClean: true)
        for length in 0..<bytes.count {
            #expect(throws: SnapshotDamage.self) {
                _ = try Self.decode(Array(bytes[..<length]), at: Instant(nanoseconds: 1), wallClock: 1)
            }
        }
        #expect(throws: SnapshotDamage.malformed("what follows the end", place: bytes.count)) {
            _ = try Self.decode(bytes + [0], at: Instant(nanoseconds: 1), wallClock: 1)
        }
    }

    @Test("a file with any byte changed is refused: each is under a checksum")
    func flipped() {
        let bytes = Kept().filled().snapshot(isClean: true)
        for place in stride(from: 0, to: bytes.count, by: 3) {
            var wrong = bytes
            wrong[place] ^= 0x41
            #expect(throws: SnapshotDamage.self) { _ = try Self.decode(wrong, at: Instant(nanoseconds: 1), wallClock: 1) }
        }
    }

    @Test("what has right checksums but makes no sense is refused by name: the checksum is against bad disks, not against people")
    func nonsense() {
        let bytes = Kept().filled().snapshot(isClean: true)
        var chance = Chance(seed: 5)
        var refused = 0
        for _ in 0..<20_000 {
            var wrong = bytes
            for _ in 0..<Int.random(in: 1..<4, using: &chance) {
                wrong[Int.random(in: 24..<wrong.count, using: &chance)] = UInt8.random(in: 0...255, using: &chance)
            }
            Self.sign(&wrong)
            do throws(SnapshotDamage) { _ = try Self.decode(wrong, at: Instant(nanoseconds: 1), wallClock: 1) } catch { refused += 1 }
        }
        // Never a trap; and what isn't refused is another, possible snapshot.
        #expect(refused > 1_000)
    }

    /// Makes all checksums right that can be found.
    private static func sign(_ bytes: inout [UInt8]) {
        func put(_ value: UInt64, _ place: Int) {
            for byte in 0..<8 { bytes[place + byte] = UInt8(truncatingIfNeeded: value >> UInt64(8 * byte)) }
        }
        put(FNV1a.hash(Array(bytes[..<24])), 24)
        var place = SnapshotFormat.headerBytes
        while bytes.count - place >= 13 {
            let length = (0..<4).reduce(0) { $0 | Int(bytes[place + 1 + $1]) << (8 * $1) }
            guard bytes.count - place - 13 >= length else { return }
            put(FNV1a.hash(Array(bytes[place..<place + 5 + length])), place + 5 + length)
            place += 13 + length
        }
    }

    @Test("a snapshot that holds more than the node may is refused by name")
    func limits() {
        let bytes = Kept().filled().snapshot(isClean: true)
        func refusal(_ change: (inout MemoryLimits) -> Void) -> SnapshotDamage? {
            var limits = MemoryLimits()
            change(&limits)
            do throws(SnapshotDamage) { _ = try Self.decode(bytes, limits: limits, at: Instant(nanoseconds: 1), wallClock: 1) } catch {
                return error
            }
            return nil
        }
        #expect(refusal { $0.channels = 7 } == .tooLarge("channels"))
        #expect(refusal { $0.historyBytes = 1_000 } == .tooLarge("bytes of history"))
        #expect(refusal { $0.messageIds = 130 } == .tooLarge("message ids"))
        #expect(refusal { $0.readPositions = 2 } == .tooLarge("read positions"))
        #expect(refusal { _ in } == nil)
        #expect(SnapshotDamage.tooLarge("channels").description == "it holds more channels than this node may")
    }

    @Test("what a full node wrote it can read, revocations that it kept all the same included")
    func full() {
        var limits = MemoryLimits()
        limits.historyBytes = 40_000
        limits.messageIds = 100
        let kept = Kept(limits: limits)
        kept.broker.start(at: kept.now)
        var count = 0
        while case .success? = kept.publish("m\(count)", to: "chat:full", "\"\(String(repeating: "x", count: 300))\""), count < 1_000 {
            count += 1
        }
        #expect(count > 50 && count < 1_000)
        for number in 0..<5 { #expect((try? kept.publish("r\(number)", to: RevocationKeeper.channel)?.get()) != nil) }
        let bytes = kept.snapshot(isClean: true)
        #expect(throws: Never.self) { try Self.decode(bytes, limits: limits, at: kept.now, wallClock: 1_000_000) }
    }

    @Test("a namespace that kept nothing for a while has no history with a hole in it")
    func keptAgain() {
        let kept = Kept()
        kept.broker.start(at: kept.now)
        for number in 1...3 { kept.publish("m\(number)", to: "chat:room") }
        var off = HistoryOptions()
        off.size = 0
        let position = kept.page("chat:room", after: .start)?.publications[1].position ?? .start
        kept.broker.setNamespaces(["": off], at: kept.now)
        kept.publish("m4", to: "chat:room")
        kept.broker.setNamespaces(["": HistoryOptions()], at: kept.now)
        kept.publish("m5", to: "chat:room")
        let page = kept.page("chat:room", after: position)
        #expect(page?.continuity == .broken(.trimmed) && page?.publications.map(\.position.offset) == [5])
    }
}
