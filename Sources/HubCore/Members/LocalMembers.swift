import HubBase

/// The node's own users in one channel. Lines of 40 bytes with little to spare, found by a look at each while they are few, by their hashes
/// otherwise.
struct LocalMembers: Sequence {
    typealias Line = (user: Name, member: LocalMember)

    private var lines: [Line] = []
    private var table: PlaceTable?

    /// A look at so many costs no more than a hash and a look at one.
    private static let fewMax = 16
    /// Users' names are chosen by others.
    private static let seed = PlaceTable.secret

    var isEmpty: Bool { lines.isEmpty }
    var count: Int { lines.count }

    func makeIterator() -> IndexingIterator<[Line]> { lines.makeIterator() }

    subscript(user: Name) -> LocalMember? {
        get { place(of: user).map { lines[$0].member } }
        set {
            guard let newValue else { return remove(user) }
            if let place = place(of: user) { lines[place].member = newValue } else { append((user, newValue)) }
        }
    }

    private func place(of user: Name) -> Int? {
        guard let table else { return lines.firstIndex { $0.user == user } }
        return table.find(Self.hash(user)) { lines[$0].user == user }
    }

    private static func hash(_ user: Name) -> UInt64 { PlaceTable.hash(user, seed: seed) }

    private mutating func append(_ line: Line) {
        // Not by doubling: most channels that have ten members stay near that.
        if lines.count == lines.capacity { lines.reserveCapacity(lines.count + 2 + lines.count / 4) }
        lines.append(line)
        if table != nil {
            enter(lines.count - 1)
        } else if lines.count > Self.fewMax {
            table = PlaceTable()
            for place in lines.indices { enter(place) }
        }
    }

    private mutating func remove(_ user: Name) {
        guard let place = place(of: user) else { return }
        takeOut(place)
        let last = lines.count - 1
        if place != last {
            takeOut(last)
            lines[place] = lines[last]
        }
        lines.removeLast()
        if place != last { enter(place) }
        guard lines.count * 4 < lines.capacity, lines.capacity > Self.fewMax else { return }
        lines = Array(lines)
        if lines.count <= Self.fewMax / 2 { table = nil }
    }

    private mutating func enter(_ place: Int) {
        let lines = lines
        table?.insert(place, Self.hash(lines[place].user)) { Self.hash(lines[$0].user) }
    }

    private mutating func takeOut(_ place: Int) {
        let lines = lines
        table?.remove(place, Self.hash(lines[place].user)) { Self.hash(lines[$0].user) }
    }
}
