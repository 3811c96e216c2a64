import HubBase

/// What a worker tells its coordinator over a pipe, in frames: a line of ASCII, then that many bytes.
///
///     hub-swarm/1 point 5123\n{…}
///
/// The version is in each line, so that a worker of another build is refused by its first word. Lengths are bounded before anything is
/// kept. Where the text comes from is the shell's affair; this is the order of the bytes.
package struct WorkersFrame: Sendable, Equatable {
    package enum Kind: String, Sendable, CaseIterable {
        /// A `Measures.Point`, once a second.
        case point
        /// The share's `Measures`, once, at its end.
        case measures
    }

    package var kind: Kind
    package var body: [UInt8]

    package init(_ kind: Kind, _ body: [UInt8]) {
        self.kind = kind
        self.body = body
    }

    static let version = "hub-swarm/1"
    private static let lineMax = 64

    package static func lengthMax(_ kind: Kind) -> Int {
        switch kind {
        case .point: 4 << 20
        case .measures: Measures.textMax
        }
    }

    package var encoded: [UInt8] { Array("\(Self.version) \(kind.rawValue) \(body.count)\n".utf8) + body }

    /// Puts the bytes of one pipe together again, in pieces of any size.
    package struct Reader: Sendable {
        package struct Malformed: Error, Sendable, Equatable { package var why: String }

        private var bytes: [UInt8] = []
        /// The head that was read, whose body is still coming.
        private var head: (kind: Kind, length: Int)?

        package init() {}

        package mutating func append(_ more: some Collection<UInt8>) { bytes += more }

        /// Nothing of a frame is left over.
        package var isEmpty: Bool { bytes.isEmpty && head == nil }

        /// nil: more bytes are needed. After an error nothing more is read of this pipe.
        package mutating func next() throws(Malformed) -> WorkersFrame? {
            if head == nil {
                guard let end = bytes.prefix(lineMax).firstIndex(of: UInt8(ascii: "\n")) else {
                    if bytes.count >= lineMax { throw Malformed(why: "no frame of a worker of this version") }
                    return nil
                }
                let words = String(decoding: bytes[..<end], as: UTF8.self).split(separator: " ", omittingEmptySubsequences: false)
                guard words.count == 3, words[0] == version else { throw Malformed(why: "no frame of a worker of this version") }
                guard let kind = Kind(rawValue: String(words[1])) else { throw Malformed(why: "a frame of unknown kind") }
                guard let length = Int(words[2]), length >= 0, length <= lengthMax(kind) else {
                    throw Malformed(why: "a frame that is too long")
                }
                head = (kind, length)
                bytes.removeFirst(end + 1)
            }
            guard let (kind, length) = head, bytes.count >= length else { return nil }
            let body = Array(bytes[..<length])
            bytes.removeFirst(length)
            head = nil
            return WorkersFrame(kind, body)
        }
    }
}
