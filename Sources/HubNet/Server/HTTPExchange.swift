import HubBase

/// Where a connection is in its current request. It's there while HTTP is spoken, and goes with the upgrade's answer.
struct HTTPExchange {
    enum Stage {
        /// Between requests: nothing of the next one has come.
        case idle
        case head
        /// The head is at the front of the input, and a body of known length follows it there.
        case body(HTTPHead, Int)
        /// The head was put aside; chunks are being collected.
        case chunks(HTTPHead, ChunkedDecoder)
    }

    var stage: Stage = .idle
    var parser = HTTPHeadParser()
    /// With `chunks`: a copy of the head, and what the chunks held. After an upgrade: the answer, while it's put aside (`withhold`).
    var head: UnsafeMutablePointer<HeldBytes>?
    var body: UnsafeMutablePointer<HeldBytes>?
    /// Of the request that waits for its answer.
    var isHead = false
    var keepAlive = true
    /// Where the answer to an upgrade ends in its turn's arena.
    var answerEnd: UInt32 = 0
    /// Header lines for the answer to the request that waits for it, each with its CRLF.
    var lines: [UInt8] = []

    static func make() -> UnsafeMutablePointer<HTTPExchange> {
        let exchange = UnsafeMutablePointer<HTTPExchange>.allocate(capacity: 1)
        exchange.initialize(to: HTTPExchange())
        return exchange
    }

    static func free(_ exchange: inout UnsafeMutablePointer<HTTPExchange>?) {
        guard let memory = exchange else { return }
        HeldBytes.free(&memory.pointee.head)
        HeldBytes.free(&memory.pointee.body)
        memory.deinitialize(count: 1)
        memory.deallocate()
        exchange = nil
    }
}
