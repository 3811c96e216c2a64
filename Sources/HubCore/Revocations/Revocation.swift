import HubBase
import HubWire

/// An operator's word against tokens, or against connections. Times are milliseconds since 1970, by the wall clock, as tokens' own times are.
package struct Revocation: Sendable, Hashable {
    package enum Subject: Sendable, Hashable {
        /// All tokens of a user, of those that were issued by then.
        case user(Name)
        /// The token with that `jti`.
        case token(Name)
        /// All tokens that were issued by then.
        case everyone
        /// No token: the connections that a user has by then.
        case connections(Name, mayReturn: Bool)
    }

    package var subject: Subject
    /// "By then": in this millisecond or before it.
    package var before: UInt64
    /// When no token that it speaks of can hold any more.
    package var expires: UInt64

    package init(_ subject: Subject, before: UInt64, expires: UInt64) {
        self.subject = subject
        self.before = before
        self.expires = expires
    }

    /// Tells one from another; the same words make the same id, whichever node says them.
    package var id: Name {
        let hash = payload.withUnsafeBytes { FNV1a.hash($0) }
        return Name(trusted: Array("r\(String(hash, radix: 36))-\(String(before, radix: 36))".utf8))
    }

    // MARK: As a publication

    /// `{"kind":"user","name":"alice","before":…,"expires":…}`
    package var payload: [UInt8] {
        var out = ByteBuffer(capacity: 128)
        func name(_ kind: StaticString, _ name: Name) {
            out.append("{\"kind\":\"")
            out.append(kind)
            out.append("\",\"name\":\"")
            name.bytes.withUnsafeBytes { JSONText.escape($0, into: &out) }
            out.append("\"")
        }
        switch subject {
        case .user(let user): name("user", user)
        case .token(let token): name("token", token)
        case .everyone: out.append("{\"kind\":\"everyone\"")
        case .connections(let user, let mayReturn): name(mayReturn ? "connectionsForNow" : "connections", user)
        }
        out.append(",\"before\":")
        out.append(decimal: before)
        out.append(",\"expires\":")
        out.append(decimal: expires)
        out.append("}")
        return out.copyBytes()
    }

    /// nil for what isn't one: whoever reaches the broker may have written it.
    package init?(payload: [UInt8]) {
        guard payload.count <= 4096, let found = payload.withUnsafeBytes({ Revocation.read($0) }) else { return nil }
        self = found
    }

    private static func read(_ raw: UnsafeRawBufferPointer) -> Revocation? {
        guard UTF8Check.isValid(raw) else { return nil }
        var kind: [UInt8] = []
        var name: Name?
        var before: UInt64?
        var expires: UInt64?
        do throws(WireError) {
            var fields = JSONFields(raw, range: ByteRange(offset: 0, count: raw.count), depthMax: 4)
            while let (key, value) = try fields.next() {
                let text = value.range.bytes(in: raw)
                switch String(decoding: key.range.bytes(in: raw), as: UTF8.self) {
                case "kind" where value.kind == .string: kind = [UInt8](text)
                case "name" where value.kind == .string: name = JSONText.name(text, hasEscapes: value.hasEscapes, limit: Name.lengthMax)
                case "before" where value.kind == .number: before = JSONText.unsigned(text)
                case "expires" where value.kind == .number: expires = JSONText.unsigned(text)
                default: break
                }
            }
        } catch { return nil }
        guard let before, let expires else { return nil }
        let subject: Subject
        switch (String(decoding: kind, as: UTF8.self), name) {
        case ("user", let name?): subject = .user(name)
        case ("token", let name?): subject = .token(name)
        case ("everyone", nil): subject = .everyone
        case ("connections", let name?): subject = .connections(name, mayReturn: false)
        case ("connectionsForNow", let name?): subject = .connections(name, mayReturn: true)
        default: return nil
        }
        return Revocation(subject, before: before, expires: expires)
    }
}
