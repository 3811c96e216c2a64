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
    }

    private var many: Many?
    private var one: UInt32 = 0
    private var line: UInt32 = 0
    private(set) var count: UInt32 = 0
    /// Where the first part ends, and the second.
    private(set) var jsonEnd: UInt32 = 0
    private(set) var namedEnd: UInt32 = 0

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
            self.many = nil
        }
    }

    mutating func moveBorders(json: Int32, named: Int32) {
        jsonEnd = UInt32(bitPattern: Int32(bitPattern: jsonEnd) &+ json)
        namedEnd = UInt32(bitPattern: Int32(bitPattern: namedEnd) &+ named)
    }
}
