import HubBase

/// Where the deflated forms of this turn's frames lie, by the frame's number and the window: made when the first connection needs one, then
/// found. Allocates nothing once warm.
struct TwinTable: ~Copyable {
    static let windows = 9...15

    /// For each window that is in use, ranges by the frame's number; zeros where there's none.
    private let tables: UnsafeMutablePointer<ByteBuffer?>
    private var isEmpty = true

    init() {
        tables = .allocate(capacity: Self.windows.count)
        for place in 0..<Self.windows.count { (tables + place).initialize(to: nil) }
    }

    deinit {
        tables.deinitialize(count: Self.windows.count)
        tables.deallocate()
    }

    private static let entryBytes = MemoryLayout<ArenaRange>.stride

    func find(_ number: UInt32, windowBits: UInt8) -> ArenaRange? {
        let table = tables + (Int(windowBits) - Self.windows.lowerBound)
        let offset = Int(number) * Self.entryBytes
        guard let bytes = table.pointee?.bytes, offset < bytes.count else { return nil }
        let range = bytes.loadUnaligned(fromByteOffset: offset, as: ArenaRange.self)
        return range.end == 0 ? nil : range
    }

    mutating func note(_ range: ArenaRange, _ number: UInt32, windowBits: UInt8) {
        let table = tables + (Int(windowBits) - Self.windows.lowerBound)
        isEmpty = false
        var buffer = table.pointee.take() ?? ByteBuffer(capacity: 64 * Self.entryBytes)
        let offset = Int(number) * Self.entryBytes
        let missing = offset + Self.entryBytes - buffer.count
        if missing > 0 {
            buffer.reserve(missing).initializeMemory(as: UInt8.self, repeating: 0, count: missing)
            buffer.advance(by: missing)
        }
        (buffer.base + offset).storeBytes(of: range, as: ArenaRange.self)
        table.pointee = consume buffer
    }

    mutating func removeAll() {
        if isEmpty { return }
        for place in 0..<Self.windows.count { tables[place]?.removeAll() }
        isEmpty = true
    }
}
