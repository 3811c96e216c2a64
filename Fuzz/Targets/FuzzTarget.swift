/// What fuzzing feeds with bytes: one parser of what comes from outside each, and checks that must hold for every input. A library, so that the
/// tests replay the corpora without a fuzzer (`Tests/FuzzTests`).
///
/// A target takes any bytes. It fails by trapping in the code under test, or by throwing when two ways to the same answer don't agree.
package enum FuzzTarget: String, CaseIterable, Sendable {
    case head, chunked, frames, handshake, proxy, inflate, envelope, packed, short, payload, answer, publication, reply, page, snapshot
    case events, control, trail, members, hooks, token, claims, pattern, keySet, ask

    package func run(_ bytes: UnsafeRawBufferPointer) throws {
        switch self {
        case .head: try fuzzHead(bytes)
        case .chunked: try fuzzChunked(bytes)
        case .frames: try fuzzFrames(bytes)
        case .handshake: fuzzHandshake(bytes)
        case .proxy: try fuzzProxy(bytes)
        case .inflate: try fuzzInflate(bytes)
        case .envelope: try fuzzEnvelope(bytes)
        case .packed: try fuzzPacked(bytes)
        case .short: try fuzzShort(bytes)
        case .payload: try fuzzPayload(bytes)
        case .answer: fuzzAnswer(bytes)
        case .publication: try fuzzPublication(bytes)
        case .reply: try fuzzReply(bytes)
        case .page: try fuzzPage(bytes)
        case .snapshot: try fuzzSnapshot(bytes)
        case .events: try fuzzEvents(bytes)
        case .control: try fuzzControl(bytes)
        case .token: try fuzzToken(bytes)
        case .claims: try fuzzClaims(bytes)
        case .pattern: try fuzzPattern(bytes)
        case .keySet: try fuzzKeySet(bytes)
        case .trail: try fuzzTrail(bytes)
        case .ask: try fuzzAsk(bytes)
        case .members: try fuzzMembers(bytes)
        case .hooks: try fuzzHooks(bytes)
        }
    }
}

/// What didn't hold.
package struct FuzzFault: Error, CustomStringConvertible {
    package let description: String
}

/// What must hold for every input.
func require(_ condition: Bool, _ what: StaticString) throws(FuzzFault) {
    guard condition else { throw FuzzFault(description: "\(what)") }
}
