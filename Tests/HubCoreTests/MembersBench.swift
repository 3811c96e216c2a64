import HubBase
import HubCore
import HubWire

/// A machine, driven by hand.
final class MembersBench {
    let machine: MembersMachine
    var now = Instant(nanoseconds: 1_000_000_000)
    var waiting: [MembersAction] = []

    init(threshold: Int = 200, grace: Span = .seconds(10), heartbeat: Span = .seconds(30)) {
        var timers = PresenceTimers()
        timers.heartbeat = heartbeat
        timers.grace = grace
        machine = MembersMachine(timers: timers, node: "aaaaaaaaaaaa", tagSpace: 77, chance: Chance(seed: 1))
        var options = HistoryOptions()
        options.members.threshold = threshold
        var off = HistoryOptions()
        off.members.isOn = false
        machine.setNamespaces(["": options, "dm": off])
        machine.storeHealth(.up, at: now)
    }

    func pass(_ span: Span) {
        let end = now + span
        while now < end {
            now = now + .milliseconds(10)
            machine.tick(at: now)
            waiting += answerSweeps()
        }
    }

    /// Without sweeps, which find nothing.
    func take() -> [MembersAction] {
        defer { waiting = [] }
        return waiting + answerSweeps()
    }

    /// The rest.
    private func answerSweeps() -> [MembersAction] {
        machine.takeActions().filter {
            guard case .sweep(_, let tag) = $0 else { return true }
            machine.swept(.success(MembersSwept()), tag: tag, at: now)
            return false
        }
    }

    func changes() -> [(users: [MemberCount], tag: RequestTag)] {
        take().compactMap {
            if case .change(let users, _, _, _, let tag) = $0 {
                (users.sorted { $0.user.bytes.lexicographicallyPrecedes($1.user.bytes) }, tag)
            } else {
                nil
            }
        }
    }

    func join(_ user: Name, _ connection: UInt64, device: Name = "phone", visible: Bool = true) {
        machine.joined("room", connection: connection, user: user, device: device, isVisible: visible, at: now)
    }

    func say(_ tag: RequestTag, sequence: UInt64 = 5, occupancy: UInt64 = 1, isNew: Bool = false) {
        machine.changed(.success(MembersTip(sequence: sequence, begun: 1, occupancy: occupancy, isNew: isNew)), tag: tag, at: now)
    }

    /// Follows, and answers the list that's read for it.
    func follow(_ members: [MemberEntry], sequence: UInt64 = 5) -> MembersPage? {
        machine.follow(["room"], loop: 0, tag: RequestTag(high: 0, low: 9), at: now)
        for case .list(_, _, _, _, let tag) in take() { list(members, sequence: sequence, tag) }
        for case .followed(let pages, _) in take() { return pages[0] }
        return nil
    }

    func list(_ members: [MemberEntry], sequence: UInt64, begun: UInt64 = 1, cursor: String? = nil, _ tag: RequestTag) {
        let list = MembersList(
            members: members, sequence: sequence, begun: begun, occupancy: cursor == nil ? UInt64(members.count) : 10_000, cursor: cursor)
        machine.listed(.success(list), tag: tag, at: now)
    }

    func hear(_ kind: MembersNews.Kind, _ users: [Name: UInt32], _ sequence: UInt64, occupancy: UInt64 = 1) {
        let news = MembersNews(
            kind: kind, sequence: sequence, occupancy: occupancy, users: users.map { MemberCount(user: $0.key, devices: $0.value) })
        machine.heard(news, channel: "room", at: now)
    }

    func frames() -> [MembersChange] { take().compactMap { if case .push(let change, _) = $0 { change } else { nil } } }
}
