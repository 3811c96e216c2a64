import HubBase

/// What a loop compresses and decompresses with: zlib's state, shared by all its connections and made when it's first needed, and the memory
/// that it works in. An idle connection owns none of it.
struct Compression: ~Copyable {
    /// This turn's frames in other forms, one right behind the other.
    var arena = ByteBuffer(capacity: 16)
    var twins = TwinTable()
    /// The message that is being looked at.
    var inflated = ByteBuffer(capacity: 16)

    private let level: Int
    private let deflaters: UnsafeMutablePointer<Deflater?>
    private var inflater: Inflater?
    /// Of connections that own some, by their index.
    private var contexts: [UInt32: UnsafeMutablePointer<Contexts>] = [:]

    /// Memory above this is given back when a turn, or a message, is over.
    private static let arenaKept = 4 * 1024 * 1024
    private static let inflatedKept = 256 * 1024

    init(level: Int) {
        self.level = level
        deflaters = .allocate(capacity: TwinTable.windows.count)
        for place in 0..<TwinTable.windows.count { (deflaters + place).initialize(to: nil) }
    }

    deinit {
        deflaters.deinitialize(count: TwinTable.windows.count)
        deflaters.deallocate()
        for owned in contexts.values {
            owned.deinitialize(count: 1)
            owned.deallocate()
        }
    }

    // MARK: Out

    /// Appends the deflated frame of a plain, unmasked one; nil when it would be no shorter, or when there's no memory to find out.
    mutating func deflate(_ frame: UnsafeRawBufferPointer, windowBits: UInt8) -> ArenaRange? {
        let deflater = deflaters + (Int(windowBits) - TwinTable.windows.lowerBound)
        if deflater.pointee == nil {
            deflater.pointee = Deflater(level: level, windowBits: windowBits)
        }
        guard deflater.pointee != nil else { return nil }
        return DeflatedFrame.append(frame, into: &arena) { payload, out in
            let count = deflater.pointee?.deflate(payload, into: &out)
            deflater.pointee?.reset()
            return count ?? nil
        }
    }

    /// The same with the connection's own context, which goes on.
    mutating func deflate(_ frame: UnsafeRawBufferPointer, owner: UInt32) -> ArenaRange? {
        guard let owned = contexts[owner] else { return nil }
        return DeflatedFrame.append(frame, into: &arena) { payload, out in owned.pointee.deflater?.deflate(payload, into: &out) ?? nil }
    }

    mutating func endTurn() {
        twins.removeAll()
        guard arena.count > 0 else { return }
        arena.removeAll()
        arena.trim(above: Self.arenaKept)
    }

    // MARK: In

    /// Inflates a message into `inflated`; nil: there's no memory for it. `owner`: of a context, where it's not the loop's.
    mutating func inflate(_ payload: UnsafeRawBufferPointer, limit: Int, owner: UInt32?) -> Inflater.Outcome? {
        inflated.removeAll()
        if let owner {
            return contexts[owner]?.pointee.inflater?.inflate(payload, limit: limit, into: &inflated)
        }
        if inflater == nil { inflater = Inflater(windowBits: 15) }
        let outcome = inflater?.inflate(payload, limit: limit, into: &inflated)
        inflater?.reset()
        return outcome
    }

    /// The message has been looked at.
    mutating func endMessage() {
        inflated.removeAll()
        inflated.trim(above: Self.inflatedKept)
    }

    // MARK: Contexts

    /// False when there's no memory for them.
    mutating func own(_ agreement: DeflateAgreement, _ index: UInt32, bytes: Int) -> Bool {
        let deflater = agreement.serverTakesOver ? Deflater(level: level, windowBits: agreement.serverWindowBits) : nil
        let inflater = agreement.clientTakesOver ? Inflater(windowBits: agreement.clientWindowBits) : nil
        if agreement.serverTakesOver && deflater == nil { return false }
        if agreement.clientTakesOver && inflater == nil { return false }
        let owned = UnsafeMutablePointer<Contexts>.allocate(capacity: 1)
        owned.initialize(to: Contexts(deflater: deflater, inflater: inflater, bytes: bytes))
        contexts[index] = owned
        return true
    }

    /// Returns how many bytes are to be given back.
    mutating func disown(_ index: UInt32) -> Int {
        guard let owned = contexts.removeValue(forKey: index) else { return 0 }
        let bytes = owned.pointee.bytes
        owned.deinitialize(count: 1)
        owned.deallocate()
        return bytes
    }
}
