import HubBase

/// The node's connections that are in channels: whose they are, and which channels. 32 bytes for one that's in a single channel, and its
/// place in a table.
struct MemberConnections {
    struct Entry {
        var user: Name
        var channels: [Name]
    }

    private struct Line {
        var connection: UInt64
        var user: Name
        var first: Name
        var others: [Name] = []
    }

    private var lines: [Line?] = []
    private var free: [UInt32] = []
    private var table = PlaceTable()
    private let seed = PlaceTable.secret

    subscript(connection: UInt64) -> Entry? {
        guard let line = place(of: connection).flatMap({ lines[$0] }) else { return nil }
        return Entry(user: line.user, channels: [line.first] + line.others)
    }

    /// It isn't in the channel yet.
    mutating func add(_ channel: Name, to connection: UInt64, of user: Name) {
        if let place = place(of: connection) {
            lines[place]?.others.append(channel)
            return
        }
        let line = Line(connection: connection, user: user, first: channel)
        let place: Int
        if let reused = free.popLast() {
            place = Int(reused)
            lines[place] = line
        } else {
            place = lines.count
            lines.append(line)
        }
        let (lines, seed) = (lines, seed)
        table.insert(place, PlaceTable.hash(connection, seed: seed)) { PlaceTable.hash(lines[$0]?.connection ?? 0, seed: seed) }
    }

    /// Whose it was in the channel; nil when it wasn't.
    mutating func remove(_ channel: Name, from connection: UInt64) -> Name? {
        guard let place = place(of: connection), let line = lines[place] else { return nil }
        if let other = line.others.firstIndex(of: channel) {
            lines[place]?.others.remove(at: other)
        } else if line.first == channel {
            if line.others.isEmpty { forget(place, connection) } else { lines[place]?.first = line.others[0] }
            if !line.others.isEmpty { lines[place]?.others.removeFirst() }
        } else {
            return nil
        }
        return line.user
    }

    mutating func remove(_ connection: UInt64) -> Entry? {
        guard let entry = self[connection], let place = place(of: connection) else { return nil }
        forget(place, connection)
        return entry
    }

    private func place(of connection: UInt64) -> Int? {
        table.find(PlaceTable.hash(connection, seed: seed)) { lines[$0]?.connection == connection }
    }

    private mutating func forget(_ place: Int, _ connection: UInt64) {
        takeOut(place, connection)
        lines[place] = nil
        free.append(UInt32(truncatingIfNeeded: place))
    }

    private mutating func takeOut(_ place: Int, _ connection: UInt64) {
        let (lines, seed) = (lines, seed)
        table.remove(place, PlaceTable.hash(connection, seed: seed)) { PlaceTable.hash(lines[$0]?.connection ?? 0, seed: seed) }
    }
}
