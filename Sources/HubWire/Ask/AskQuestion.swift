import HubBase

/// What a backend is asked: one JSON object, all that its answer may go by (docs/ask.md).
package enum AskQuestion: Sendable {
    /// `user`: of a token that the hub has checked. `token`: what the client showed, where the backend is to check it. One of them is there.
    case connect(user: Name, token: Secret?, device: Name, address: String, isRefresh: Bool)
    case subscribe(user: Name, device: Name, channel: Name)
    case publish(Publication, channel: Name)

    package var kind: AskKind {
        switch self {
        case .connect: .connect
        case .subscribe: .subscribe
        case .publish: .publish
        }
    }

    /// The body of the request.
    package func append(to body: inout ByteBuffer) {
        appendBasis(to: &body)
        guard case .publish(let publication, _) = self else { return }
        body.removeLast(1)
        body.appendField(",\"messageId\":", publication.messageId)
        body.append(",\"payload\":")
        PayloadTranscoder.append(publication.payload, from: publication.payloadFormat, to: .json, into: &body)
        body.append("}")
    }

    /// What an answer that may be kept is kept for. Of a publication that's who publishes what kind where: a backend that lets such an answer be
    /// kept says that it would be the same for any payload.
    package func appendBasis(to body: inout ByteBuffer) {
        body.append("{\"ask\":\"")
        body.append(kind.name)
        body.append("\"")
        switch self {
        case .connect(let user, let token, let device, let address, let isRefresh):
            if let token {
                body.append(",\"token\":\"")
                token.bytes.withUnsafeBytes { JSONText.escape($0, into: &body) }
                body.append("\"")
            } else {
                body.appendField(",\"user\":", user)
            }
            body.appendField(",\"device\":", device)
            if !address.isEmpty { body.appendField(",\"address\":", address) }
            if isRefresh { body.append(",\"refresh\":true") }
        case .subscribe(let user, let device, let channel):
            body.appendField(",\"user\":", user)
            body.appendField(",\"device\":", device)
            body.appendField(",\"channel\":", channel)
        case .publish(let publication, let channel):
            body.appendField(",\"user\":", publication.user)
            body.appendField(",\"device\":", publication.device)
            body.appendField(",\"channel\":", channel)
            body.append(",\"type\":\"")
            body.append(publication.messageClass.name)
            body.append("\"")
        }
        body.append("}")
    }
}
