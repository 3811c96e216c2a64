import HubBase
import HubNet
import Testing

/// The queue of a connection whose socket takes nothing, against a slow and obvious twin.
@Suite struct BacklogTests {
    private struct Frame: Equatable {
        var bytes: [UInt8]
        var sendClass: SendClass
        var key: UInt64

        init(_ number: Int, _ sendClass: SendClass, key: UInt64 = 0, count: Int = 4) {
            let payload = (0..<count).map { UInt8(truncatingIfNeeded: number &+ $0) }
            bytes = (count < 126 ? [0x82, UInt8(count)] : [0x82, 126, UInt8(count >> 8), UInt8(count & 255)]) + payload
            self.sendClass = sendClass
            self.key = key
        }

        var isDroppable: Bool { sendClass == .typing || sendClass == .presence || sendClass == .read }
    }

    /// Frames in an array; what has left of the first one is counted.
    private struct Twin {
        var frames: [Frame] = []
        var left = 0
        var dropped = DroppedFrames()

        var bytes: [UInt8] { [UInt8](frames.flatMap(\.bytes).dropFirst(left)) }

        mutating func removeFirst(_ length: Int) {
            left += length
            while let first = frames.first, left >= first.bytes.count {
                left -= first.bytes.count
                frames.removeFirst()
            }
        }

        mutating func thin(conflating: Bool) {
            var kept: [Frame] = []
            for (place, frame) in frames.enumerated() {
                let hasBegun = place == 0 && left > 0
                let isOld =
                    conflating && frame.key != 0 && (frame.sendClass == .read || frame.sendClass == .presence)
                    && frames[(place + 1)...].contains { $0.sendClass == frame.sendClass && $0.key == frame.key }
                guard !hasBegun, frame.sendClass == .typing || isOld else {
                    kept.append(frame)
                    continue
                }
                switch frame.sendClass {
                case .typing: dropped.typing += 1
                case .presence: dropped.presence += 1
                default: dropped.read += 1
                }
            }
            frames = kept
        }
    }

    private static func incoming(_ frames: [Frame], _ body: (inout Backlog.Incoming) -> Void) {
        var marks: [FrameMark] = []
        var bytes: [UInt8] = []
        for frame in frames {
            if frame.isDroppable { marks.append(FrameMark(offset: bytes.count, sendClass: frame.sendClass, key: frame.key)) }
            bytes += frame.bytes
        }
        bytes.withUnsafeBytes {
            var incoming = Backlog.Incoming(bytes: $0, marks: marks)
            body(&incoming)
        }
    }

    private static func bytes(_ backlog: Backlog.Pointer?) -> [UInt8] { backlog.map { [UInt8](Backlog.waiting($0)) } ?? [] }

    @Test("typing is dropped, the last of each key stays, all else stays in order")
    func thinning() throws {
        let frames = [
            Frame(1, .publication), Frame(2, .typing), Frame(3, .read, key: 7), Frame(4, .presence, key: 7), Frame(5, .read, key: 8),
            Frame(6, .typing), Frame(7, .publication), Frame(8, .read, key: 7), Frame(9, .presence), Frame(10, .presence),
            Frame(11, .reply),
        ]
        var backlog: Backlog.Pointer?
        var scratch = ByteBuffer(capacity: 16)
        Self.incoming(frames) { Backlog.append(&backlog, $0.bytes, partOfFrame: 0, marks: $0.marks) }
        var nothing = Backlog.Incoming()
        let typing = Backlog.thin(backlog, &nothing, conflating: false, scratch: &scratch)
        #expect(typing == DroppedFrames(typing: 2))
        #expect(Self.bytes(backlog) == frames.filter { $0.sendClass != .typing }.flatMap(\.bytes))
        let conflated = Backlog.thin(backlog, &nothing, conflating: true, scratch: &scratch)
        #expect(conflated == DroppedFrames(read: 1))
        let kept = [0, 3, 4, 6, 7, 8, 9, 10].map { frames[$0] }
        #expect(Self.bytes(backlog) == kept.flatMap(\.bytes))
        Backlog.free(&backlog)
    }

