import HubBase
import HubRedis
import HubWire

/// A client's envelope: what the scanner calls a request holds only what can be read back.
func fuzzEnvelope(_ bytes: UnsafeRawBufferPointer) {
    guard UTF8Check.isValid(bytes) else { return }
    switch EnvelopeScanner.scan(bytes, depthMax: 32) {
    case .refused(let error, let id):
        require(error.message.utf8.count < 600, "a refusal echoes too much")
        _ = id.bytes(in: bytes)
    case .request(let request):
        for range in [request.id, request.payload, request.channels, request.users, request.since, request.before, request.limit]
        where range.isPresent {
            require(range.count > 0, "a raw value is empty")
            _ = range.bytes(in: bytes)
        }
        var buffer = ByteBuffer(capacity: 64)
        for range in [request.channel, request.messageId, request.device, request.token, request.position] where range.isPresent {
            buffer.removeAll()
            _ = JSONText.unescape(range.bytes(in: bytes), into: &buffer)
            _ = JSONText.name(range.bytes(in: bytes), hasEscapes: request.escapes, limit: 255)
            _ = Position(text: range.bytes(in: bytes))
        }
        if request.payload.isPresent {
            let payload = request.payload.bytes(in: bytes)
            _ = (Payload.isTyping(payload), Payload.readOffset(payload), Payload.status(payload))
        }
        if request.channels.isPresent { walk(bytes, request.channels) }
        if request.users.isPresent { walk(bytes, request.users) }
    }
}

private func walk(_ bytes: UnsafeRawBufferPointer, _ range: ByteRange) {
    var elements = JSONElements(bytes, range: range, depthMax: 32)
    var count = 0
    do throws(WireError) {
        while let element = try elements.next() {
            _ = element.range.bytes(in: bytes)
            count += 1
            require(count <= bytes.count, "an array has more elements than bytes")
        }
    } catch { require(false, "what the scanner accepted can't be walked") }
}

/// A server's envelope, as clients read it.
func fuzzAnswer(_ bytes: UnsafeRawBufferPointer) {
    guard UTF8Check.isValid(bytes) else { return }
    _ = try? ServerEnvelope.scan(bytes, depthMax: 32)
}

/// What lies in Redis as a publication: what decodes, encodes to the same bytes.
func fuzzPublication(_ bytes: UnsafeRawBufferPointer) {
    guard let publication = PublicationCodec.decode(bytes) else { return }
    var buffer = ByteBuffer(capacity: bytes.count)
    PublicationCodec.encode(publication, into: &buffer)
    require(buffer.bytes.elementsEqual(bytes), "a publication has two encodings")
}

/// Redis's replies, whole and byte by byte.
func fuzzReply(_ bytes: UnsafeRawBufferPointer) {
    let whole = replies(bytes, step: max(bytes.count, 1))
    require(whole == replies(bytes, step: 1), "what Redis says depends on how its bytes were cut")
}

private func replies(_ bytes: UnsafeRawBufferPointer, step: Int) -> Int {
    let reader = ReplyReader()
    var found = 0
    var given = 0
    while given < bytes.count {
        let next = min(given + step, bytes.count)
        reader.feed(UnsafeRawBufferPointer(rebasing: bytes[given..<next]))
        given = next
        loop: while true {
            switch reader.next() {
            case .reply: found += 1
            case .incomplete: break loop
            case .failed: return -1 - found
            }
        }
    }
    return found
}
