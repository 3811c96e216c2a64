import HubBase
import HubWire

/// The read marks of a channel as far as the node knows them: read from the broker once, then kept up by the `read`s that pass. A mark
/// never goes back in here, whichever of the two tells it first.
struct ReadMarks {
    private(set) var marks: [Name: UInt64] = [:]
    /// Every user who has a mark is in it.
    private(set) var isComplete = false
    private(set) var isLoaded = false
    /// Recoveries that wait for the reading.
    var waiting: [UInt64] = []

    /// It was read that nobody has one.
    static var empty: ReadMarks {
        var marks = ReadMarks()
        marks.isComplete = true
        marks.isLoaded = true
        return marks
    }

    /// Says no more than that nobody has one.
    var isNone: Bool { isLoaded && isComplete && marks.isEmpty && waiting.isEmpty }

    /// A reading of at most `limit` marks came back.
    mutating func load(_ read: [ReadMark], limit: Int) {
        for mark in read { raise(mark) }
        isComplete = read.count < limit && marks.count <= limit
        isLoaded = true
    }

    /// A `read` passed. A user who doesn't fit is left out, and then others than those in here may have marks.
    mutating func pass(_ mark: ReadMark, limit: Int) {
        guard marks[mark.user] == nil, marks.count >= limit else { return raise(mark) }
        isComplete = false
    }

    private mutating func raise(_ mark: ReadMark) { marks[mark.user] = max(marks[mark.user] ?? 0, mark.offset) }

    /// nil: it must be asked for.
    func own(_ user: Name) -> ReadMark?? {
        if let offset = marks[user] { return ReadMark(user: user, offset: offset) }
        return isComplete ? .some(nil) : nil
    }
}
