import HubBase

/// Writes one envelope in one format. What an envelope holds, and in which order, is said once, by `Envelope`; this is how.
///
/// An object's fields are a key and then one value. MessagePack must announce how many there are: it counts them itself, up to 15, which
/// is what its shortest header holds and more than any envelope has. Lists and dictionaries announce their count.
protocol EnvelopeWriter {
    static var format: WireFormat { get }
    /// Begins an object; the answer goes to `end`.
    mutating func begin() -> Int
    mutating func end(_ outer: Int)
    /// The first field of an object, then each other one.
    mutating func firstKey(_ label: FieldLabel)
    mutating func key(_ label: FieldLabel)

    mutating func beginList(_ count: Int)
    mutating func beginElement(isFirst: Bool)
    mutating func endList()
    mutating func beginDictionary(_ count: Int)
    mutating func beginEntry(_ name: Name, isFirst: Bool)
    mutating func endDictionary()

    /// A word of a closed list; then one that is kept as text, or another text.
    mutating func value(_ word: WireWord)
    mutating func value(word text: String)
    mutating func value(_ name: Name)
    mutating func value(_ text: String)
    mutating func value(_ number: UInt64)
    mutating func value(_ position: Position)
    mutating func value(_ flag: Bool)
    /// A payload or an id in this writer's format, as it is.
    mutating func value(raw: UnsafeRawBufferPointer)
}

/// One envelope of the server: its fields in the order that docs/protocol.md shows.
protocol Envelope {
    func write<Writer: EnvelopeWriter>(to writer: inout Writer)
}

/// One whose length is known beforehand well enough to reserve it: nothing is checked while it's written.
protocol BoundedEnvelope: Envelope {
    /// Names and the id in it; all else must fit `EnvelopeEncoder.fixedLengthMax`.
    var namesLength: Int { get }
    var id: UnsafeRawBufferPointer { get }
}

extension EnvelopeWriter {
    @inline(__always) mutating func begin(type: WireWord) -> Int {
        let outer = begin()
        firstKey(.type)
        value(type)
        return outer
    }

    /// Begins an answer: its type, and the request's id where there was one.
    @inline(__always) mutating func begin(type: WireWord, id: UnsafeRawBufferPointer) -> Int {
        let outer = begin(type: type)
        if id.count > 0 {
            key(.id)
            value(raw: id)
        }
        return outer
    }

    @inline(__always) mutating func field(_ label: FieldLabel, _ word: WireWord) {
        key(label)
        value(word)
    }

    @inline(__always) mutating func field(_ label: FieldLabel, word text: String) {
        key(label)
        value(word: text)
    }

    @inline(__always) mutating func field(_ label: FieldLabel, _ name: Name) {
        key(label)
        value(name)
    }

    @inline(__always) mutating func field(_ label: FieldLabel, _ text: String) {
        key(label)
        value(text)
    }

    @inline(__always) mutating func field(_ label: FieldLabel, _ number: UInt64) {
        key(label)
        value(number)
    }

    @inline(__always) mutating func field(_ label: FieldLabel, _ position: Position) {
        key(label)
        value(position)
    }

    @inline(__always) mutating func field(_ label: FieldLabel, _ flag: Bool) {
        key(label)
        value(flag)
    }
}
