/// What the connection that is being read has brought in this turn. Past its share its further messages wait for the next turn, stored and with
/// reading held back, so that whoever pours messages costs the others no more than a share of them at a time.
struct InputShare {
    /// Frames of one connection in one turn: some 200 µs of work.
    static let framesMax = 64
    /// Bytes that its messages may have, inflated ones as they came out; the message that goes past it is the last one.
    static let bytesMax = 256 * 1024

    var frames = 0
    var bytes = 0

    var isUsedUp: Bool { frames >= Self.framesMax || bytes > Self.bytesMax }

    mutating func take(bytes count: Int) {
        frames += 1
        bytes += count
    }
}
