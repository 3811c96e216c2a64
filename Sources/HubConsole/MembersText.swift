/// A channel's members for people.
package enum MembersText {
    /// How many, and then everybody by name, with the number of devices where there are several.
    package static func lines(_ members: [String: UInt64], occupancy: UInt64, isStale: Bool, on terminal: Terminal) -> [String] {
        var headline = occupancy == 1 ? "1 member" : "\(occupancy) members"
        if isStale { headline += terminal.paint(" (stale: the hub can't ask its store, this is what it knew last)", .yellow) }
        return [headline]
            + members.sorted { $0.key < $1.key }.map { user, devices in
                let name = Terminal.safe(user)
                return devices > 1 ? "\(name) \(terminal.paint("(\(devices) devices)", .grey))" : name
            }
    }
}
