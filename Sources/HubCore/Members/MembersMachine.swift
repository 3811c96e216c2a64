import HubBase
import HubWire

/// Who is in which channel, as far as one node is concerned: its own users told to the store, and everybody's to its clients. A machine:
/// inputs in, actions out (`takeActions`), no clock.
///
/// The shell calls inputs as they happen, `tick` at least every 100 ms, and `takeActions` at the end of each turn.
///
/// - *Level-triggered*: for each user and channel the machine keeps how many devices are there and what the store was told; where the two
///   differ, what is there now is sent, 200 ms after the first change, one call a channel at a time, again until the store says yes. What a
///   call says is unknown until it's answered.
/// - *Who went without a goodbye* is a member for presence's grace still: a page that's loaded again is no change at all.
/// - *Followers* are shown a view: one list and then frames of changes for all of them, at most four a second. What the store tells is
///   numbered; a number that's missing makes the view read the list again, and the difference is told like any change.
package final class MembersMachine {
    let timers: PresenceTimers
    let node: Name
    let tagSpace: UInt64
    var chance: Chance

    var connections = MemberConnections()
    var channels: [Name: MemberChannel] = [:]
    private var options: [[UInt8]: MembersOptions] = [:]
    private var tickedAt = Instant(nanoseconds: 0)
    private var deadlines = DeadlineHeap<MemberChannel>()
    /// Those who are awaited, in the order of their ends.
    var lingering = Queue<(channel: Name, user: Name, connection: UInt64, until: Instant)>()

    /// Channels that nobody here is in any more, while a store that comes back with older data may have them again.
    var emptied = Queue<(channel: Name, known: MembersKnown, at: Instant)>()

    var requests: [UInt64: Request] = [:]
    var requestEnds = Queue<(id: UInt64, at: Instant)>()
    var lastRequest: UInt64 = 0
    /// Answers to loops that wait for lists.
    var answers: [UInt64: Answer] = [:]
    var answerEnds = Queue<(id: UInt64, at: Instant)>()
    var lastAnswer: UInt64 = 0
    var lastView: UInt64 = 0

    var sweeps = [Sweep](repeating: Sweep(), count: Partition.count)
    var sweepsScanned = Instant(nanoseconds: 0)
    /// Nodes that live: they share the sweeps.
    package var nodesLive = 1

    /// Once the node is about to stop.
    var departure: Departure?
    var isUp = false
    /// Since when nothing was heard of a store that owes answers, and a bit later.
    var silentSince: Instant?
    var actions: [MembersAction] = []
    package internal(set) var numbers = Numbers()

    /// How long changes of a channel are collected.
    package static let collect = Span.milliseconds(200)
    /// A store that owes answers and says nothing for so long is silent, and one that has been for so long stood still.
    package static let silence = Span.milliseconds(300)
    static let standstill = Span.seconds(1)
    /// What failed is tried again after it.
    package static let pace = Span.seconds(2)
    /// A store that doesn't answer within this is taken to have refused.
    package static let answerWithin = Span.seconds(20)
    /// Those who wait for a list get what there is after it.
    package static let listWithin = Span.seconds(3)
    /// What the store is known to have told must have been heard within this.
    static let heardWithin = Span.seconds(1)
    /// More changes than a channel has until a lease has said so.
    static let leap: UInt64 = 1_000
    /// What a store that comes back may have lost, as of presence; and of how many channels.
    package static let lossMax = PresenceMachine.lossMax
    package static let emptiedMax = 20_000

    package struct Numbers: Sendable {
        /// Frames for followers, by mode.
        package var frames = [UInt64](repeating: 0, count: MembersMode.allCases.count)
        /// Users taken out of channels with their dead nodes, by this node.
        package var reaped: UInt64 = 0
        /// Lists read because a message was missing.
        package var gaps: UInt64 = 0
        /// Calls that the store refused.
        package var failures: UInt64 = 0
        package var channels = 0
        /// Channels whose members somebody here follows.
        package var followed = 0
        package init() {}
    }

    enum Request {
        case change(MemberChannel, [MemberCount], mayBeLate: Bool)
        /// `cuts`: the node stops, and what it said ends with its members' grace.
        case refresh(MemberChannel, cuts: Bool)
        case reap(MemberChannel)
        case list(MemberChannel, view: UInt64)
        case page(RequestTag, Name)
        case sweep(partition: Int)
    }

    /// Of one partition.
    struct Sweep {
        var next = Instant(nanoseconds: 0)
        var isUnderWay = false
    }

    struct Answer {
        var tag: RequestTag
        var channels: [Name]
        /// Lists it still waits for.
        var lists = 0
    }

    /// - Parameters:
    ///   - node: the incarnation, as the store knows it.
    ///   - tagSpace: the `high` word of every tag that the machine makes; the shell keeps other requests' tags out of it.
    package init(timers: PresenceTimers, node: Name, tagSpace: UInt64, chance: Chance) {
        self.timers = timers
        self.node = node
        self.tagSpace = tagSpace
        self.chance = chance
    }

    /// For channels that are met from now on; `""` stands for every namespace that isn't named.
    package func setNamespaces(_ namespaces: [String: HistoryOptions]) {
        options = Dictionary(namespaces.map { ([UInt8]($0.key.utf8), $0.value.members) }, uniquingKeysWith: { _, last in last })
    }

    func options(of channel: Name) -> MembersOptions {
        // An inbox has one user by its nature.
        guard Inbox.owner(of: channel) == nil else {
            var none = MembersOptions()
            none.isOn = false
            return none
        }
        return options[[UInt8](channel.namespace)] ?? options[[]] ?? MembersOptions()
    }

    package func takeActions() -> [MembersAction] {
        guard !actions.isEmpty else { return [] }
        defer { actions = [] }
        return actions
    }

    // MARK: The node's own

    /// A connection is in a channel now. Told again it does nothing.
    package func joined(_ channelName: Name, connection: UInt64, user: Name, device: Name, isVisible: Bool, at now: Instant) {
        guard options(of: channelName).isOn else { return }
        let channel = channel(channelName)
        var member = channel.users[user] ?? LocalMember()
        guard !member.holds(connection) else { return }
        if isVisible {
            member.endAwaiting(device)
            channel.confirm(user)
        }
        member.add(connection, device: device, isVisible: isVisible)
        channel.users[user] = member
        connections.add(channelName, to: connection, of: user)
        touch(user, in: channel, at: now)
        schedule(channel)
    }

    /// It has unsubscribed.
    package func left(_ channelName: Name, connection: UInt64, at now: Instant) {
        guard let user = connections.remove(channelName, from: connection) else { return }
        remove(connection, of: user, from: channelName, at: now)
    }

    /// `isClean`: the client said goodbye. Not so while the store is away: the user may be back on another node that can't say so yet either.
    package func closed(connection: UInt64, isClean: Bool, at now: Instant) {
        guard let known = connections.remove(connection) else { return }
        for name in known.channels {
            guard let channel = channels[name], let member = channel.users[known.user], member.holds(connection) else { continue }
            // One that doesn't show itself isn't awaited: it would take the place of one that does.
            if (isClean && isUp) || timers.grace == .zero || !member.shows(connection) {
                if timers.grace != .zero { channel.end(connection, of: known.user) }
                remove(connection, of: known.user, from: name, at: now)
            } else {
                let until = now + timers.grace
                channel.users[known.user]?.lose(connection, until: until)
                lingering.append((name, known.user, connection, until))
                if departure != nil { departure?.until = until }
                touch(known.user, in: channel, at: now)
                schedule(channel)
            }
        }
    }

    /// A connection hides, or shows itself again.
    package func showed(_ isVisible: Bool, connection: UInt64, at now: Instant) {
        guard let known = connections[connection] else { return }
        for name in known.channels {
            guard let channel = channels[name], channel.users[known.user]?.holds(connection) == true else { continue }
            channel.users[known.user]?.show(isVisible, connection)
            touch(known.user, in: channel, at: now)
            schedule(channel)
        }
    }

    private func remove(_ connection: UInt64, of user: Name, from name: Name, at now: Instant) {
        guard let channel = channels[name] else { return }
        channel.users[user]?.remove(connection)
        touch(user, in: channel, at: now)
        schedule(channel)
        removeIfUnused(channel)
    }

    /// How many are in a channel, where this node knows it.
    package func occupancy(of channel: Name) -> UInt64? {
        guard let channel = channels[channel], channel.sequence > 0, !channel.isChecked else { return nil }
        if let view = channel.view, view.isLoaded, view.mode != .counts { return UInt64(view.members.count) }
        return channel.occupancy
    }

    // MARK: Time

    package func tick(at now: Instant) {
        tickedAt = now
        while isUp, silentSince == nil, let next = lingering.first, next.until <= now {
            _ = lingering.popFirst()
            guard let channel = channels[next.channel] else { continue }
            if channel.users[next.user]?.awaits(next.connection) == true { channel.end(next.connection, of: next.user) }
            touch(next.user, in: channel, at: now)
            schedule(channel)
            removeIfUnused(channel)
        }
        // Those in front that were answered need no longer wait for their time.
        while let next = requestEnds.first, next.at <= now || requests[next.id] == nil {
            _ = requestEnds.popFirst()
            if let request = requests.removeValue(forKey: next.id) {
                failed(request, WireError(.unavailable, "the members' store didn't answer within \(MembersMachine.answerWithin)"), at: now)
            }
        }
        while let next = answerEnds.first, next.at <= now {
            _ = answerEnds.popFirst()
            giveAnswer(next.id)
        }
        while let next = deadlines.popFirst(dueBy: now) {
            let channel = next.element
            guard !channel.isGone, channel.queuedDue == next.due else { continue }
            channel.queuedDue = .distantFuture
            act(channel, at: now)
            schedule(channel)
            removeIfUnused(channel)
        }
        while isUp, let first = emptied.first, first.at + MembersMachine.lossMax < now { _ = emptied.popFirst() }
        depart(at: now)
        sweep(at: now)
        numbers.channels = channels.count
    }

    private func act(_ channel: MemberChannel, at now: Instant) {
        if let at = channel.collectAt, at <= now {
            channel.collectAt = nil
            if silentSince != nil, departure == nil, !channel.unconfirmed.isEmpty, !channel.mayBeLate {
                channel.collectAt = now + MembersMachine.collect
            } else {
                send(channel, at: now)
            }
        }
        if let at = channel.refreshAt, at <= now {
            channel.refreshAt = nil
            refresh(channel, at: now)
        }
        if let at = channel.expectAt, at <= now {
            channel.expectAt = nil
            if channel.sequence < channel.expected { missed(channel, at: now) }
        }
        if let at = channel.warmUntil, at <= now {
            channel.warmUntil = nil
            if channel.view != nil { channel.readAt = now }
        }
        if let at = channel.readAt, at <= now {
            channel.readAt = nil
            read(channel, at: now)
        }
        if let at = channel.flushAt, at <= now {
            channel.flushAt = nil
            flush(channel, at: now)
        }
    }

    /// Sees to it that the channel is looked at when it's due.
    func schedule(_ channel: MemberChannel) {
        let due = channel.due
        guard due < channel.queuedDue, !channel.isGone else { return }
        channel.queuedDue = due
        deadlines.insert(channel, due: due)
        // Entries that earlier ones have overtaken stay until they come due: where people come one by one, that's one for each of them.
        if deadlines.count > 2 * channels.count + 64 { deadlines.keep { $1.queuedDue == $0 && !$1.isGone } }
    }

    /// The channel; a new one when there was none.
    func channel(_ name: Name) -> MemberChannel {
        if let channel = channels[name] { return channel }
        let channel = MemberChannel(name: name, threshold: options(of: name).threshold)
        channels[name] = channel
        return channel
    }

    func removeIfUnused(_ channel: MemberChannel) {
        guard channel.isUnused, !channel.isGone else { return }
        if channel.lastCall > 0 { emptied.append((channel.name, channel.known, tickedAt)) }
        if emptied.count > MembersMachine.emptiedMax { _ = emptied.popFirst() }
        channel.isGone = true
        channels[channel.name] = nil
    }

    // MARK: Requests to the store

    package func owns(_ tag: RequestTag) -> Bool { tag.high == tagSpace }

    func open(_ request: Request, at now: Instant) -> RequestTag {
        lastRequest += 1
        requests[lastRequest] = request
        requestEnds.append((id: lastRequest, at: now + MembersMachine.answerWithin))
        return RequestTag(high: tagSpace, low: lastRequest)
    }

    static let away = WireError(.unavailable, "the members' store can't be reached", retryAfter: 2_000)
}
