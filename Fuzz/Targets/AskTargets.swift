import HubBase
import HubCore
import HubWire

/// What a backend may answer, to every kind of question: the first byte says which. It's judged without a trap; what is let through is within the bounds, and
/// a denial has a code that the question can have.
func fuzzAsk(_ bytes: UnsafeRawBufferPointer) throws {
    guard let first = bytes.first else { return }
    let kind = AskKind.allCases[Int(first) % AskKind.allCases.count]
    var rules = AskAnswerReader.Rules()
    rules.isIssuer = first & 0x80 != 0
    rules.payloadBytesMax = 256
    rules.depthMax = 16
    let body = [UInt8](bytes.dropFirst())
    guard case .success(let answer) = AskAnswerReader.read(body, of: kind, rules) else { return }
    try require(answer.weight == body.count, "an answer of another weight than its body")
    switch answer.verdict {
    case .allow(let allowance):
        try require(answer.slip == nil, "an allowance with a slip")
        try require((allowance.payload?.count ?? 0) <= 256, "a payload beyond the bound")
        try require(allowance.payload == nil || kind == .publish, "a payload where nothing is published")
        try require(allowance.channels.count <= AskAnswerReader.channelsMax, "channels beyond the bound")
        if let payload = allowance.payload {
            let isValue = payload.withUnsafeBytes { JSONText.isValue($0, depthMax: 16) }
            try require(isValue, "a payload that isn't JSON")
        }
        if kind == .connect, rules.isIssuer {
            try require(Name(validating: allowance.user.bytes) != nil && allowance.expires != nil, "let in without a name or an end")
        } else {
            let isNobody = allowance.user.isEmpty && allowance.grants == nil && allowance.channels.isEmpty
            try require(isNobody, "an identity from who isn't asked for one")
        }
    case .deny(let error):
        try require(error.message.utf8.count <= AskAnswerReader.reasonBytesMax, "a reason that fits no close frame")
        try require((error.retryAfter != nil) == error.mayRetry, "a time to come back for what never helps, or none")
    }
}
