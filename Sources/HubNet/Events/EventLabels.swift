import HubBase

/// Labels of this turn's frames: what becomes the id of their events on the streams of one topic. Kept apart from the frames, so that frames lie one
/// behind the other whether or not somebody reads events. Allocates nothing once warm.
struct EventLabels: ~Copyable {
    private struct Label {
        var number: UInt32
        var topic: UInt32
        var text: ByteRange
        /// The event with this label, once it was made.
        var event: ArenaRange
    }

    private var texts = ByteBuffer(capacity: 16)
    /// In the order of their frames' numbers.
    private var labels: [Label] = []

    /// Once a frame, before another one is labelled.
    mutating func add(_ number: UInt32, topic: UInt32, _ write: (inout ByteBuffer) -> Void) {
        if let last = labels.last { precondition(last.number < number, "a frame is labelled twice, or after a later one") }
        let start = texts.count
        write(&texts)
        labels.append(
            Label(
                number: number, topic: topic, text: ByteRange(offset: start, count: texts.count - start),
                event: ArenaRange(start: 0, end: 0)))
    }

    func isLabelled(_ number: UInt32) -> Bool { !labels.isEmpty && place(of: number) != nil }

    /// Where the label of a frame for `topic` stands; nil when it has none.
    func find(_ number: UInt32, topic: UInt32) -> Int? {
        guard let place = place(of: number), labels[place].topic == topic else { return nil }
        return place
    }

    func text(at place: Int) -> UnsafeRawBufferPointer { labels[place].text.bytes(in: texts.bytes) }

    subscript(event place: Int) -> ArenaRange? {
        get { labels[place].event.end == 0 ? nil : labels[place].event }
        set { labels[place].event = newValue ?? ArenaRange(start: 0, end: 0) }
    }

    mutating func removeAll() {
        guard !labels.isEmpty else { return }
        labels.removeAll(keepingCapacity: labels.capacity <= 4096)
        texts.removeAll()
        texts.trim(above: 64 * 1024)
    }

    private func place(of number: UInt32) -> Int? {
        var low = 0
        var high = labels.count
        while low < high {
            let middle = (low + high) / 2
            if labels[middle].number < number { low = middle + 1 } else { high = middle }
        }
        return low < labels.count && labels[low].number == number ? low : nil
    }
}