    @Test("what is about to be appended counts as newer, and is thinned itself")
    func incomingIsNewer() throws {
        var backlog: Backlog.Pointer?
        var scratch = ByteBuffer(capacity: 16)
        let old = [Frame(1, .read, key: 1), Frame(2, .read, key: 2)]
        Self.incoming(old) { Backlog.append(&backlog, $0.bytes, partOfFrame: 0, marks: $0.marks) }
        let new = [Frame(3, .typing), Frame(4, .read, key: 1), Frame(5, .publication), Frame(6, .read, key: 1)]
        Self.incoming(new) { incoming in
            let dropped = Backlog.thin(backlog, &incoming, conflating: true, scratch: &scratch)
            #expect(dropped == DroppedFrames(typing: 1, read: 2))
            #expect([UInt8](incoming.bytes) == new[2].bytes + new[3].bytes)
            #expect(incoming.marks == [FrameMark(offset: new[2].bytes.count, sendClass: .read, key: 1)])
        }
        #expect(Self.bytes(backlog) == old[1].bytes)
        Backlog.free(&backlog)
    }

    @Test("a frame that has begun to leave is never dropped")
    func halfOut() throws {
        var backlog: Backlog.Pointer?
        var scratch = ByteBuffer(capacity: 16)
        let frames = [Frame(1, .typing, count: 300), Frame(2, .typing), Frame(3, .publication)]
        Self.incoming(frames) { Backlog.append(&backlog, $0.bytes, partOfFrame: 0, marks: $0.marks) }
        Backlog.removeFirst(backlog!, 3)
        var nothing = Backlog.Incoming()
        #expect(Backlog.thin(backlog, &nothing, conflating: true, scratch: &scratch) == DroppedFrames(typing: 1))
        #expect(Self.bytes(backlog) == frames[0].bytes.dropFirst(3) + frames[2].bytes)
        #expect(backlog!.pointee.partOfFrame == frames[0].bytes.count - 3)
        Backlog.free(&backlog)
    }

    @Test("10,000 random operations leave the queue as the twin has it", arguments: [1, 2, 3] as [UInt64])
    func twin(seed: UInt64) throws {
        var chance = Chance(seed: seed)
        func below(_ bound: Int) -> Int { Int(chance.next() % UInt64(bound)) }
        let classes: [SendClass] = [.publication, .typing, .read, .presence, .reply, .system]
        var backlog: Backlog.Pointer?
        var scratch = ByteBuffer(capacity: 16)
        var twin = Twin()
        var dropped = DroppedFrames()
        for number in 0..<10_000 {
            switch below(8) {
            case 0...3:
                let frames = (0..<below(6)).map { _ in
                    Frame(number, classes[below(classes.count)], key: UInt64(below(5)), count: below(10) == 0 ? 200 : below(8))
                }
                twin.frames += frames
                let isThinned = below(3) == 0
                let isConflated = below(2) == 0
                // The twin thins what is there and what comes as one.
                if isThinned { twin.thin(conflating: isConflated) }
                Self.incoming(frames) { incoming in
                    if isThinned {
                        let more = Backlog.thin(backlog, &incoming, conflating: isConflated, scratch: &scratch)
                        dropped.typing += more.typing
                        dropped.presence += more.presence
                        dropped.read += more.read
                    }
                    Backlog.append(&backlog, incoming.bytes, partOfFrame: 0, marks: incoming.marks)
                }
            case 4...6:
                let length = below(Backlog.count(backlog) + 1)
                guard let current = backlog, length > 0 else { continue }
                Backlog.removeFirst(current, length)
                twin.removeFirst(length)
                if Backlog.count(backlog) == 0 && below(2) == 0 { Backlog.free(&backlog) }
            default:
                var nothing = Backlog.Incoming()
                let isConflated = below(2) == 0
                let more = Backlog.thin(backlog, &nothing, conflating: isConflated, scratch: &scratch)
                dropped.typing += more.typing
                dropped.presence += more.presence
                dropped.read += more.read
                twin.thin(conflating: isConflated)
            }
            guard Self.bytes(backlog) == twin.bytes else {
                Issue.record("seed \(seed), operation \(number): the queue isn't what it should be")
                break
            }
        }
        #expect(dropped == twin.dropped)
        Backlog.free(&backlog)
    }
}
