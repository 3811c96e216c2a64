import HubBase

/// Where the other forms of this turn's frames lie, by the frame's number and the form (deflated with a window, or an event): made when the
/// first connection needs one, then found. Allocates nothing once warm.
struct TwinTable: ~Copyable {
    static let windows = 9...15

    /// For events, then for each window that is in use, ranges by the frame's number; zeros where there's none.
    private let tables: UnsafeMutablePointer<ByteBuffer?>
    private var isEmpty = true
    private static let columns = windows.count + 1

    init() {
        tables = .allocate(capacity: Self.columns)
        for place in 0..<Self.columns { (tables + place).initialize(to: nil) }
    }

    deinit {
        tables.deinitialize(count: Self.columns)
        tables.deallocate()
    }

    private static func column(_ form: WireForm) -> Int {
        form == .events ? 0 : Int(form.windowBits) - windows.lowerBound + 1
    }

    private static let entryBytes = MemoryLayout<ArenaRange>.stride

    func find(_ number: UInt32, _ form: WireForm) -> ArenaRange? {
        let table = tables + Self.column(form)
        let offset = Int(number) * Self.entryBytes
        guard let bytes = table.pointee?.bytes, offset < bytes.count else { return nil }
        let range = bytes.loadUnaligned(fromByteOffset: offset, as: ArenaRange.self)
        return range.end == 0 ? nil : range
    }

    mutating func note(_ range: ArenaRange, _ number: UInt32, _ form: WireForm) {
        let table = tables + Self.column(form)
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
        for place in 0..<Self.columns { tables[place]?.removeAll() }
        isEmpty = true
    }
}
