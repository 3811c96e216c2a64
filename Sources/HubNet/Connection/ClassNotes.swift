/// Which of this turn's frames may be dropped, by where they begin in the arena. One entry a frame, made when it's first sent, however many
/// connections get it: only a queue whose socket blocks looks here.
///
/// What isn't noted is never dropped. So a frame that can't be left out (one deflated with a context that the next one builds on) needs
/// only to stay unnoted; a second form of a droppable frame must be noted under its own start.
struct ClassNotes {
    struct Note {
        var start: UInt32
        var sendClass: SendClass
        /// Two frames of one class with the same key: the newer makes the older needless. 0: none does.
        var key: UInt64
    }

    /// By `start`.
    private var notes: [Note] = []

    var isEmpty: Bool { notes.isEmpty }

    mutating func add(_ start: UInt32, _ sendClass: SendClass, key: UInt64) {
        // Frames are mostly sent in the order that they were made in.
        if let last = notes.last, last.start >= start {
            let place = firstIndex(from: start)
            if notes[place].start == start { return }
            notes.insert(Note(start: start, sendClass: sendClass, key: key), at: place)
        } else {
            notes.append(Note(start: start, sendClass: sendClass, key: key))
        }
    }

    mutating func removeAll() {
        if !notes.isEmpty { notes.removeAll(keepingCapacity: notes.capacity <= 4096) }
    }

    /// Calls `body` with the notes of the frames that begin within `start..<end`.
    func each(from start: UInt32, to end: UInt32, _ body: (Note) -> Void) {
        var place = firstIndex(from: start)
        while place < notes.count, notes[place].start < end {
            body(notes[place])
            place += 1
        }
    }

    private func firstIndex(from start: UInt32) -> Int {
        var low = 0
        var high = notes.count
        while low < high {
            let middle = (low + high) / 2
            if notes[middle].start < start { low = middle + 1 } else { high = middle }
        }
        return low
    }
}
