/// Who serves which lane, by one node's answer to CLUSTER SLOTS: an array of ranges, each [first slot, last slot, master, replica…], each
/// node [host, port, id, …].
package struct ClusterSlots: Equatable {
    /// The master of each lane; nil: nobody's.
    package private(set) var owners = [RedisURL.Place?](repeating: nil, count: Lane.count)
    /// Every node that was named, masters first: whom to ask next time.
    package private(set) var nodes: [RedisURL.Place] = []

    /// More nodes than this aren't remembered.
    static let nodesMax = 256

    /// nil when it isn't such an answer. `slots`: the slot of each lane; `asked`: who answered.
    package init?(_ reply: borrowing Reply, slots: [Int], asked: RedisURL.Place?) {
        guard let ranges = reply.elements(0) else { return nil }
        var replicas: [RedisURL.Place] = []
        var index = 1
        for _ in 0..<ranges {
            guard let fields = reply.elements(index), fields >= 3, let first = reply.integer(index + 1),
                let last = reply.integer(index + 2),
                first >= 0, last < Slot.count
            else { return nil }
            let end = reply.end(of: index)
            var node = index + 3
            var isMaster = true
            while node < end {
                guard let parts = reply.elements(node), parts >= 2, let port = reply.integer(node + 2) else { return nil }
                let host = reply.string(node + 1) ?? UnsafeRawBufferPointer(start: nil, count: 0)
                if let place = Redirect.place(host: host, port: UInt64(clamping: port), asked: asked) {
                    if isMaster {
                        for lane in slots.indices where first <= slots[lane] && slots[lane] <= last { owners[lane] = place }
                        if !nodes.contains(place), nodes.count < Self.nodesMax { nodes.append(place) }
                    } else if replicas.count < Self.nodesMax {
                        replicas.append(place)
                    }
                }
                isMaster = false
                node = reply.end(of: node)
            }
            index = end
        }
        for place in replicas where !nodes.contains(place) && nodes.count < Self.nodesMax { nodes.append(place) }
    }
}
