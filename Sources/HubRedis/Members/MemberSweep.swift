import HubBase
import HubCore
import HubWire

/// A sweep of one partition's occupied channels, between its steps: *memberfind* says which channels nobody was heard of in, *memberlook* who of
/// them is dead, *memberreap* takes those out. One channel at a time, so that a sweep has one call under way.
package final class MemberSweep {
    let partition: Int
    let tag: RequestTag
    /// How often was looked for channels.
    var rounds = 0
    var swept = MembersSwept()
    /// What find said, and goes back unchanged: a channel that has moved since isn't ours any more.
    var mark: [UInt8] = []
    package var channels: [Name] = []
    /// Whether the last of the channels has been looked at, and which nodes are dead in it.
    var isLooked = false
    package var dead: [Name] = []
    /// Whether find returned as many as it may: there's more.
    var isFull = false

    /// Channels that one find may return, and how often one sweep looks: what's left is the next one's.
    package static let limit = 20
    static let roundsMax = 10

    package init(partition: Int, tag: RequestTag) {
        self.partition = partition
        self.tag = tag
    }

    /// Fills in what find replied; false when it isn't ours to read.
    package func found(_ reply: borrowing Reply) -> Bool {
        (channels, dead, isLooked, isFull) = ([], [], false, false)
        guard let count = reply.elements(0), reply.count == count + 1, count <= MemberSweep.limit + 1 else { return false }
        guard count > 0 else { return true }
        guard let mark = reply.string(1), mark.decimal != nil else { return false }
        self.mark = [UInt8](mark)
        for index in 2..<max(2, reply.count) {
            // What isn't a channel's name can't be one of ours, and holds up nobody.
            guard let name = reply.string(index) else { return false }
            if let channel = Name(validating: name) { channels.append(channel) }
        }
        isFull = count == MemberSweep.limit + 1
        channels.reverse()
        return true
    }

    /// Fills in what look replied; false when it isn't ours to read.
    package func looked(_ reply: borrowing Reply) -> Bool {
        guard let count = reply.elements(0), (1...11).contains(count), reply.count == count + 1, let vacated = reply.integer(1) else {
            return false
        }
        for index in 2..<max(2, reply.count) {
            guard let node = reply.string(index).flatMap({ Name(validating: $0, limit: 64) }) else { return false }
            dead.append(node)
        }
        swept.channels += vacated == 1 || !dead.isEmpty ? 1 : 0
        return true
    }
}
