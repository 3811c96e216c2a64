import COpenSSL
import HubBase

/// What one loop lends to the TLS session that is being served: the ciphertext that came, the ciphertext to send, and room for plaintext. OpenSSL reads
/// and writes here instead of on the socket, so that a session never blocks, keeps no buffer while it's idle, and costs one `recv` and one `send`
/// a turn however many records that are.
struct TLSScratch: ~Copyable {
    /// What is left of the ciphertext that came.
    private(set) var input = UnsafeRawBufferPointer(start: nil, count: 0)
    /// Ciphertext of the session that is being served; empty between two sessions.
    var output = ByteBuffer(capacity: 80 * 1024)
    let plain: UnsafeMutableRawPointer
    /// Why the certificate of the server that is being spoken to isn't believed; taken by the session whose handshake ends by it.
    var distrust: String?

    /// All that one piece of input can hold, and the record that was begun before it.
    static let plainBytes = LoopState.scratchBytes + 17 * 1024
    private static let outputKept = 256 * 1024

    init() { plain = .allocate(byteCount: Self.plainBytes, alignment: 64) }

    deinit { plain.deallocate() }

    static func make() -> UnsafeMutablePointer<TLSScratch> {
        let scratch = UnsafeMutablePointer<TLSScratch>.allocate(capacity: 1)
        scratch.initialize(to: TLSScratch())
        return scratch
    }

    static func free(_ scratch: UnsafeMutablePointer<TLSScratch>?) {
        guard let scratch else { return }
        scratch.deinitialize(count: 1)
        scratch.deallocate()
    }

    /// Lends ciphertext to the next calls of a session; it's valid until `withdraw`.
    mutating func offer(_ bytes: UnsafeRawBufferPointer) { input = bytes }

    mutating func withdraw() { input = UnsafeRawBufferPointer(start: nil, count: 0) }

    mutating func clearOutput() {
        output.removeAll()
        output.trim(above: Self.outputKept)
    }

    // MARK: OpenSSL's side

    /// A BIO on `scratch`: what is read is the input, what is written the output.
    static func makeBIO(on scratch: UnsafeMutablePointer<TLSScratch>) -> OpaquePointer? {
        guard let bio = BIO_new(method) else { return nil }
        BIO_set_data(bio, scratch)
        BIO_set_init(bio, 1)
        return bio
    }

    /// Made once and never freed; unsafe only because a pointer isn't `Sendable`: OpenSSL reads it, nobody changes it.
    nonisolated(unsafe) private static let method: OpaquePointer? = {
        let method = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "loop")
        BIO_meth_set_read(method) { bio, target, count in
            guard let bio, let target, count > 0, let scratch = TLSScratch.of(bio) else { return -1 }
            BIO_clear_flags(bio, retryFlags)
            let taken = min(Int(count), scratch.pointee.input.count)
            guard taken > 0, let source = scratch.pointee.input.baseAddress else {
                BIO_set_flags(bio, BIO_FLAGS_READ | BIO_FLAGS_SHOULD_RETRY)
                return -1
            }
            UnsafeMutableRawPointer(target).copyMemory(from: source, byteCount: taken)
            scratch.pointee.input = UnsafeRawBufferPointer(rebasing: scratch.pointee.input[taken...])
            return Int32(taken)
        }
        BIO_meth_set_write(method) { bio, source, count in
            guard let bio, let source, count >= 0, let scratch = TLSScratch.of(bio) else { return -1 }
            BIO_clear_flags(bio, retryFlags)
            scratch.pointee.output.append(UnsafeRawBufferPointer(start: source, count: Int(count)))
            return count
        }
        BIO_meth_set_ctrl(method) { _, command, _, _ in command == BIO_CTRL_FLUSH ? 1 : 0 }
        return method
    }()

    /// BIO_FLAGS_RWS is a macro of macros.
    private static let retryFlags = BIO_FLAGS_READ | BIO_FLAGS_WRITE | BIO_FLAGS_IO_SPECIAL | BIO_FLAGS_SHOULD_RETRY

    static func of(_ bio: OpaquePointer) -> UnsafeMutablePointer<TLSScratch>? {
        BIO_get_data(bio)?.assumingMemoryBound(to: TLSScratch.self)
    }
}
