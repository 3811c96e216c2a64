import HubBase

/// A loop's streams by index. A handful: objects will do.
struct StreamTable: ~Copyable {
    private(set) var streams: [ByteStream?] = []
    private var generations: [UInt32] = []
    /// Those that have something to say in this turn.
    var dirty: [ByteStream] = []
    /// Those whose end is to be told.
    var ended: [ByteStream] = []

    var hasEnded: Bool { !ended.isEmpty }

    func find(_ index: UInt32, generation: UInt32) -> ByteStream? {
        guard Int(index) < streams.count, let stream = streams[Int(index)], stream.generation == generation else { return nil }
        return stream
    }

    /// Where the next stream goes, and its generation.
    mutating func place() -> (UInt32, UInt32) {
        let index = streams.firstIndex { $0 == nil } ?? streams.count
        if index == streams.count {
            streams.append(nil)
            generations.append(0)
        }
        generations[index] &+= 1
        return (UInt32(index), generations[index])
    }

    mutating func put(_ stream: ByteStream) { streams[Int(stream.index)] = stream }

    mutating func remove(_ stream: ByteStream) { streams[Int(stream.index)] = nil }

    /// Without a word to their handlers.
    mutating func closeAll() {
        for stream in streams {
            guard let stream else { continue }
            if stream.descriptor >= 0 { System.close(stream.descriptor) }
            stream.descriptor = -1
            stream.session = nil
            stream.state = .closed
            stream.loop = nil
            stream.handler = nil
        }
        streams.removeAll()
        dirty.removeAll()
        ended.removeAll()
    }
}
