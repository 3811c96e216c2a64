import HubBase

/// What a backend can be told of by a webhook (docs/hooks.md).
package enum HookKind: UInt8, Sendable, CaseIterable {
    /// A user who was offline is here.
    case userOnline
    case userOffline
    /// From online to away, or back.
    case userStatus
    /// The first member came, the last one left.
    case channelOccupied
    case channelVacated

    /// As settings and bodies have it.
    package var name: StaticString {
        switch self {
        case .userOnline: "user.online"
        case .userOffline: "user.offline"
        case .userStatus: "user.status"
        case .channelOccupied: "channel.occupied"
        case .channelVacated: "channel.vacated"
        }
    }

    /// As the queue has it.
    package var letter: UInt8 {
        switch self {
        case .userOnline: UInt8(ascii: "n")
        case .userOffline: UInt8(ascii: "f")
        case .userStatus: UInt8(ascii: "s")
        case .channelOccupied: UInt8(ascii: "o")
        case .channelVacated: UInt8(ascii: "v")
        }
    }

    package init?(name: String) {
        guard let kind = HookKind.allCases.first(where: { "\($0.name)" == name }) else { return nil }
        self = kind
    }

    package init?(letter: UInt8) {
        guard let kind = HookKind.allCases.first(where: { $0.letter == letter }) else { return nil }
        self = kind
    }

    /// What a user's change of state is.
    package init(from previous: PresenceStatus, to status: PresenceStatus) {
        self = status == .offline ? .userOffline : previous == .offline ? .userOnline : .userStatus
    }

    /// Whether it's about a user; else about a channel.
    package var isOfUser: Bool {
        switch self {
        case .userOnline, .userOffline, .userStatus: true
        case .channelOccupied, .channelVacated: false
        }
    }
}

/// Where an event stands in its partition's queue: only grows within one, and comes from the store's clock, so that a queue that was lost
/// begins behind the old one.
package struct HookEventID: Sendable, Hashable, Comparable {
    /// When it was queued, milliseconds since 1970.
    package var milliseconds: UInt64
    package var sequence: UInt64

    package init(milliseconds: UInt64, sequence: UInt64) {
        self.milliseconds = milliseconds
        self.sequence = sequence
    }

    package static func < (left: HookEventID, right: HookEventID) -> Bool {
        (left.milliseconds, left.sequence) < (right.milliseconds, right.sequence)
    }
}

package struct HookEvent: Sendable, Equatable {
    package var id: HookEventID
    package var kind: HookKind
    /// The user's or the channel's.
    package var name: Name
    /// Of a user's event: the state since then.
    package var status: PresenceStatus
    /// Of a user's event: the version of that state (`PresenceChange`). Of a channel's: the sequence of its members.
    package var version: UInt64
    /// Milliseconds since 1970: of the change, and for an offline user when last seen. A channel's has its occupancy in `occupancy`.
    package var time: UInt64
    /// Of a channel's event: members since then.
    package var occupancy: UInt64

    /// An entry that somebody else has put into the queue: nothing of it can be told.
    package static func unreadable(_ id: HookEventID) -> HookEvent {
        HookEvent(id: id, kind: .userStatus, name: .empty, version: 0, time: 0)
    }

    package var isReadable: Bool { !name.isEmpty }

    package init(
        id: HookEventID, kind: HookKind, name: Name, status: PresenceStatus = .offline, version: UInt64, time: UInt64, occupancy: UInt64 = 0
    ) {
        self.id = id
        self.kind = kind
        self.name = name
        self.status = status
        self.version = version
        self.time = time
        self.occupancy = occupancy
    }
}

/// Which kinds are told.
package struct HookKinds: OptionSet, Sendable, Hashable {
    package let rawValue: UInt8
    package init(rawValue: UInt8) { self.rawValue = rawValue }
    package init(_ kind: HookKind) { rawValue = 1 << kind.rawValue }
    package init(_ kinds: some Sequence<HookKind>) { rawValue = kinds.reduce(0) { $0 | 1 << $1.rawValue } }

    package func contains(_ kind: HookKind) -> Bool { rawValue & 1 << kind.rawValue != 0 }

    /// "nf", as scripts take it.
    package var letters: [UInt8] { HookKind.allCases.filter { contains($0) }.map(\.letter) }
}
