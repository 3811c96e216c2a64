import HubBase

/// How many elements a walk has still to hand out.
private enum Walk {
    case notStarted
    case inside(left: Int)
    case over
}

/// Walks the fields of one map in place; otherwise as `JSONFields`.
struct MessagePackFields {
    private(set) var cursor: MessagePackCursor
    private var walk = Walk.notStarted

    /// `isShort`: numbers may stand for names.
    init(_ outer: UnsafeRawBufferPointer, range: ByteRange, depthMax: Int, isShort: Bool = false) {
        cursor = MessagePackCursor(outer, range: range, depthMax: depthMax)
        cursor.takesNumbers = isShort
    }

    mutating func next() throws(WireError) -> (key: MessagePackValue, value: MessagePackValue)? {
        do {
            return try step()
        } catch {
            walk = .over
            throw error.error
        }
    }

    @inline(__always) mutating func step() throws(MessagePackFault) -> (key: MessagePackValue, value: MessagePackValue)? {
        guard try walk.takes(.object, &cursor) else { return nil }
        let key = try cursor.key()
        let value = try cursor.value(at: 1)
        return (key, value)
    }

    /// The two halves of a step, for who must know the field before its value is read. Only one after the other.
    @inline(__always) mutating func key() throws(MessagePackFault) -> Key? {
        guard try walk.takes(.object, &cursor) else { return nil }
        if let number = cursor.smallNumber() { return .number(number) }
        let key = try cursor.key()
        guard key.kind == .number else { return .text(cursor.bytes(key.range)) }
        return .number(MessagePack.unsigned(cursor.bytes(key.range)) ?? .max)
    }

    /// How a name is written in the short form. Numbers beyond all that are given out are one to us.
    enum Key {
        case number(UInt64)
        case text(UnsafeRawBufferPointer)
    }

    /// `isShort`: whether numbers may stand for names in it.
    @inline(__always) mutating func value(isShort: Bool) throws(MessagePackFault) -> MessagePackValue {
        let isOuterShort = cursor.takesNumbers
        cursor.takesNumbers = isShort
        let value = try cursor.value(at: 1)
        cursor.takesNumbers = isOuterShort
        return value
    }
}

/// Walks the elements of one array in place; otherwise as `MessagePackFields`.
struct MessagePackElements {
    private var cursor: MessagePackCursor
    private var walk = Walk.notStarted

    init(_ outer: UnsafeRawBufferPointer, range: ByteRange, depthMax: Int, isShort: Bool = false) {
        cursor = MessagePackCursor(outer, range: range, depthMax: depthMax)
        cursor.takesNumbers = isShort
    }

    mutating func next() throws(WireError) -> MessagePackValue? {
        do {
            guard try walk.takes(.array, &cursor) else { return nil }
            return try cursor.value(at: 1)
        } catch {
            walk = .over
            throw error.error
        }
    }
}

extension Walk {
    /// Whether there's one more; before the first, the container's head is read and must be of that kind. Nothing may follow the last.
    @inline(__always) mutating func takes(_ kind: WireKind, _ cursor: inout MessagePackCursor) throws(MessagePackFault) -> Bool {
        var left: Int
        switch self {
        case .over: return false
        case .notStarted:
            let start = cursor.index
            let head = try cursor.head()
            guard head.kind == kind else { throw cursor.fault(kind == .object ? .object : .array, at: start) }
            try cursor.check(head, from: start, below: 0)
            left = head.count
        case .inside(let count): left = count
        }
        guard left > 0 else {
            self = .over
            guard cursor.index == cursor.end else { throw cursor.fault(.trailing, at: cursor.index) }
            return false
        }
        left &-= 1
        self = .inside(left: left)
        return true
    }
}
