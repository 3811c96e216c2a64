import HubBase

/// An outgoing byte stream on a loop, plain or over TLS: what Redis links are made of. What's written in a turn leaves in one system call at its
/// end.
///
/// Belongs to its loop's thread. The handler isn't retained: should it go while the stream is open, the stream closes by itself.
package final class ByteStream {
    package enum State: Sendable {
        /// Also while TLS shakes hands.
        case connecting
        case open, closed
    }

    package internal(set) var state: State = .connecting

    /// Cleared by `close`; nothing that is called from a callback finds a stream half closed.
    unowned(unsafe) var loop: NetLoop?
    weak var handler: (any StreamHandler)?
    package let address: SocketAddress
    let index: UInt32
    let generation: UInt32
    var descriptor: Int32 = -1
    var deadline: TimerID?
    var outbound = ByteBuffer(capacity: 512)
    /// Of `outbound`: has left already.
    var sent = 0
    var isDirty = false
    var isBlocked = false
    /// With TLS: whom it's to, and from the TCP connect on what encrypts.
    let peer: TLSPeer?
    var session: TLSSession?
    /// Why it ended, until the handler has been told.
    var ended: NetError?

    init(_ loop: NetLoop, address: SocketAddress, peer: TLSPeer?, handler: any StreamHandler, index: UInt32, generation: UInt32) {
        self.loop = loop
        self.handler = handler
        self.address = address
        self.peer = peer
        self.index = index
        self.generation = generation
    }

    /// Appends to the outbound queue; while connecting too. Ignored once closed.
    package func write(_ bytes: UnsafeRawBufferPointer) {
        guard state != .closed, bytes.count > 0, let loop else { return }
        outbound.append(bytes)
        if state == .open && !isDirty && !isBlocked { loop.markDirty(self) }
    }

    /// As `write`, encoded in place.
    package func write(_ body: (inout ByteBuffer) -> Void) {
        guard state != .closed, let loop else { return }
        body(&outbound)
        if state == .open && !isDirty && !isBlocked && outbound.count > sent { loop.markDirty(self) }
    }

    /// Bytes that wait to leave: the owner's bound for pipelining.
    package var queuedBytes: Int { outbound.count - sent + (session?.waitingBytes ?? 0) }

    /// No call to the handler follows.
    package func close() {
        ended = nil
        guard let loop else { return }
        loop.closeStream(self)
    }
}
