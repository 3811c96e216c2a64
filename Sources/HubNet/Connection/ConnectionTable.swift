import HubBase

/// The slab of a loop's connections: chunks of raw memory at addresses that never change, by dense, reused indexes.
struct ConnectionTable: ~Copyable {
    static let chunkShift: UInt32 = 10
    static let chunkCount = 1 << Int(chunkShift)
    static let chunksMax = 4096

    /// One pointer a chunk; copied by the fan-out's loop.
    let chunks: UnsafeMutablePointer<UnsafeMutablePointer<Connection>?>
    /// Indexes below this have a slot.
    private(set) var count: UInt32 = 0
    private var free: [UInt32] = []
    private(set) var liveCount = 0

    init() {
        chunks = .allocate(capacity: Self.chunksMax)
        chunks.initialize(repeating: nil, count: Self.chunksMax)
    }

    deinit {
        var index = 0
        while index < Self.chunksMax, let chunk = chunks[index] {
            UnsafeMutableRawPointer(chunk).deallocate()
            index += 1
        }
        chunks.deallocate()
    }

    @inline(__always)
    subscript(_ index: UInt32) -> UnsafeMutablePointer<Connection> {
        // The chunk is there for every index below `count`.
        chunks[Int(index >> Self.chunkShift)].unsafelyUnwrapped + Int(index & UInt32(Self.chunkCount - 1))
    }

    /// The connection of `id`, unless its slot has been reused or was never given out.
    @inline(__always)
    func find(_ id: ConnectionID) -> UnsafeMutablePointer<Connection>? {
        guard id.index < count else { return nil }
        let connection = self[id.index]
        return connection.pointee.generation == id.generation && connection.pointee.phase != .dead ? connection : nil
    }

    /// A slot in the initial state but for its generation; nil when 2^22 are in use.
    mutating func take() -> UInt32? {
        let index: UInt32
        if let reused = free.popLast() {
            index = reused
        } else {
            let chunk = Int(count >> Self.chunkShift)
            guard chunk < Self.chunksMax else { return nil }
            if chunks[chunk] == nil {
                let raw = UnsafeMutableRawPointer.allocate(byteCount: Self.chunkCount * MemoryLayout<Connection>.stride, alignment: 64)
                let memory = raw.bindMemory(to: Connection.self, capacity: Self.chunkCount)
                memory.initialize(repeating: Connection(), count: Self.chunkCount)
                chunks[chunk] = memory
            }
            index = count
            count += 1
        }
        liveCount += 1
        return index
    }

    /// Gives the slot back; from now on its id finds nothing.
    mutating func release(_ index: UInt32) {
        let connection = self[index]
        let generation = connection.pointee.generation &+ 1
        connection.pointee = Connection()
        connection.pointee.generation = generation
        free.append(index)
        liveCount -= 1
    }
}
