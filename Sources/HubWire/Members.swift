import HubBase

/// One member of a channel: a user, however many devices it's there with.
package struct MemberEntry: Sendable, Hashable {
    package var user: Name
    /// Of those that show themselves, at least 1. A device that comes back on another node may count twice for a moment.
    package var devices: UInt32

    package init(user: Name, devices: UInt32) {
        self.user = user
        self.devices = devices
    }
}

/// How a channel tells of its members; its size decides, and each envelope says it.
package enum MembersMode: UInt8, Sendable, CaseIterable {
    /// Changes as they come.
    case each
    /// Changes of a second at once.
    case batched
    /// Only how many there are.
    case counts

    package var name: StaticString {
        switch self {
        case .each: "each"
        case .batched: "batched"
        case .counts: "counts"
        }
    }

    var word: WireWord {
        switch self {
        case .each: .each
        case .batched: .batched
        case .counts: .counts
        }
    }
}

/// A page of a channel's members, as of `sequence`.
package struct MembersPage: Sendable, Equatable {
    package var members: [MemberEntry]
    /// All members, on the page or not.
    package var occupancy: UInt64
    package var sequence: UInt64
    package var mode: MembersMode
    /// Where the next page begins; nil: this was the last one.
    package var cursor: String?
    /// The store can't be asked: this is what was known last.
    package var isStale: Bool

    package init(
        members: [MemberEntry], occupancy: UInt64, sequence: UInt64, mode: MembersMode, cursor: String? = nil, isStale: Bool = false
    ) {
        self.members = members
        self.occupancy = occupancy
        self.sequence = sequence
        self.mode = mode
        self.cursor = cursor
        self.isStale = isStale
    }
}

/// What those who follow a channel's members are told. A user is in at most one of the lists.
package struct MembersChange: Sendable, Equatable {
    package var channel: Name
    package var mode: MembersMode
    /// All members: what was known before doesn't count any more.
    package var members: [MemberEntry]?
    package var joined: [MemberEntry] = []
    package var left: [Name] = []
    package var updated: [MemberEntry] = []
    package var occupancy: UInt64
    package var sequence: UInt64
    /// The sequence that these changes follow; nil where they follow none: a whole list, or counts.
    package var previous: UInt64?

    package init(channel: Name, mode: MembersMode, occupancy: UInt64, sequence: UInt64, previous: UInt64? = nil) {
        self.channel = channel
        self.mode = mode
        self.occupancy = occupancy
        self.sequence = sequence
        self.previous = previous
    }
}
