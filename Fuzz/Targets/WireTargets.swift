import HubBase
import HubRedis
import HubWire

/// A client's envelope: what the scanner calls a request holds only what can be read back.
func fuzzEnvelope(_ bytes: UnsafeRawBufferPointer) throws {
    guard UTF8Check.isValid(bytes) else { return }
    try fuzzEnvelope(bytes, .json)
}

/// The same as MessagePack, which comes with its UTF-8 unchecked.
func fuzzPacked(_ bytes: UnsafeRawBufferPointer) throws { try fuzzEnvelope(bytes, .messagePack) }

/// The same with numbers for names: what it says with names instead is the same request, or refused for the same reason.
func fuzzShort(_ bytes: UnsafeRawBufferPointer) throws {
    try fuzzEnvelope(bytes, .short)
    guard let named = ShortTwin.named(bytes) else {
        guard case .refused(let error, _) = EnvelopeScanner.scan(bytes, format: .short, depthMax: 32) else {
            throw FuzzFault(description: "what isn't MessagePack is taken as a request")
        }
        return try require(error.code == .malformed || error.code == .tooDeep, "what isn't MessagePack is refused as something else")
    }
    let short = ShortTwin.Reading(bytes, .short)
    let other = named.withUnsafeBytes { ShortTwin.Reading($0, .messagePack) }
    try require(short == other, "the short form means something else than its names")
}

private func fuzzEnvelope(_ bytes: UnsafeRawBufferPointer, _ format: WireFormat) throws {
    switch EnvelopeScanner.scan(bytes, format: format, depthMax: 32) {
    case .refused(let error, let id):
        try require(error.message.utf8.count < 600, "a refusal echoes too much")
        _ = id.bytes(in: bytes)
    case .request(let request):
        for range in [request.id, request.payload, request.channels, request.users, request.since, request.before, request.limit]
        where range.isPresent {
            try require(range.count > 0, "a raw value is empty")
            // The short form's lists are walked below: their maps may have numbers for names.
            let isWalked = format == .short && (range == request.channels || range == request.users)
            try require(isWalked || isValue(range.bytes(in: bytes), format.payload), "a raw value isn't whole")
        }
        var buffer = ByteBuffer(capacity: 64)
        for range in [request.channel, request.messageId, request.device, request.token, request.position] where range.isPresent {
            buffer.removeAll()
            _ = request.text(range, in: bytes, into: &buffer)
            _ = request.name(range, in: bytes)
            _ = Position(text: range.bytes(in: bytes))
        }
        if request.payload.isPresent {
            let payload = request.payload.bytes(in: bytes)
            _ = (
                Payload.isTyping(payload, format: format.payload), Payload.readOffset(payload, format: format.payload),
                Payload.status(payload, format: format.payload)
            )
        }
        if request.channels.isPresent { try walk(bytes, request.channels, format) }
        if request.users.isPresent { try walk(bytes, request.users, format) }
    }
}

private func isValue(_ bytes: UnsafeRawBufferPointer, _ format: PayloadFormat) -> Bool {
    format == .json ? JSONText.isValue(bytes, depthMax: 64) : MessagePack.isValue(bytes, depthMax: 64)
}

private func walk(_ bytes: UnsafeRawBufferPointer, _ range: ByteRange, _ format: WireFormat) throws {
    var elements = WireElements(bytes, range: range, format: format, depthMax: 32)
    var count = 0
    do throws(WireError) {
        while let element = try elements.next(), count <= bytes.count {
            _ = element.range.bytes(in: bytes)
            _ = element.name(in: bytes)
            count += 1
        }
    } catch { try require(false, "what the scanner accepted can't be walked") }
    try require(count <= bytes.count, "an array has more elements than bytes")
}

/// A payload for those who speak the other format: what is a value can be rewritten, into a value, and nothing else can. The first byte
/// chooses the format.
func fuzzPayload(_ bytes: UnsafeRawBufferPointer) throws {
    guard let first = bytes.first else { return }
    let payload = UnsafeRawBufferPointer(rebasing: bytes.dropFirst())
    let from: PayloadFormat = first & 1 == 0 ? .json : .messagePack
    let to: PayloadFormat = from == .json ? .messagePack : .json
    if from == .json, !UTF8Check.isValid(payload) { return }
    var buffer = ByteBuffer(capacity: 64)
    let isRewritten = PayloadTranscoder.rewrite(payload, from: from, to: to, into: &buffer)
    try require(isRewritten == isValue(payload, from), "a value can't be rewritten, or something else can")
    guard isRewritten else { return }
    try require(buffer.count <= payload.count * 6 + 8, "a payload grew more than is said")
    if to == .json {
        try require(isValue(buffer.bytes, .json) && UTF8Check.isValid(buffer.bytes), "what was rewritten isn't JSON")
    }
    // The other way again: only numbers that no double holds don't come back.
    var back = ByteBuffer(capacity: 64)
    let isBack = PayloadTranscoder.rewrite(buffer.bytes, from: to, to: from, into: &back)
    try require(isBack || from == .json, "what was rewritten can't be read")
}

/// A server's envelope, as clients read it.
func fuzzAnswer(_ bytes: UnsafeRawBufferPointer) {
    guard UTF8Check.isValid(bytes) else { return }
    _ = try? ServerEnvelope.scan(bytes, depthMax: 32)
}

/// What lies in Redis as a publication: what decodes, encodes to the same bytes.
func fuzzPublication(_ bytes: UnsafeRawBufferPointer) throws {
    guard let publication = PublicationCodec.decode(bytes) else { return }
    var buffer = ByteBuffer(capacity: bytes.count)
    PublicationCodec.encode(publication, into: &buffer)
    try require(buffer.bytes.elementsEqual(bytes), "a publication has two encodings")
}

/// Redis's replies, whole and byte by byte.
func fuzzReply(_ bytes: UnsafeRawBufferPointer) throws {
    let whole = try replies(bytes, step: max(bytes.count, 1))
    try require(whole == (try replies(bytes, step: 1)), "what Redis says depends on how its bytes were cut")
}

private func replies(_ bytes: UnsafeRawBufferPointer, step: Int) throws -> Int {
    let reader = ReplyReader()
    var found = 0
    var given = 0
    while given < bytes.count {
        let next = min(given + step, bytes.count)
        reader.feed(UnsafeRawBufferPointer(rebasing: bytes[given..<next]))
        given = next
        loop: while true {
            switch reader.next() {
            case .reply:
                found += 1
                try readTopology(reader.reply)
            case .incomplete: break loop
            case .failed: return -1 - found
            }
        }
    }
    return found
}

private let lanes = KeySpace(prefix: "hub")?.slots ?? []

/// What cluster nodes and sentinels say about others is read as it comes.
private func readTopology(_ reply: borrowing Reply) throws {
    let asked = RedisURL.Place.host("h", port: 1)
    if let slots = ClusterSlots(reply, slots: lanes, asked: asked) { try require(slots.owners.count == Lane.count, "a lane is missing") }
    _ = SentinelView.Word(reply, asked: asked)
    guard let text = reply.string(0) else { return }
    _ = ClusterFacts(text)
    if case .moved(let slot, _)? = Redirect(text, asked: asked) { try require((0..<Slot.count).contains(slot), "no such slot") }
}
