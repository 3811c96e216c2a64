import HubBase
import HubWire

/// A channel's members as this node's followers are shown them: how it is now, and what of it they haven't been told.
struct MembersView {
    /// Tells a late answer's view from the present one.
    let number: UInt64
    var mode = MembersMode.each
    /// Users with their devices; empty while only counts are told.
    var members: [Name: UInt32] = [:]
    /// What followers were told of users that have changed since: 0: not there.
    var before: [Name: UInt32] = [:]
    /// The sequence that followers were told last.
    var shown: UInt64 = 0
    /// How many they were told that there are.
    var shownCount: UInt64 = 0
    var lastFrame: Instant?
    var isLoaded = false
    var isReading = false
    /// The channel's beginning when that began.
    var begunAtRead: UInt64 = 0
    /// Heard while the list is being read.
    var held: [MembersNews] = []
    /// Some were let go: the list must be read again.
    var hasOverflowed = false
    /// Followers don't have the list: the next frame brings all of it, or says how many there are.
    var owesList = false
    /// The first page, for those who come while only counts are told.
    var page: MembersList?
    var pageAt = Instant(nanoseconds: 0)
    /// Answers that wait for the list.
    var waiting: [UInt64] = []

    /// Messages held while a list is being read.
    static let heldMax = 256
    /// A page is good for others too.
    static let pageHolds = Span.seconds(1)
    /// Frames are at least so far apart: four a second, whatever happens.
    static let pace = Span.milliseconds(250)
    static let batch = Span.seconds(1)
    static let countsEvery = Span.seconds(5)

    init(number: UInt64) { self.number = number }

    mutating func set(_ user: Name, _ devices: UInt32) {
        let known = members[user] ?? 0
        guard known != devices else { return }
        if before[user] == nil { before[user] = known }
        members[user] = devices > 0 ? devices : nil
    }

    /// Only how many there are counts from now on.
    mutating func forgetList() {
        mode = .counts
        members = [:]
        before = [:]
    }

    /// The members as followers were told.
    func asShown() -> [MemberEntry] {
        var entries: [MemberEntry] = []
        entries.reserveCapacity(members.count)
        for (user, devices) in members where before[user] == nil { entries.append(MemberEntry(user: user, devices: devices)) }
        for (user, devices) in before where devices > 0 { entries.append(MemberEntry(user: user, devices: devices)) }
        return entries
    }

    /// Takes the changes that followers weren't told: each user once, by where it was and where it is.
    mutating func takeChanges(into change: inout MembersChange) {
        for (user, known) in before {
            switch (known, members[user] ?? 0) {
            case (0, 0): break
            case (0, let devices): change.joined.append(MemberEntry(user: user, devices: devices))
            case (_, 0): change.left.append(user)
            case (let known, let devices):
                if known != devices { change.updated.append(MemberEntry(user: user, devices: devices)) }
            }
        }
        before.removeAll(keepingCapacity: true)
    }

    /// The mode for so many members: above the threshold counts, above a quarter of it batches. A mode is left downwards only a fifth below
    /// its border, so that a channel at the border doesn't go to and fro.
    static func mode(for count: UInt64, threshold: Int, now mode: MembersMode) -> MembersMode {
        guard threshold > 0 else { return .counts }
        let whole = UInt64(threshold)
        let quarter = max(whole / 4, 1)
        if count > whole || (mode == .counts && count > whole * 4 / 5) { return .counts }
        if count > quarter || (mode != .each && count > quarter * 4 / 5) { return .batched }
        return .each
    }
}
