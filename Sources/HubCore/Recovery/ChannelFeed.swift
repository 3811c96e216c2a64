import HubBase
import HubWire

/// What the node knows of one channel that it carries: who wants it, where it stands, and what passed last.
///
/// A value in `FeedTable`'s list, 64 bytes: most channels are users' inboxes in which nothing happens, so what those don't have stands in an
/// object that comes with need and goes with it (`Activity`).
struct ChannelFeed {
    var channel = Name.empty
    /// Which of the node's loops carry it: a bit each.
    var carriers: UInt64 = 0
    /// What was handed to the loops last; nil until the broker has confirmed the subscription.
    var tip: Position?
    /// The marks were read, and there are none.
    private var hasNoMarks = false
    /// Which feed it is, as places are used again; 0: a free place.
    var id: UInt32 = 0
    private var retentionMilliseconds = ChannelFeed.milliseconds(HistoryOptions().ttl)
    private var activity: Activity?

    /// What only channels have in which something happens, or that somebody joins.
    private final class Activity {
        var asked: UInt64 = 0
        var recent = Queue<DurableDelivery>()
        var keptUntil = Instant(nanoseconds: 0)
        var recentBytes = 0
        var pins = 0
        var waiting: [UInt64] = []
        var readings: [UInt64] = []
        var marks: ReadMarks?
        var older: Int32 = -1
        var newer: Int32 = -1

        func dropOldest() {
            if let oldest = recent.popFirst() { recentBytes -= ChannelFeed.cost(oldest) }
        }

        func forget() {
            recent.removeAll()
            recentBytes = 0
        }

        var isOver: Bool {
            recent.isEmpty && asked == 0 && pins == 0 && waiting.isEmpty && readings.isEmpty && marks == nil && older < 0 && newer < 0
        }
    }

    /// How long after the last delivery what's kept may be handed out, as history would be; zero: not at all. Longer than 49 days it isn't.
    var retention: Span {
        get { .milliseconds(UInt64(retentionMilliseconds)) }
        set { retentionMilliseconds = ChannelFeed.milliseconds(newValue) }
    }

    private static func milliseconds(_ span: Span) -> UInt32 { UInt32(clamping: span.milliseconds) }

    // MARK: Activity

    private mutating func act<Result>(_ body: (Activity) -> Result) -> Result {
        let active = activity ?? Activity()
        activity = active
        defer { if active.isOver { activity = nil } }
        return body(active)
    }

    /// Which `subscribe` of ours the broker's answer must carry; 0: none is under way.
    var asked: UInt64 {
        get { activity?.asked ?? 0 }
        set { act { $0.asked = newValue } }
    }

    /// The latest deliveries, without a hole, the last one at `tip`.
    var recentCount: Int { activity?.recent.count ?? 0 }
    func recent(_ place: Int) -> DurableDelivery? { activity.map { $0.recent[place] } }
    var recentBytes: Int { activity?.recentBytes ?? 0 }
    var keptUntil: Instant { activity?.keptUntil ?? Instant(nanoseconds: 0) }

    /// Recoveries under way: what passes while they read must be there to bridge to.
    var pins: Int {
        get { activity?.pins ?? 0 }
        set { act { $0.pins = newValue } }
    }

    /// Recoveries that go on once something happens to the channel: it's confirmed, or moves.
    var hasWaiting: Bool { activity.map { !$0.waiting.isEmpty } ?? false }
    mutating func wait(_ recovery: UInt64) { act { $0.waiting.append(recovery) } }
    mutating func takeWaiting() -> [UInt64] {
        guard hasWaiting else { return [] }
        return act { active in
            defer { active.waiting = [] }
            return active.waiting
        }
    }

    /// Readings of history under way.
    var readings: [UInt64] { activity?.readings ?? [] }
    mutating func changeReadings(_ body: (inout [UInt64]) -> Void) { act { body(&$0.readings) } }

    /// nil: nobody has asked for them yet.
    var marks: ReadMarks? {
        get { hasNoMarks ? ReadMarks.empty : activity?.marks }
        set {
            hasNoMarks = newValue?.isNone ?? false
            let kept = hasNoMarks ? nil : newValue
            if kept != nil || activity != nil { act { $0.marks = kept } }
        }
    }

    /// Changes them in place, where there are some.
    mutating func changeMarks(_ body: (inout ReadMarks) -> Void) {
        guard var changed = marks else { return }
        // One reference, so that nothing is copied.
        if !hasNoMarks { activity?.marks = nil }
        body(&changed)
        marks = changed
    }

    // Neighbours by the time of the last delivery, in `FeedTable`.
    var older: Int32 {
        get { activity?.older ?? -1 }
        set { act { $0.older = newValue } }
    }
    var newer: Int32 {
        get { activity?.newer ?? -1 }
        set { act { $0.newer = newValue } }
    }

    // MARK: What passed

    /// The place in `recent` that follows `position`: everything from there to the tip is what somebody at `position` missed. nil: it can't
    /// be told from memory.
    func place(after position: Position) -> Int? {
        guard let tip else { return nil }
        // Whoever is at the origin of no generation is for the broker to judge.
        guard position != .start else { return nil }
        if position == tip { return recentCount }
        guard let recent = activity?.recent, let first = recent.first?.publication else { return nil }
        if position.isOrigin { return position.isContinued(by: first.position, previous: first.previous) ? 0 : nil }
        guard position.epoch == first.position.epoch, position.offset + 1 >= first.position.offset, position.offset < tip.offset else {
            return nil
        }
        let place = Int(position.offset + 1 - first.position.offset)
        if place == 0 { return first.previous == position.tag ? 0 : nil }
        guard place <= recent.count else { return nil }
        return recent[place - 1].publication.position == position ? place : nil
    }

    /// What a kept delivery is taken to weigh: its payload, and its fields with their array headers.
    static func cost(_ delivery: DurableDelivery) -> Int { delivery.publication.publication.payload.count + 256 }

    /// Keeps it, and of what's kept `limit` at most. Answers by how much the bytes changed.
    mutating func keep(_ delivery: DurableDelivery, limit: Int, until: Instant) -> Int {
        let next = delivery.publication
        let tip = tip
        self.tip = next.position
        return act { active in
            let before = active.recentBytes
            let follows =
                active.recent.isEmpty
                ? true : tip.map { $0.epoch == next.position.epoch && $0.offset + 1 == next.position.offset } ?? false
            if !follows { active.forget() }
            active.keptUntil = until
            active.recent.append(delivery)
            active.recentBytes += Self.cost(delivery)
            while active.recent.count > limit { active.dropOldest() }
            return active.recentBytes - before
        }
    }

    mutating func dropOldest() { if activity != nil { act { $0.dropOldest() } } }

    /// The memory goes too.
    mutating func forget() { if activity != nil { act { $0.forget() } } }
}
