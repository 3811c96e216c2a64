/// What may be done in a channel; in the inbox of a user, `watch` stands for that user's presence.
package struct Permissions: OptionSet, Sendable, Hashable {
    package let rawValue: UInt8
    package init(rawValue: UInt8) { self.rawValue = rawValue }

    /// Hear what the channel carries, and recover what was missed since a position.
    package static let subscribe = Permissions(rawValue: 1)
    /// `chat`, `event`, `typing` and `read`.
    package static let publish = Permissions(rawValue: 2)
    /// Who is in the channel.
    package static let presence = Permissions(rawValue: 4)
    /// Read what was said, whether one was there or not.
    package static let history = Permissions(rawValue: 8)
    /// Follow whether a user is online.
    package static let watch = Permissions(rawValue: 16)

    package static let all: Permissions = [.subscribe, .publish, .presence, .history, .watch]

    /// As tokens and configurations write them.
    package static let names: [(name: String, permission: Permissions)] = [
        ("subscribe", .subscribe), ("publish", .publish), ("presence", .presence), ("history", .history), ("watch", .watch),
    ]

    /// nil for a word that isn't one of them; `*` is all. Cost: no allocation; it's asked some times for each token.
    package init?(word: [UInt8]) {
        guard let known = Permissions.byBytes.first(where: { $0.word == word }) else { return nil }
        self = known.permission
    }

    /// The same as bytes, which compare as fast as memory does.
    private static let byBytes: [(word: [UInt8], permission: Permissions)] =
        names.map { (Array($0.name.utf8), $0.permission) } + [([UInt8(ascii: "*")], .all)]

    package var words: [String] { Permissions.names.filter { contains($0.permission) }.map(\.name) }
}
