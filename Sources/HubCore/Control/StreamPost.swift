import HubBase

/// Requests that a client posted for its stream of events, on their way to the loop that holds the stream.
package struct StreamPost: Sendable, Equatable {
    /// The stream's connection.
    package var connection: Name
    /// What proves that the sender may: checked by the stream's own node.
    package var proof: [UInt8]
    /// One envelope, or several, one a line.
    package var body: [UInt8]
    /// The body is one envelope, line ends and all.
    package var isSingle: Bool

    package init(connection: Name, proof: [UInt8], body: [UInt8], isSingle: Bool) {
        self.connection = connection
        self.proof = proof
        self.body = body
        self.isSingle = isSingle
    }
}

/// What became of a post.
package enum StreamPostOutcome: UInt8, Sendable, CaseIterable {
    /// The stream has it: acks and errors come as its events.
    case taken
    /// There's no such stream, or its node has gone.
    case unknown
    /// Its node didn't answer in time: the stream may have it, or not.
    case late
    /// It didn't leave: too many are under way, or the way to the other nodes is cut.
    case refused

    package var name: StaticString {
        switch self {
        case .taken: "taken"
        case .unknown: "unknown"
        case .late: "late"
        case .refused: "refused"
        }
    }
}
