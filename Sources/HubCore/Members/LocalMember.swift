import HubBase

/// One user's connections in a channel, on this node. 32 bytes where it's one connection, which is open.
struct LocalMember {
    struct Holder {
        var connection: UInt64
        /// Empty where the client named none: such a one is no other's.
        var device: Name
        var isVisible: Bool
        /// Its connection is gone without a goodbye: it's awaited, and counts until then, or until it's back.
        var until: Instant?
    }

    private final class Several {
        var holders: [Holder]
        init(_ holders: [Holder]) { self.holders = holders }
    }

    // The only one; where there are none or several, that's said by `isSole`.
    private var connection: UInt64 = 0
    private var device = Name.empty
    private var several: Several?
    private var told: Int32 = 0
    private var isSole = false
    private var isVisible = false
    var isDirty = false

    var holders: [Holder] {
        get { isSole ? [Holder(connection: connection, device: device, isVisible: isVisible)] : several?.holders ?? [] }
        set {
            isSole = newValue.count == 1 && newValue[0].until == nil
            connection = isSole ? newValue[0].connection : 0
            device = isSole ? newValue[0].device : .empty
            isVisible = isSole && newValue[0].isVisible
            several = isSole || newValue.isEmpty ? nil : Several(newValue)
        }
    }

    var isEmpty: Bool { !isSole && several == nil }

    /// What the store was told last and has answered; `unknown` while a call says it, and when that isn't sure.
    var stored: Int64 {
        get { Int64(told) }
        set { told = Int32(clamping: newValue) }
    }

    static let unknown: Int64 = -1

    /// Devices that show themselves.
    var devices: UInt32 {
        if isSole { return isVisible ? 1 : 0 }
        guard let several else { return 0 }
        let visible = several.holders.filter(\.isVisible)
        let named = Set(visible.lazy.map(\.device).filter { !$0.isEmpty })
        return UInt32(clamping: named.count + visible.count { $0.device.isEmpty })
    }

    /// A connection of the device that shows itself is there: of those that are awaited one is back, the one that ended first. The others are on
    /// their way still. One that doesn't show itself ends no waiting, which would tell of it.
    mutating func endAwaiting(_ device: Name) {
        // Most members are one open connection.
        guard !device.isEmpty, let several else { return }
        var first: Int?
        for (place, holder) in several.holders.enumerated() {
            guard holder.isVisible, holder.device == device, let until = holder.until else { continue }
            if let best = first, let earliest = several.holders[best].until, earliest <= until { continue }
            first = place
        }
        if let first { holders.remove(at: first) }
    }

    var isSettled: Bool { stored == Int64(devices) }
}
