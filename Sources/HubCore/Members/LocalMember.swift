import HubBase

/// One user's connections in a channel, on this node. 32 bytes where it's one connection, which is open; where there are several, each costs a
/// look-up, however many they are.
package struct LocalMember {
    private struct Holder {
        /// Empty where the client named none: such a one is no other's.
        var device: Name
        var isVisible: Bool
        /// Its connection is gone without a goodbye: it's awaited, and counts until then, or until it's back.
        var until: Instant?
    }

    private final class Several {
        private(set) var holders: [UInt64: Holder] = [:]
        /// Connections of each device that show themselves.
        private var named: [Name: Int] = [:]
        private var unnamed = 0
        /// Connections, the one that ends first in front.
        private(set) var awaited: [UInt64] = []

        var devices: Int { named.count + unnamed }

        /// nil: takes it out.
        func set(_ connection: UInt64, _ holder: Holder?) {
            if let before = holders[connection] {
                count(before, by: -1)
                if before.until != nil { awaited.removeAll { $0 == connection } }
            }
            holders[connection] = holder
            guard let holder else { return }
            count(holder, by: 1)
            if holder.until != nil { awaited.append(connection) }
        }

        private func count(_ holder: Holder, by step: Int) {
            guard holder.isVisible else { return }
            guard !holder.device.isEmpty else { return unnamed += step }
            let count = (named[holder.device] ?? 0) + step
            named[holder.device] = count == 0 ? nil : count
        }
    }

    package init() {}

    // The only one; where there are none or several, that's said by `isSole`.
    private var connection: UInt64 = 0
    private var device = Name.empty
    private var several: Several?
    private var told: Int32 = 0
    private var isSole = false
    private var isVisible = false
    var isDirty = false

    /// Of one user so many that are awaited are told apart, as of users (decision 0322). With one more, one goes that all the others outlast.
    package static let awaitedMax = 4
    package static let unknown: Int64 = -1

    package var isEmpty: Bool { !isSole && several == nil }

    /// What the store was told last and has answered; `unknown` while a call says it, and when that isn't sure.
    package var stored: Int64 {
        get { Int64(told) }
        set { told = Int32(clamping: newValue) }
    }

    package var isSettled: Bool { stored == Int64(devices) }

    /// Devices that show themselves.
    package var devices: UInt32 {
        if isSole { return isVisible ? 1 : 0 }
        return UInt32(clamping: several?.devices ?? 0)
    }

    package func holds(_ connection: UInt64) -> Bool { self[connection] != nil }

    /// Whether it's there and shows itself.
    package func shows(_ connection: UInt64) -> Bool { self[connection]?.isVisible ?? false }

    private subscript(connection: UInt64) -> Holder? {
        if isSole { return connection == self.connection ? Holder(device: device, isVisible: isVisible) : nil }
        return several?.holders[connection]
    }

    private mutating func set(_ connection: UInt64, _ holder: Holder?) {
        if several == nil, !isSole, let holder, holder.until == nil { return become(connection, holder) }
        if isSole, connection == self.connection, let holder, holder.until == nil { return become(connection, holder) }
        let several = several ?? Several()
        if isSole { several.set(self.connection, Holder(device: device, isVisible: isVisible)) }
        (isSole, device) = (false, .empty)
        several.set(connection, holder)
        self.several = several.holders.isEmpty ? nil : several
        if several.holders.count == 1, let (last, holder) = several.holders.first, holder.until == nil { become(last, holder) }
    }

    private mutating func become(_ connection: UInt64, _ holder: Holder) {
        (self.connection, device, isVisible) = (connection, holder.device, holder.isVisible)
        (isSole, several) = (true, nil)
    }

    package mutating func add(_ connection: UInt64, device: Name, isVisible: Bool) {
        set(connection, Holder(device: device, isVisible: isVisible))
    }

    package mutating func remove(_ connection: UInt64) { if holds(connection) { set(connection, nil) } }

    /// Its device; nil where it isn't there.
    package func device(of connection: UInt64) -> Name? { self[connection]?.device }

    /// Its connection, which showed itself, is gone, and it counts until then. Called in the order of time.
    package mutating func lose(_ connection: UInt64, until: Instant) {
        guard var holder = self[connection] else { return }
        if let several, several.awaited.count >= LocalMember.awaitedMax { several.set(several.awaited[0], nil) }
        holder.until = until
        set(connection, holder)
    }

    /// That it's gone wasn't told after all: it's awaited once more. Called in the order of time.
    package mutating func awaitAgain(_ connection: UInt64, device: Name, until: Instant) {
        set(connection, Holder(device: device, isVisible: true, until: until))
    }

    package func awaits(_ connection: UInt64) -> Bool { self[connection]?.until != nil }

    package mutating func show(_ isVisible: Bool, _ connection: UInt64) {
        guard var holder = self[connection] else { return }
        holder.isVisible = isVisible
        set(connection, holder)
    }

    /// A connection of the device that shows itself is there: of those that are awaited one is back, the one that ended first. The others are on
    /// their way still. One that doesn't show itself ends no waiting, which would tell of it.
    package mutating func endAwaiting(_ device: Name) {
        // Most members are one open connection.
        guard !device.isEmpty, let several else { return }
        let back = several.awaited.first { several.holders[$0].map { $0.isVisible && $0.device == device } ?? false }
        if let back { set(back, nil) }
    }
}
