import HubBase

/// What nodes say to each other on their control channels. It comes from where others may write, too: what can't be read is nil, and counted.
///
/// The first letter says what it is, then fields up to a colon each, and last what may hold anything. A node ignores letters that it doesn't know, so
/// that a newer one may say more.
package enum ControlMessage: Sendable, Equatable {
    /// `P:from:number:connection:proof:form:body`: a post for a stream of the receiver's; form is `1` (one envelope) or `n` (one a line).
    case post(StreamPost, number: UInt64, from: Name)
    /// `A:from:number:outcome`: the answer to the receiver's own post of that number.
    case answer(StreamPostOutcome, number: UInt64, from: Name)

    /// `Q:from:number:connection`: what does the receiver know of a connection of its own?
    case ask(Name, number: UInt64, from: Name)
    /// `F:from:number:` and `h:ms since it was heard:address`, or `g` (gone): the answer to that.
    case told(ConnectionAnswer, number: UInt64, from: Name)

    /// `W:from:0:`: the sender has let go of the partitions whose webhooks it delivered.
    case hooksLetGo(from: Name)

    private static let colon = UInt8(ascii: ":")
    package static let numberMax: UInt64 = 1 << 53

    package init?(_ bytes: UnsafeRawBufferPointer, bodyMax: Int) {
        var reader = Reader(rest: bytes)
        guard let kind = reader.field(limit: 1), kind.count == 1,
            let from = reader.field(limit: NodeName.lengthMax).flatMap(NodeName.parse),
            let number = reader.field(limit: 16).flatMap(Self.number)
        else { return nil }
        switch kind[0] {
        case UInt8(ascii: "P"):
            guard let connection = reader.field(limit: 64).flatMap({ Name(validating: $0, limit: 64) }),
                let proof = reader.field(limit: 64), let form = reader.field(limit: 1), form.count == 1,
                form[0] == UInt8(ascii: "1") || form[0] == UInt8(ascii: "n"), reader.rest.count <= bodyMax
            else { return nil }
            let post = StreamPost(
                connection: connection, proof: [UInt8](proof), body: [UInt8](reader.rest), isSingle: form[0] == UInt8(ascii: "1"))
            self = .post(post, number: number, from: from)
        case UInt8(ascii: "A"):
            guard let outcome = StreamPostOutcome.allCases.first(where: { $0.name.equals(reader.rest) }) else { return nil }
            self = .answer(outcome, number: number, from: from)
        case UInt8(ascii: "Q"):
            guard let connection = Name(validating: reader.rest, limit: 64) else { return nil }
            self = .ask(connection, number: number, from: from)
        case UInt8(ascii: "F"):
            guard let answer = Self.told(reader) else { return nil }
            self = .told(answer, number: number, from: from)
        case UInt8(ascii: "W"): self = .hooksLetGo(from: from)
        default: return nil
        }
    }

    package func bytes() -> [UInt8] {
        var out: [UInt8] = []
        func header(_ kind: StaticString, _ from: Name, _ number: UInt64) {
            out += UnsafeRawBufferPointer(start: kind.utf8Start, count: kind.utf8CodeUnitCount)
            out += from.bytes
            out.append(Self.colon)
            out += String(number).utf8
            out.append(Self.colon)
        }
        switch self {
        case .post(let post, let number, let from):
            out.reserveCapacity(post.body.count + 160)
            header("P:", from, number)
            out += post.connection.bytes
            out.append(Self.colon)
            out += post.proof
            out += post.isSingle ? ":1:".utf8 : ":n:".utf8
            out += post.body
        case .answer(let outcome, let number, let from):
            header("A:", from, number)
            out += UnsafeRawBufferPointer(start: outcome.name.utf8Start, count: outcome.name.utf8CodeUnitCount)
        case .ask(let connection, let number, let from):
            header("Q:", from, number)
            out += connection.bytes
        case .told(let answer, let number, let from):
            header("F:", from, number)
            if case .facts(let facts) = answer {
                out += "h:\(min(facts.heardAgo, Self.numberMax - 1)):".utf8
                out += facts.address.prefix(ConnectionFacts.addressMax)
            } else {
                // Whatever else it is, the asker finds out by itself.
                out += "g".utf8
            }
        case .hooksLetGo(let from): header("W:", from, 0)
        }
        return out
    }

    private static func told(_ reader: Reader) -> ConnectionAnswer? {
        var reader = reader
        if reader.rest.count == 1, reader.rest[0] == UInt8(ascii: "g") { return .gone }
        guard let kind = reader.field(limit: 1), kind.count == 1, kind[0] == UInt8(ascii: "h"),
            let heardAgo = reader.field(limit: 16).flatMap(Self.number), reader.rest.count <= ConnectionFacts.addressMax,
            reader.rest.isEmpty || Name(validating: reader.rest, limit: ConnectionFacts.addressMax) != nil
        else { return nil }
        return .facts(ConnectionFacts(address: [UInt8](reader.rest), heardAgo: heardAgo))
    }

    private static func number(_ digits: UnsafeRawBufferPointer) -> UInt64? {
        guard (1...16).contains(digits.count), digits.allSatisfy({ $0 >= 0x30 && $0 <= 0x39 }) else { return nil }
        let value = digits.reduce(0) { $0 * 10 + UInt64($1 - 0x30) }
        return value < numberMax ? value : nil
    }

    private struct Reader {
        var rest: UnsafeRawBufferPointer

        /// Up to the next colon, which is taken too; nil when there's none within `limit` bytes.
        mutating func field(limit: Int) -> UnsafeRawBufferPointer? {
            guard let end = rest.prefix(limit + 1).firstIndex(of: ControlMessage.colon) else { return nil }
            defer { rest = UnsafeRawBufferPointer(rebasing: rest[(end + 1)...]) }
            return UnsafeRawBufferPointer(rebasing: rest[..<end])
        }
    }
}

/// A node's incarnation as others may write it: it becomes part of a channel's name.
package enum NodeName {
    package static let lengthMax = 32

    package static func parse(_ bytes: UnsafeRawBufferPointer) -> Name? {
        guard (1...lengthMax).contains(bytes.count), bytes.allSatisfy(isAllowed) else { return nil }
        return Name(trusted: [UInt8](bytes))
    }

    private static func isAllowed(_ byte: UInt8) -> Bool {
        (byte >= UInt8(ascii: "a") && byte <= UInt8(ascii: "z")) || (byte >= UInt8(ascii: "0") && byte <= UInt8(ascii: "9"))
    }
}

extension StaticString {
    fileprivate func equals(_ bytes: UnsafeRawBufferPointer) -> Bool {
        bytes.elementsEqual(UnsafeRawBufferPointer(start: utf8Start, count: utf8CodeUnitCount))
    }
}
