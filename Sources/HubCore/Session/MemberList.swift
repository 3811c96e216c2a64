import HubWire

/// The connections of one name, in one dense array for each wire format: one array in three parts, so that nobody is asked what it speaks.
///
/// Most names have one connection alone (every user's inbox): that one stands in the list itself, and needs no memory of its own.
struct MemberList {
    private final class Many {
        /// Those who speak JSON first, then MessagePack, then its short form.
        var members: [UInt32] = []
        /// For each member: its line in the registry.
        var lines: [UInt32] = []
        var ends = Ends<UInt32>(json: 0, named: 0)
    }

    /// Where the first part ends, and the second.
    private struct Ends<Place: FixedWidthInteger> {
        var json: Place
        var named: Place

        init(json: Place, named: Place) {
            self.json = json
            self.named = named
        }

        init<Other>(_ other: Ends<Other>) {
            json = Place(truncatingIfNeeded: other.json)
            named = Place(truncatingIfNeeded: other.named)
        }

        mutating func move(json: Int32, named: Int32) {
            self.json &+= Place(truncatingIfNeeded: json)
            self.named &+= Place(truncatingIfNeeded: named)
        }
    }

    private var many: Many?
    private var one: UInt32 = 0
    private var line: UInt32 = 0
    private(set) var count: UInt32 = 0
    /// Of one, or none.
    private var soleEnds = Ends<UInt8>(json: 0, named: 0)

    var jsonEnd: UInt32 { many?.ends.json ?? UInt32(soleEnds.json) }
    var namedEnd: UInt32 { many?.ends.named ?? UInt32(soleEnds.named) }

    func part(_ format: WireFormat) -> Range<Int> {
        switch format {
        case .json: 0..<Int(jsonEnd)
        case .messagePack: Int(jsonEnd)..<Int(namedEnd)
        case .short: Int(namedEnd)..<Int(count)
        }
    }

    /// Valid inside `body`.
    func withMembers<Result>(_ format: WireFormat, _ body: (UnsafeBufferPointer<UInt32>) -> Result) -> Result {
        let part = part(format)
        if let many { return many.members.withUnsafeBufferPointer { body(UnsafeBufferPointer(rebasing: $0[part])) } }
        return withUnsafePointer(to: one) { body(UnsafeBufferPointer(start: $0, count: part.count)) }
    }

    /// A member, and its line in the registry.
    subscript(place: Int) -> (member: UInt32, line: UInt32) {
        get {
            if let many { return (many.members[place], many.lines[place]) }
            precondition(place == 0 && count == 1)
            return (one, line)
        }
        set {
            if let many {
                many.members[place] = newValue.member
                many.lines[place] = newValue.line
            } else {
                (one, line) = newValue
            }
        }
    }

    func place(of member: UInt32) -> Int? {
        if let many { return many.members.firstIndex(of: member) }
        return count == 1 && one == member ? 0 : nil
    }

    /// At the end, in no part yet (`moveBorders`).
    mutating func append(_ member: UInt32, _ line: UInt32) {
        if count == 1 && many == nil {
            let many = Many()
            many.members = [one]
            many.lines = [self.line]
            many.ends = Ends(soleEnds)
            self.many = many
        }
        if let many {
            many.members.append(member)
            many.lines.append(line)
        } else {
            (one, self.line) = (member, line)
        }
        count += 1
    }

    mutating func removeLast() {
        count -= 1
        guard let many else { return }
        many.members.removeLast()
        many.lines.removeLast()
        if count == 1 {
            (one, line) = (many.members[0], many.lines[0])
            // The border that a member behind them has left is moved next: 2 at the most until then.
            soleEnds = Ends(many.ends)
            self.many = nil
        }
    }

    mutating func moveBorders(json: Int32, named: Int32) {
        if let many { many.ends.move(json: json, named: named) } else { soleEnds.move(json: json, named: named) }
    }
}
