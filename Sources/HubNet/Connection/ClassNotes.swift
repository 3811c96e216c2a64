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

    /// By `start`; deflated forms apart, since they lie in an arena of their own and so each list grows at its end.
    private var plain: [Note] = []
    private var deflated: [Note] = []

    var isEmpty: Bool { plain.isEmpty && deflated.isEmpty }

    mutating func add(_ start: UInt32, _ sendClass: SendClass, key: UInt64) {
        let note = Note(start: start, sendClass: sendClass, key: key)
        if ArenaRange.isTwin(start) { Self.add(note, to: &deflated) } else { Self.add(note, to: &plain) }
    }

    private static func add(_ note: Note, to notes: inout [Note]) {
        // Frames are mostly sent in the order that they were made in.
        guard let last = notes.last, last.start >= note.start else {
            notes.append(note)
            return
        }
        let place = firstIndex(from: note.start, in: notes)
        if notes[place].start != note.start { notes.insert(note, at: place) }
    }

    /// Another form of a frame is what the frame is.
    mutating func copy(of start: UInt32, to other: UInt32) {
        let place = Self.firstIndex(from: start, in: plain)
        if place < plain.count, plain[place].start == start { add(other, plain[place].sendClass, key: plain[place].key) }
    }

    mutating func removeAll() {
        if !plain.isEmpty { plain.removeAll(keepingCapacity: plain.capacity <= 4096) }
        if !deflated.isEmpty { deflated.removeAll(keepingCapacity: deflated.capacity <= 4096) }
    }

    /// Calls `body` with the notes of the frames that begin within `start..<end`.
    func each(from start: UInt32, to end: UInt32, _ body: (Note) -> Void) {
        let notes = ArenaRange.isTwin(start) ? deflated : plain
        var place = Self.firstIndex(from: start, in: notes)
        while place < notes.count, notes[place].start < end {
            body(notes[place])
            place += 1
        }
    }

    private static func firstIndex(from start: UInt32, in notes: [Note]) -> Int {
        var low = 0
        var high = notes.count
        while low < high {
            let middle = (low + high) / 2
            if notes[middle].start < start { low = middle + 1 } else { high = middle }
        }
        return low
    }
}
