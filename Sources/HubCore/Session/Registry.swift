import HubBase
import HubWire

/// Who wants what on one loop: names (channels, or watched users) to the connections that want them, and back.
///
/// A fan-out walks one dense array of connection indexes for each wire format: one array in three parts, so no member is asked what
/// it speaks, and a channel whose members all speak JSON knows of nothing else.
/// Looking a name up takes borrowed bytes, so an inbound message costs no `Name`.
/// Adding and removing cost the shorter of two lists, the connection's names or the name's connections: a watcher of ten thousand users
/// and a channel of ten thousand members are both cheap. Everything else is O(1). Slots are dense and reused, so that a caller can keep
/// more about a name in an array of its own.
package struct Registry: ~Copyable {
    private struct Entry {
        var name = Name.empty
        var hash: UInt64 = 0
        /// Those who speak JSON first, then MessagePack, then its short form.
        var members: [UInt32] = []
        /// Where the first part ends, and the second.
        var jsonEnd: UInt32 = 0
        var namedEnd: UInt32 = 0
        /// For each member: where this slot stands in that connection's own list.
        var backs: [UInt32] = []
        var isUsed = false

        func part(_ format: WireFormat) -> Range<Int> {
            switch format {
            case .json: 0..<Int(jsonEnd)
            case .messagePack: Int(jsonEnd)..<Int(namedEnd)
            case .short: Int(namedEnd)..<members.count
            }
        }
    }

    /// One line of a connection's own list: the slot, and where the connection stands in the slot's members.
    private struct Membership {
        var slot: UInt32
        var place: UInt32
    }

    private var entries: [Entry] = []
    private var free: [UInt32] = []
    private var memberships: [[Membership]] = []
    /// Open addressing with linear probing over `slot + 1`; 0 is empty. Its size is a power of two, at most half full.
    private var table: [UInt32]
    private var mask: Int
    private let seed: UInt64
    package private(set) var count = 0

    /// `seed` is secret chance: names are chosen by clients, and a known hash would let them fill one probe chain.
    package init(seed: UInt64) {
        self.seed = seed
        table = [UInt32](repeating: 0, count: 64)
        mask = 63
    }

    // MARK: Names

    package func slot(of name: UnsafeRawBufferPointer) -> Int? {
        let hash = hash(of: name)
        var place = Int(truncatingIfNeeded: hash) & mask
        while table[place] != 0 {
            let slot = Int(table[place]) - 1
            if entries[slot].hash == hash && equal(entries[slot].name.bytes, name) { return slot }
            place = (place + 1) & mask
        }
        return nil
    }

    package func slot(of name: Name) -> Int? { name.bytes.withUnsafeBytes { self.slot(of: $0) } }

    package func name(at slot: Int) -> Name { entries[slot].name }

    package func isUsed(_ slot: Int) -> Bool { slot < entries.count && entries[slot].isUsed }

    /// The slot of `name`, made when there's none. It stays until `removeIfEmpty`.
    package mutating func insert(_ name: Name) -> (slot: Int, isNew: Bool) {
        if let slot = slot(of: name) { return (slot, false) }
        if (count + 1) * 2 > table.count { grow() }
        let hash = name.bytes.withUnsafeBytes { self.hash(of: $0) }
        let slot: Int
        if let reused = free.popLast() {
            slot = Int(reused)
        } else {
            slot = entries.count
            entries.append(Entry())
        }
        entries[slot].name = name
        entries[slot].hash = hash
        entries[slot].isUsed = true
        place(slot, hash: hash)
        count += 1
        return (slot, true)
    }

    /// Frees the slot when nobody is left on it. True when it's gone.
    @discardableResult
    package mutating func removeIfEmpty(_ slot: Int) -> Bool {
        guard entries[slot].isUsed, entries[slot].members.isEmpty else { return false }
        unplace(slot)
        entries[slot] = Entry()
        free.append(UInt32(slot))
        count -= 1
        return true
    }

    // MARK: Connections

    package func memberCount(of slot: Int) -> Int { entries[slot].members.count }

    package func memberCount(of slot: Int, _ format: WireFormat) -> Int {
        entries[slot].part(format).count
    }

    /// The connections on `slot` that speak `format`, for a fan-out; valid inside `body`.
    package func withMembers<Result>(
        of slot: Int, _ format: WireFormat, _ body: (UnsafeBufferPointer<UInt32>) -> Result
    ) -> Result {
        let part = entries[slot].part(format)
        return entries[slot].members.withUnsafeBufferPointer { body(UnsafeBufferPointer(rebasing: $0[part])) }
    }

    package func contains(_ connection: UInt32, on slot: Int) -> Bool {
        membership(of: connection, on: slot) != nil
    }

    /// How many names the connection is on.
    package func count(of connection: UInt32) -> Int {
        Int(connection) < memberships.count ? memberships[Int(connection)].count : 0
    }

    /// False when it was on it already. `format` is the connection's, and always the same.
    @discardableResult
    package mutating func add(_ connection: UInt32, to slot: Int, _ format: WireFormat) -> Bool {
        while memberships.count <= Int(connection) { memberships.append([]) }
        guard membership(of: connection, on: slot) == nil else { return false }
        let back = UInt32(memberships[Int(connection)].count)
        var place = entries[slot].members.count
        entries[slot].members.append(connection)
        entries[slot].backs.append(back)
        if format != .short {
            // The first of each part behind goes to that part's end, and so makes room at the border before it.
            let end = place
            place = Int(entries[slot].namedEnd)
            move(from: place, to: end, on: slot)
            entries[slot].namedEnd += 1
            if format == .json {
                let border = Int(entries[slot].jsonEnd)
                move(from: border, to: place, on: slot)
                entries[slot].jsonEnd += 1
                place = border
            }
            entries[slot].members[place] = connection
            entries[slot].backs[place] = back
        }
        memberships[Int(connection)].append(Membership(slot: UInt32(slot), place: UInt32(place)))
        return true
    }

    /// False when it wasn't on it. The slot stays, even when it's empty now.
    @discardableResult
    package mutating func remove(_ connection: UInt32, from slot: Int) -> Bool {
        guard let index = membership(of: connection, on: slot) else { return false }
        let membership = memberships[Int(connection)][index]
        // The last line of the connection's list takes the place of the one that goes; its slot is told.
        let last = memberships[Int(connection)].removeLast()
        if index < memberships[Int(connection)].count {
            memberships[Int(connection)][index] = last
            entries[Int(last.slot)].backs[Int(last.place)] = UInt32(index)
        }
        vacate(membership)
        return true
    }

    /// Takes the connection off everything; answers the slots that it was on.
    package mutating func removeAll(_ connection: UInt32) -> [Int] {
        guard Int(connection) < memberships.count else { return [] }
        let left = memberships[Int(connection)]
        memberships[Int(connection)] = []
        for membership in left { vacate(membership) }
        return left.map { Int($0.slot) }
    }

    package func slots(of connection: UInt32) -> [Int] {
        Int(connection) < memberships.count ? memberships[Int(connection)].map { Int($0.slot) } : []
    }

    // MARK: Inside

    /// Where `slot` stands in the connection's list; nil when it isn't there.
    private func membership(of connection: UInt32, on slot: Int) -> Int? {
        guard Int(connection) < memberships.count else { return nil }
        if memberships[Int(connection)].count <= entries[slot].members.count {
            return memberships[Int(connection)].firstIndex { $0.slot == UInt32(slot) }
        }
        return entries[slot].members.firstIndex(of: connection).map { Int(entries[slot].backs[$0]) }
    }

    /// Closes the gap that a membership leaves in its slot: the last of its part moves there, and then the last of each part behind to the
    /// place that was left before it. (In `removeAll` the connection's own list is gone already; a slot stands in it once, so those are others.)
    private mutating func vacate(_ membership: Membership) {
        let slot = Int(membership.slot)
        var gap = Int(membership.place)
        if gap < entries[slot].jsonEnd {
            entries[slot].jsonEnd -= 1
            move(from: Int(entries[slot].jsonEnd), to: gap, on: slot)
            gap = Int(entries[slot].jsonEnd)
        }
        if gap < entries[slot].namedEnd {
            entries[slot].namedEnd -= 1
            move(from: Int(entries[slot].namedEnd), to: gap, on: slot)
            gap = Int(entries[slot].namedEnd)
        }
        move(from: entries[slot].members.count - 1, to: gap, on: slot)
        entries[slot].members.removeLast()
        entries[slot].backs.removeLast()
    }

    /// Puts a member elsewhere among those of its slot, and tells its own list.
    private mutating func move(from place: Int, to target: Int, on slot: Int) {
        guard place != target else { return }
        let member = entries[slot].members[place]
        let back = entries[slot].backs[place]
        entries[slot].members[target] = member
        entries[slot].backs[target] = back
        memberships[Int(member)][Int(back)].place = UInt32(target)
    }

    private func hash(of name: UnsafeRawBufferPointer) -> UInt64 {
        let hash = FNV1a.hash(name, seed: seed)
        return hash ^ (hash >> 29)
    }

    private func equal(_ name: [UInt8], _ other: UnsafeRawBufferPointer) -> Bool {
        name.withUnsafeBytes {
            guard $0.count == other.count, let one = $0.baseAddress, let base = other.baseAddress else { return $0.count == other.count }
            return equalBytes(one, base, other.count)
        }
    }

    private mutating func place(_ slot: Int, hash: UInt64) {
        var place = Int(truncatingIfNeeded: hash) & mask
        while table[place] != 0 { place = (place + 1) & mask }
        table[place] = UInt32(slot) + 1
    }

    /// Takes a slot out of the table and closes the probe chain behind it (no tombstones, so churn never slows look-ups).
    private mutating func unplace(_ slot: Int) {
        var hole = Int(truncatingIfNeeded: entries[slot].hash) & mask
        while Int(table[hole]) != slot + 1 { hole = (hole + 1) & mask }
        table[hole] = 0
        var next = (hole + 1) & mask
        while table[next] != 0 {
            let home = Int(truncatingIfNeeded: entries[Int(table[next]) - 1].hash) & mask
            // The entry may move into the hole unless its home lies between the hole and itself.
            if (next - home) & mask >= (next - hole) & mask {
                table[hole] = table[next]
                table[next] = 0
                hole = next
            }
            next = (next + 1) & mask
        }
    }

    private mutating func grow() {
        table = [UInt32](repeating: 0, count: table.count * 2)
        mask = table.count - 1
        for slot in entries.indices where entries[slot].isUsed { place(slot, hash: entries[slot].hash) }
    }
}
