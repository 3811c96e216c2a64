import HubBase
import HubWire

/// Who wants what on one loop: names (channels, or watched users) to the connections that want them, and back.
///
/// A fan-out walks one dense array of connection indexes for each wire format (`MemberList`).
/// Looking a name up takes borrowed bytes, so an inbound message costs no `Name`.
/// Adding and removing cost the shorter of two lists, the connection's names or the name's connections: a watcher of ten thousand users
/// and a channel of ten thousand members are both cheap. Everything else is O(1). Slots are dense and reused, so that a caller can keep
/// more about a name in an array of its own. A name that one connection wants costs 32 bytes, its place in the table and a line of 16; a
/// connection 8 (decision 0230).
package struct Registry: ~Copyable {
    private struct Entry {
        /// Empty: a free slot.
        var name = Name.empty
        var members = MemberList()
    }

    /// That one connection wants one name: where it stands among those of the name, and its neighbours among those of the connection.
    private struct Line {
        var slot: UInt32
        var place: UInt32
        /// Of a free line: the next free one.
        var next = Registry.none
        var previous = Registry.none
    }

    /// What one connection wants, the latest first.
    private struct Own {
        var first = Registry.none
        var count: UInt32 = 0
    }

    private static let none = UInt32.max

    private var entries: [Entry] = []
    private var free: [UInt32] = []
    private var lines: [Line] = []
    private var firstFreeLine = Registry.none
    private var owns: [Own] = []
    private var table = PlaceTable()
    private let seed: UInt64

    /// `seed` is secret chance: names are chosen by clients, and a known hash would let them fill one probe chain.
    package init(seed: UInt64) { self.seed = seed }

    package var count: Int { table.count }

    // MARK: Names

    package func slot(of name: UnsafeRawBufferPointer) -> Int? {
        table.find(PlaceTable.hash(name, seed: seed)) { equal(entries[$0].name.bytes, name) }
    }

    package func slot(of name: Name) -> Int? { name.bytes.withUnsafeBytes { self.slot(of: $0) } }

    package func name(at slot: Int) -> Name { entries[slot].name }

    package func isUsed(_ slot: Int) -> Bool { slot < entries.count && !entries[slot].name.isEmpty }

    /// The slot of `name`, which isn't empty; made when there's none. It stays until `removeIfEmpty`.
    package mutating func insert(_ name: Name) -> (slot: Int, isNew: Bool) {
        if let slot = slot(of: name) { return (slot, false) }
        let slot: Int
        if let reused = free.popLast() {
            slot = Int(reused)
        } else {
            slot = entries.count
            entries.append(Entry())
        }
        entries[slot].name = name
        let (entries, seed) = (entries, seed)
        table.insert(slot, PlaceTable.hash(name, seed: seed)) { PlaceTable.hash(entries[$0].name, seed: seed) }
        return (slot, true)
    }

    /// Frees the slot when nobody is left on it. True when it's gone.
    @discardableResult
    package mutating func removeIfEmpty(_ slot: Int) -> Bool {
        guard isUsed(slot), entries[slot].members.count == 0 else { return false }
        takeOut(slot)
        entries[slot] = Entry()
        free.append(UInt32(slot))
        return true
    }

    private mutating func takeOut(_ slot: Int) {
        let (entries, seed) = (entries, seed)
        table.remove(slot, PlaceTable.hash(entries[slot].name, seed: seed)) { PlaceTable.hash(entries[$0].name, seed: seed) }
    }

    // MARK: Connections

    package func memberCount(of slot: Int) -> Int { Int(entries[slot].members.count) }

    package func memberCount(of slot: Int, _ format: WireFormat) -> Int { entries[slot].members.part(format).count }

    /// The connections on `slot` that speak `format`, for a fan-out; valid inside `body`.
    package func withMembers<Result>(
        of slot: Int, _ format: WireFormat, _ body: (UnsafeBufferPointer<UInt32>) -> Result
    ) -> Result {
        entries[slot].members.withMembers(format, body)
    }

    package func contains(_ connection: UInt32, on slot: Int) -> Bool { line(of: connection, on: slot) != nil }

    /// How many names the connection is on.
    package func count(of connection: UInt32) -> Int { Int(connection) < owns.count ? Int(owns[Int(connection)].count) : 0 }

    /// False when it was on it already. `format` is the connection's, and always the same.
    @discardableResult
    package mutating func add(_ connection: UInt32, to slot: Int, _ format: WireFormat) -> Bool {
        while owns.count <= Int(connection) { owns.append(Own()) }
        guard line(of: connection, on: slot) == nil else { return false }
        var place = Int(entries[slot].members.count)
        let line = makeLine(of: connection, slot)
        entries[slot].members.append(connection, line)
        if format != .short {
            // The first of each part behind goes to that part's end, and so makes room at the border before it.
            let end = place
            place = Int(entries[slot].members.namedEnd)
            move(from: place, to: end, on: slot)
            if format == .json {
                let border = Int(entries[slot].members.jsonEnd)
                move(from: border, to: place, on: slot)
                place = border
            }
            entries[slot].members.moveBorders(json: format == .json ? 1 : 0, named: 1)
            entries[slot].members[place] = (connection, line)
        }
        lines[Int(line)].place = UInt32(place)
        return true
    }

    /// False when it wasn't on it. The slot stays, even when it's empty now.
    @discardableResult
    package mutating func remove(_ connection: UInt32, from slot: Int) -> Bool {
        guard let line = line(of: connection, on: slot) else { return false }
        let (place, next, previous) = (lines[Int(line)].place, lines[Int(line)].next, lines[Int(line)].previous)
        if previous == Registry.none { owns[Int(connection)].first = next } else { lines[Int(previous)].next = next }
        if next != Registry.none { lines[Int(next)].previous = previous }
        owns[Int(connection)].count -= 1
        vacate(slot, Int(place))
        freeLine(line)
        return true
    }

    /// Takes the connection off everything; answers the slots that it was on.
    package mutating func removeAll(_ connection: UInt32) -> [Int] {
        guard Int(connection) < owns.count else { return [] }
        let left = slots(of: connection)
        var line = owns[Int(connection)].first
        owns[Int(connection)] = Own()
        while line != Registry.none {
            let (slot, place, next) = (lines[Int(line)].slot, lines[Int(line)].place, lines[Int(line)].next)
            vacate(Int(slot), Int(place))
            freeLine(line)
            line = next
        }
        return left
    }

    /// In the order in which it came to them.
    package func slots(of connection: UInt32) -> [Int] {
        guard Int(connection) < owns.count else { return [] }
        var slots: [Int] = []
        slots.reserveCapacity(Int(owns[Int(connection)].count))
        var line = owns[Int(connection)].first
        while line != Registry.none {
            slots.append(Int(lines[Int(line)].slot))
            line = lines[Int(line)].next
        }
        slots.reverse()
        return slots
    }

    // MARK: Inside

    /// The line that says that the connection is on `slot`; nil when it isn't.
    private func line(of connection: UInt32, on slot: Int) -> UInt32? {
        guard Int(connection) < owns.count else { return nil }
        if owns[Int(connection)].count <= entries[slot].members.count {
            var line = owns[Int(connection)].first
            while line != Registry.none, Int(lines[Int(line)].slot) != slot { line = lines[Int(line)].next }
            return line == Registry.none ? nil : line
        }
        return entries[slot].members.place(of: connection).map { entries[slot].members[$0].line }
    }

    private mutating func makeLine(of connection: UInt32, _ slot: Int) -> UInt32 {
        let first = owns[Int(connection)].first
        let new = Line(slot: UInt32(slot), place: 0, next: first)
        let line: UInt32
        if firstFreeLine != Registry.none {
            line = firstFreeLine
            firstFreeLine = lines[Int(line)].next
            lines[Int(line)] = new
        } else {
            line = UInt32(lines.count)
            lines.append(new)
        }
        if first != Registry.none { lines[Int(first)].previous = line }
        owns[Int(connection)].first = line
        owns[Int(connection)].count += 1
        return line
    }

    private mutating func freeLine(_ line: UInt32) {
        lines[Int(line)].next = firstFreeLine
        firstFreeLine = line
    }

    /// Closes the gap that a member leaves in its slot: the last of its part moves there, and then the last of each part behind to the
    /// place that was left before it. (The line that goes is no longer anybody's, and isn't told.)
    private mutating func vacate(_ slot: Int, _ place: Int) {
        var gap = place
        let (jsonEnd, namedEnd) = (Int(entries[slot].members.jsonEnd), Int(entries[slot].members.namedEnd))
        let isJSON = gap < jsonEnd
        if isJSON {
            move(from: jsonEnd - 1, to: gap, on: slot)
            gap = jsonEnd - 1
        }
        let isNamed = gap < namedEnd
        if isNamed {
            move(from: namedEnd - 1, to: gap, on: slot)
            gap = namedEnd - 1
        }
        move(from: Int(entries[slot].members.count) - 1, to: gap, on: slot)
        entries[slot].members.removeLast()
        entries[slot].members.moveBorders(json: isJSON ? -1 : 0, named: isNamed ? -1 : 0)
    }

    /// Puts a member elsewhere among those of its slot, and tells its line.
    private mutating func move(from place: Int, to target: Int, on slot: Int) {
        guard place != target else { return }
        let moved = entries[slot].members[place]
        entries[slot].members[target] = moved
        lines[Int(moved.line)].place = UInt32(target)
    }

    private func equal(_ name: [UInt8], _ other: UnsafeRawBufferPointer) -> Bool {
        name.withUnsafeBytes {
            guard $0.count == other.count, let one = $0.baseAddress, let base = other.baseAddress else { return $0.count == other.count }
            return equalBytes(one, base, other.count)
        }
    }
}
