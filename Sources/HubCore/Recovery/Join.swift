import HubBase
import HubWire

/// What one request wants to join: a subscriber of one or several channels, with or without a position to recover from.
package struct JoinBatch: Sendable {
    package struct Item: Sendable {
        package var channel: Name
        /// Where the subscriber stands; nil: wherever the channel stands.
        package var position: Position?
        /// The loop's own number for this item, handed back with its answer.
        package var tag: UInt64

        package init(channel: Name, position: Position?, tag: UInt64) {
            self.channel = channel
            self.position = position
            self.tag = tag
        }
    }

    package var loop: Int
    package var items: [Item]
    /// Whose own read mark comes first.
    package var user: Name
    /// A later page of a recovery has had the read marks with its first one.
    package var wantsMarks: Bool
    /// Publications of one item's page.
    package var limit: Int
    /// What the pages of all items may weigh together. A single item gets its first publication however large it is; of several, one that
    /// finds no room is told that there's more.
    package var bytes: Int
    /// Payloads in the other format weigh as much as they may become.
    package var format: WireFormat

    package init(loop: Int, items: [Item], user: Name, wantsMarks: Bool = true, limit: Int, bytes: Int, format: WireFormat = .json) {
        self.loop = loop
        self.items = items
        self.user = user
        self.wantsMarks = wantsMarks
        self.limit = limit
        self.bytes = bytes
        self.format = format
    }
}

/// Where a subscriber joins, and what it missed.
package struct JoinAnswer: Sendable, Equatable {
    /// Up to here the subscriber has everything once it has taken `publications`.
    package var position: Position
    package var publications: [PositionedPublication]
    /// nil when it gave no position.
    package var recovered: Bool?
    package var reason: RecoveryFailure?
    /// Not all of it: the subscriber isn't joined, and asks for the rest from `position` on.
    package var hasMore: Bool
    /// nil: not asked for, or they can't be had now.
    package var marks: [ReadMark]?
    /// How many are in the channel; nil: not known here.
    package var occupancy: UInt64?

    package init(
        position: Position, publications: [PositionedPublication] = [], recovered: Bool? = nil, reason: RecoveryFailure? = nil,
        hasMore: Bool = false, marks: [ReadMark]? = nil
    ) {
        self.position = position
        self.publications = publications
        self.recovered = recovered
        self.reason = reason
        self.hasMore = hasMore
        self.marks = marks
    }
}

/// What the pages of one request may still weigh. A class: its items are answered one by one, and take from the same.
final class PageBudget {
    private var left: Int
    private let isShared: Bool
    private let format: WireFormat

    init(_ batch: JoinBatch) {
        left = batch.bytes
        isShared = batch.items.count > 1
        format = batch.format
    }

    /// Of a batch of many, each reads a share of the budget with some to spare: most have missed nothing.
    static func readBytes(_ batch: JoinBatch) -> Int {
        batch.items.count == 1 ? batch.bytes : min(batch.bytes, max(batch.bytes * 4 / batch.items.count, 8 * 1024))
    }

    /// Whether one more publication fits; then it's taken off.
    func takes(_ publication: Publication, of channel: Name, isFirst: Bool) -> Bool {
        takes(publication.weight(channel: channel, format), isFirst: isFirst)
    }

    func takes(_ mark: ReadMark) -> Bool { takes(mark.user.bytes.count + 48, isFirst: false) }

    private func takes(_ weight: Int, isFirst: Bool) -> Bool {
        guard weight <= left || (isFirst && !isShared) else { return false }
        left -= min(weight, left)
        return true
    }
}
