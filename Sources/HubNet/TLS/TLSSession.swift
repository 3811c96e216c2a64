import COpenSSL
import HubBase

/// One connection's TLS: ciphertext in and out through the loop's scratch, plaintext in and out through calls. It touches no socket and no clock
/// of its own, and nothing that it does can block: the only thing it ever waits for is more input.
///
/// Belongs to the loop whose scratch it was made on.
struct TLSSession: ~Copyable {
    private let ssl: OpaquePointer
    private let scratch: UnsafeMutablePointer<TLSScratch>
    /// The context: OpenSSL's callbacks find it by a pointer.
    private let held: AnyObject
    /// Ciphertext that the socket didn't take. What is encrypted must leave, so there's no thinning here: bounded by `TLSSession.pieceBytes` and
    /// a few alerts.
    private(set) var waiting: UnsafeMutablePointer<HeldBytes>?
    private var isBroken = false
    private var hasSaidGoodbye = false
    /// Records without data in the current minute.
    private var notices: UInt16 = 0
    private var noticesSince: UInt64 = 0
    /// Bytes have come.
    private(set) var hasBegun = false

    /// Plaintext that is encrypted at once at most: four full records. More waits as plaintext, where it can still be thinned.
    static let pieceBytes = 64 * 1024
    /// Key updates and the like that a peer may send in a minute: each costs a derivation of keys. OpenSSL itself ends floods of empty records and
    /// warnings.
    static let noticesMax: UInt16 = 32

    /// The server's side; nil when memory is short.
    init?(_ context: TLSContext, on scratch: UnsafeMutablePointer<TLSScratch>) {
        guard let ssl = context.makeState() else { return nil }
        self.init(ssl, holding: context, on: scratch)
    }

    /// The client's side; nil when memory is short.
    init?(to peer: TLSPeer, on scratch: UnsafeMutablePointer<TLSScratch>) {
        guard let ssl = peer.context.makeState(name: peer.name) else { return nil }
        self.init(ssl, holding: peer.context, on: scratch)
    }

    /// Takes `ssl`.
    private init?(_ ssl: OpaquePointer, holding context: AnyObject, on scratch: UnsafeMutablePointer<TLSScratch>) {
        guard let bio = TLSScratch.makeBIO(on: scratch) else {
            SSL_free(ssl)
            return nil
        }
        // One reference for both directions; the state owns it.
        SSL_set_bio(ssl, bio, bio)
        self.ssl = ssl
        self.scratch = scratch
        held = context
    }

    deinit {
        SSL_free(ssl)
        var rest = waiting
        HeldBytes.free(&rest)
    }

    // MARK: Ciphertext that waits

    var waitingBytes: Int { waiting.map { $0.pointee.count } ?? 0 }
    var waitingMemory: Int { waiting.map { HeldBytes.memory($0) } ?? 0 }

    mutating func keep(_ bytes: UnsafeRawBufferPointer) { HeldBytes.append(&waiting, bytes, limit: .max) }

    /// `length` bytes of it have left.
    mutating func removeWaiting(_ length: Int) {
        guard let held = waiting else { return }
        if length == held.pointee.count { HeldBytes.free(&waiting) } else { HeldBytes.removeFirst(held, length) }
    }

    // MARK: Handshake

    enum Handshake {
        case needMore
        case done(isResumed: Bool)
        /// For people; an alert may be among the output.
        case failed(String)
    }

    mutating func shakeHands() -> Handshake {
        hasBegun = true
        OpenSSLError.clear()
        scratch.pointee.distrust = nil
        let result = SSL_do_handshake(ssl)
        if result == 1 { return .done(isResumed: SSL_session_reused(ssl) == 1) }
        if SSL_get_error(ssl, result) == SSL_ERROR_WANT_READ { return .needMore }
        isBroken = true
        let reason = OpenSSLError.reason
        let words = OpenSSLError.take()
        if let distrust = scratch.pointee.distrust.take() {
            let place = distrust.hasSuffix(TLSAdvice.authority) ? (held as? TLSClientContext)?.authorityPlace : nil
            return .failed(place.map { "\(distrust) (\($0))" } ?? distrust)
        }
        // OpenSSL's words would send people after versions.
        if reason == SSL_R_WRONG_VERSION_NUMBER, SSL_is_server(ssl) == 0 { return .failed("the other end doesn't speak TLS there") }
        return .failed(words)
    }

    /// "TLSv1.3".
    var version: String { String(cString: SSL_get_version(ssl)) }

    // MARK: Data

    enum End {
        /// More may come.
        case none
        /// The peer said that it sends nothing more (close_notify).
        case closed
        case failed(String)
    }

    /// Decrypts all input into the scratch's plaintext buffer; what came before an end counts.
    mutating func decrypt(now: UInt64) -> (count: Int, end: End) {
        var filled = 0
        OpenSSLError.clear()
        while true {
            var count = 0
            let result = SSL_read_ex(ssl, scratch.pointee.plain + filled, TLSScratch.plainBytes - filled, &count)
            if result == 1 {
                filled += count
                precondition(filled < TLSScratch.plainBytes, "more plaintext than its ciphertext can hold")
                continue
            }
            switch SSL_get_error(ssl, result) {
            case SSL_ERROR_WANT_READ:
                if scratch.pointee.input.count == 0 { return (filled, .none) }
                guard allowNotice(now) else {
                    isBroken = true
                    return (filled, .failed("too many TLS records without data"))
                }
            case SSL_ERROR_ZERO_RETURN: return (filled, .closed)
            default:
                isBroken = true
                return (filled, .failed(OpenSSLError.take()))
            }
        }
    }

    private mutating func allowNotice(_ now: UInt64) -> Bool {
        if now &- noticesSince > 60_000_000_000 {
            noticesSince = now
            notices = 0
        }
        notices += 1
        return notices <= Self.noticesMax
    }

    /// Encrypts at most `pieceBytes` into the scratch's output; nil: it failed, and the connection is lost.
    mutating func encrypt(_ bytes: UnsafeRawBufferPointer) -> Int? {
        OpenSSLError.clear()
        let count = min(bytes.count, Self.pieceBytes)
        var written = 0
        // The output takes everything, so that it's all or an error.
        guard !isBroken, SSL_write_ex(ssl, bytes.baseAddress, count, &written) == 1, written == count else {
            isBroken = true
            OpenSSLError.clear()
            return nil
        }
        return written
    }

    /// Says close_notify (RFC 8446 §6.1), once and unless the session has failed.
    mutating func sayGoodbye() {
        guard !hasSaidGoodbye, !isBroken else { return }
        hasSaidGoodbye = true
        OpenSSLError.clear()
        _ = SSL_shutdown(ssl)
        OpenSSLError.clear()
    }
}
