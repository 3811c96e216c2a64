import CHiredis
import HubBase

/// Parses replies (RESP2) with hiredis's `redisReader` and our own object functions: each element lands in a flat, reused `Reply` instead
/// of an allocation of its own.
///
/// Whatever Redis, or something that isn't Redis, sends: what waits for its end is bounded by `limits.pendingBytes` before it's taken, the
/// elements of a reply and the depth of arrays by counts. Past a limit the reader fails, and the link with it.
package final class ReplyReader {
    package struct Limits {
        /// Bytes of one reply; also what a reply that isn't complete may hold. A publication of the largest size (16 MB) has room in it.
        package var pendingBytes = 24 << 20
        package var elements = 1 << 18
        package var depth = 4

        package init() {}
    }

    package enum Outcome: Equatable {
        /// `reply` holds the next one, until the following call.
        case reply
        case incomplete
        /// The reader is of no more use until `reset`.
        case failed(String)
    }

    package private(set) var reply = Reply()
    private let limits: Limits
    private var reader: UnsafeMutablePointer<redisReader>
    private let functions: UnsafeMutablePointer<redisReplyObjectFunctions>
    private var failure: String?
    /// Whether `reply` was handed out and may be overwritten.
    private var isHandedOut = false

    package init(limits: Limits = Limits()) {
        self.limits = limits
        functions = .allocate(capacity: 1)
        var made = redisReplyObjectFunctions()
        made.createString = { task, bytes, count in
            ReplyReader.of(task)?.take(task, .string, bytes: UnsafeRawBufferPointer(start: bytes, count: count))
        }
        made.createArray = { task, count in ReplyReader.of(task)?.take(task, .array, value: Int64(count)) }
        made.createInteger = { task, value in ReplyReader.of(task)?.take(task, .integer, value: value) }
        made.createNil = { task in ReplyReader.of(task)?.take(task, .null, value: 0) }
        // Nothing is allocated for an element, so nothing is freed.
        made.freeObject = { _ in }
        functions.initialize(to: made)
        reader = redisReaderCreateWithFunctions(functions)
        install()
    }

    deinit {
        redisReaderFree(reader)
        functions.deallocate()
    }

    private func install() {
        // The reader holds `self` unretained; it's freed in `deinit`, so it never outlives it.
        reader.pointee.privdata = Unmanaged.passUnretained(self).toOpaque()
    }

    /// Forgets all that was fed: for a new connection.
    package func reset() {
        redisReaderFree(reader)
        reader = redisReaderCreateWithFunctions(functions)
        install()
        failure = nil
        isHandedOut = false
        reply.removeAll()
    }

    /// Takes what arrived; ask `next` until it's incomplete. Cost: one copy.
    package func feed(_ bytes: UnsafeRawBufferPointer) {
        guard failure == nil, let base = bytes.baseAddress, bytes.count > 0 else { return }
        let waiting = reader.pointee.len - reader.pointee.pos
        guard waiting + bytes.count <= limits.pendingBytes else {
            failure = "a reply is longer than \(limits.pendingBytes) bytes"
            return
        }
        if redisReaderFeed(reader, base.assumingMemoryBound(to: CChar.self), bytes.count) != REDIS_OK { failure = readerError }
    }

    package func next() -> Outcome {
        if let failure { return .failed(failure) }
        if isHandedOut {
            reply.removeAll()
            isHandedOut = false
        }
        var object: UnsafeMutableRawPointer?
        guard redisReaderGetReply(reader, &object) == REDIS_OK else {
            let text = failure ?? readerError
            failure = text
            return .failed(text)
        }
        guard object != nil else { return .incomplete }
        isHandedOut = true
        return .reply
    }

    private var readerError: String {
        withUnsafeBytes(of: &reader.pointee.errstr) { text in
            String(decoding: text.prefix { $0 != 0 }, as: UTF8.self)
        }
    }

    // MARK: Called by hiredis from within redisReaderGetReply

    private static func of(_ task: UnsafePointer<redisReadTask>?) -> ReplyReader? {
        guard let data = task?.pointee.privdata else { return nil }
        return Unmanaged<ReplyReader>.fromOpaque(data).takeUnretainedValue()
    }

    /// A pointer that isn't nil stands for the element; nil makes the reader fail.
    private func take(
        _ task: UnsafePointer<redisReadTask>?, _ kind: Reply.Kind, bytes: UnsafeRawBufferPointer? = nil, value: Int64 = 0
    ) -> UnsafeMutableRawPointer? {
        guard let task else { return nil }
        var depth = 0
        var parent = task.pointee.parent
        while let above = parent, depth <= limits.depth {
            depth += 1
            parent = above.pointee.parent
        }
        guard depth <= limits.depth else { return refuse("arrays are nested deeper than \(limits.depth)") }
        guard reply.items.count < limits.elements else { return refuse("a reply has more than \(limits.elements) elements") }
        if kind == .array && value > Int64(limits.elements) { return refuse("an array of \(value) elements") }
        var item = Reply.Item(kind: kind, depth: UInt8(truncatingIfNeeded: depth), offset: 0, value: value)
        if let bytes {
            switch task.pointee.type {
            case REDIS_REPLY_STATUS: item.kind = .status
            case REDIS_REPLY_ERROR: item.kind = .error
            default: break
            }
            item.offset = UInt32(truncatingIfNeeded: reply.bytes.count)
            item.value = Int64(bytes.count)
            reply.bytes.append(bytes)
        }
        reply.items.append(item)
        return task.pointee.privdata
    }

    private func refuse(_ text: String) -> UnsafeMutableRawPointer? {
        failure = text
        return nil
    }
}
