import HubBase

/// What a queue loses when it runs full: typing first, then presence and read positions that a newer value behind them makes needless.
/// Everything else stays, in order.
extension Backlog {
    /// What makes a newer frame stand for an older one.
    struct Value: Hashable {
        var sendClass: SendClass
        var key: UInt64

        /// nil: every frame counts.
        init?(_ mark: FrameMark) {
            guard mark.key != 0, mark.sendClass == .presence || mark.sendClass == .read else { return nil }
            sendClass = mark.sendClass
            key = mark.key
        }
    }

    /// Frames that are about to be appended.
    package struct Incoming {
        package var bytes: UnsafeRawBufferPointer
        package var marks: [FrameMark]
        var walk: FrameWalk

        package init(
            bytes: UnsafeRawBufferPointer = UnsafeRawBufferPointer(start: nil, count: 0), marks: [FrameMark] = [], walk: FrameWalk = .frames
        ) {
            self.bytes = bytes
            self.marks = marks
            self.walk = walk
        }

        /// Bytes of frames that conflating could make needless.
        var keyedBytes: Int { marks.reduce(0) { $0 + (Value($1) == nil ? 0 : walk.length(bytes, at: $1.offset)) } }
    }

    /// Drops typing and, `conflating`, what is out of date in what waits and in what is about to be appended; what stays of the latter is
    /// moved to `scratch`, which mustn't hold it already. Returns what was dropped. Cost: one pass over the marks, one move of the bytes behind the first dropped frame.
    package static func thin(
        _ backlog: Pointer?, _ incoming: inout Incoming, conflating: Bool, scratch: inout ByteBuffer
    ) -> DroppedFrames {
        var dropped = DroppedFrames()
        var newer: Set<Value> = []
        let inRanges = judge(
            incoming.bytes, incoming.walk, &incoming.marks, at: 0, notBefore: 0, conflating, &newer, &dropped)
        if !inRanges.isEmpty {
            scratch.removeAll()
            var start = 0
            for range in inRanges {
                scratch.append(UnsafeRawBufferPointer(rebasing: incoming.bytes[start..<range.lowerBound]))
                start = range.upperBound
            }
            scratch.append(UnsafeRawBufferPointer(rebasing: incoming.bytes[start...]))
            incoming.bytes = scratch.bytes
        }
        guard let backlog else { return dropped }
        if conflating { backlog.pointee.unconflated = 0 }
        guard !backlog.pointee.marks.isEmpty else { return dropped }
        let ranges = judge(
            waiting(backlog), backlog.pointee.walk, &backlog.pointee.marks, at: backlog.pointee.left,
            notBefore: backlog.pointee.partOfFrame, conflating, &newer,
            &dropped)
        remove(ranges, from: backlog)
        return dropped
    }

    /// Takes the marks of dropped frames (and of such as have begun to leave) out of `marks`, moves the others' offsets, and returns the dropped
    /// frames' ranges in `bytes`, whose first byte has the offset `start`. `newer`: values that come after these; those of these are added.
    private static func judge(
        _ bytes: UnsafeRawBufferPointer, _ walk: FrameWalk, _ marks: inout [FrameMark], at start: Int, notBefore border: Int,
        _ conflating: Bool,
        _ newer: inout Set<Value>, _ dropped: inout DroppedFrames
    ) -> [Range<Int>] {
        var ranges: [Range<Int>] = []
        var kept: [FrameMark] = []
        kept.reserveCapacity(marks.count)
        // From the newest to the oldest: whoever is met first counts.
        for mark in marks.reversed() where mark.offset - start >= border {
            var isDropped = mark.sendClass == .typing
            if conflating, let value = Value(mark), !newer.insert(value).inserted { isDropped = true }
            guard isDropped else {
                kept.append(mark)
                continue
            }
            dropped.count(mark.sendClass)
            let offset = mark.offset - start
            ranges.append(offset..<offset + walk.length(bytes, at: offset))
        }
        ranges.reverse()
        kept.reverse()
        var removed = 0
        var next = 0
        for place in kept.indices {
            while next < ranges.count, ranges[next].lowerBound < kept[place].offset - start {
                removed += ranges[next].count
                next += 1
            }
            kept[place].offset -= removed
        }
        marks = kept
        return ranges
    }
}
