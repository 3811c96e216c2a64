import HubBase
import HubWire

/// Channels of the embedded broker that are wanted and have never begun, nearly all of them inboxes: a name, and the word of the origin that
/// its node stands at. 16 bytes and a place in a table; as soon as anything happens to one it becomes a `MemoryChannel`.
struct QuietChannels {
    private struct Line {
        /// Empty: a free place.
        var name = Name.empty
        var word = Mark.none
    }

    private var lines: [Line] = []
    private var free: [UInt32] = []
    private var table = PlaceTable()
    private let seed = PlaceTable.secret

    var count: Int { table.count }
    /// One past the largest place: for walks.
    var bound: Int { lines.count }

    private func place(of name: Name) -> Int? { table.find(PlaceTable.hash(name, seed: seed)) { lines[$0].name == name } }

    /// nil: it isn't here.
    func word(of name: Name) -> Mark? { place(of: name).map { lines[$0].word } }

    /// What stands at a place.
    func at(_ place: Int) -> (name: Name, word: Mark)? {
        lines[place].name.isEmpty ? nil : (lines[place].name, lines[place].word)
    }

    /// It isn't here yet.
    mutating func insert(_ name: Name, word: Mark) {
        let place = free.popLast().map { Int($0) } ?? lines.count
        if place == lines.count { lines.append(Line()) }
        lines[place] = Line(name: name, word: word)
        let (lines, seed) = (lines, seed)
        table.insert(place, PlaceTable.hash(name, seed: seed)) { PlaceTable.hash(lines[$0].name, seed: seed) }
    }

    /// The word that it stood at; nil: it wasn't here.
    mutating func remove(_ name: Name) -> Mark? {
        guard let place = place(of: name) else { return nil }
        let word = lines[place].word
        takeOut(place)
        lines[place] = Line()
        free.append(UInt32(truncatingIfNeeded: place))
        return word
    }

    private mutating func takeOut(_ place: Int) {
        let (lines, seed) = (lines, seed)
        table.remove(place, PlaceTable.hash(lines[place].name, seed: seed)) { PlaceTable.hash(lines[$0].name, seed: seed) }
    }
}
