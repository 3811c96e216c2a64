import HubBase
import HubWire

/// Reads a backend's answer: one JSON object with `allow`, and what goes with it. Fields that it doesn't know are passed over; what it knows must be
/// there once and right. Only a denial counts however wrong the rest is: nobody comes in by a slip of who wanted to keep them out.
///
/// Linear in the body, which the fetcher has bounded.
package struct AskAnswerReader {
    package struct Rules: Sendable {
        /// Whether the backend checks tokens, and so says who somebody is.
        package var isIssuer = false
        /// Of a replaced payload.
        package var payloadBytesMax = 64 * 1024
        package var depthMax = 32

        package init() {}
    }

    private static let fieldsMax = 64
    /// It must fit the reason of a close frame, beside a number.
    package static let reasonBytesMax = 100
    package static let channelsMax = 32
    private static let retryAfterMax: UInt64 = 3_600_000
    private static let retryAfterStandard: UInt64 = 1_000

    private let body: UnsafeRawBufferPointer
    private let kind: AskKind
    private let rules: Rules
    private var allow: JSONValue?
    private var code: JSONValue?
    private var reason: JSONValue?
    private var retryAfter: JSONValue?
    private var ttl: JSONValue?
    private var user: JSONValue?
    private var expires: JSONValue?
    private var caps: JSONValue?
    private var channels: JSONValue?
    private var payload: JSONValue?

    package static func read(_ body: [UInt8], of kind: AskKind, _ rules: Rules) -> Result<AskAnswer, AskFault> {
        body.withUnsafeBytes { bytes in
            do throws(AskFault) {
                var reader = AskAnswerReader(bytes, kind, rules)
                try reader.scan()
                return .success(try reader.answer())
            } catch { return .failure(error) }
        }
    }

    private init(_ body: UnsafeRawBufferPointer, _ kind: AskKind, _ rules: Rules) {
        self.body = body
        self.kind = kind
        self.rules = rules
    }

    private mutating func scan() throws(AskFault) {
        guard body.count < Int(UInt32.max), UTF8Check.isValid(body) else { throw AskFault("the answer isn't UTF-8") }
        var fields = JSONFields(body, range: ByteRange(offset: 0, count: body.count), depthMax: rules.depthMax)
        var count = 0
        do throws(WireError) {
            while let (key, value) = try fields.next() {
                count += 1
                guard count <= Self.fieldsMax, take(key, value) else { break }
            }
        } catch { throw AskFault("the answer isn't a JSON object, or is nested too deeply") }
        // The walk ends at the last field, or it was broken off.
        guard count <= Self.fieldsMax, !isRepeated else { throw AskFault("the answer names a field twice, or has more than 64") }
    }

    private var isRepeated = false

    /// False when the field has come before.
    private mutating func take(_ key: JSONValue, _ value: JSONValue) -> Bool {
        func isNamed(_ name: StaticString) -> Bool {
            JSONText.isEqual(key.range.bytes(in: body), hasEscapes: key.hasEscapes, to: name)
        }
        let place: WritableKeyPath<AskAnswerReader, JSONValue?>
        if isNamed("allow") {
            place = \.allow
        } else if isNamed("code") {
            place = \.code
        } else if isNamed("reason") {
            place = \.reason
        } else if isNamed("retryAfter") {
            place = \.retryAfter
        } else if isNamed("ttl") {
            place = \.ttl
        } else if isNamed("user") {
            place = \.user
        } else if isNamed("expires") {
            place = \.expires
        } else if isNamed("caps") {
            place = \.caps
        } else if isNamed("channels") {
            place = \.channels
        } else if isNamed("payload") {
            place = \.payload
        } else {
            return true
        }
        if self[keyPath: place] != nil { isRepeated = true }
        self[keyPath: place] = value
        return !isRepeated
    }

    private func answer() throws(AskFault) -> AskAnswer {
        guard let allow, allow.kind == .bool else { throw AskFault("allow is missing, or neither true nor false") }
        guard WireValue(allow).isTrue(in: body) else { return denial() }
        var answer = AskAnswer(.allow(try allowance()), weight: body.count)
        answer.ttl = try ttl.map { (value) throws(AskFault) in
            .milliseconds(try number(value, else: "ttl isn't a whole number of milliseconds"))
        }
        // A payload was replaced for this publication alone.
        if payload != nil { answer.ttl = nil }
        return answer
    }

    // MARK: Denials

    private static func codes(_ kind: AskKind) -> [ErrorCode] {
        switch kind {
        case .connect: [.forbidden, .tokenInvalid, .tokenExpired, .tooMany, .rateLimited, .unavailable]
        case .subscribe: [.forbidden, .unknownChannel, .tooMany, .rateLimited, .unavailable]
        case .publish: [.forbidden, .malformed, .tooLarge, .tooMany, .rateLimited, .unavailable]
        }
    }

    private func denial() -> AskAnswer {
        var slip: AskFault?
        var error = WireError(kind == .connect && rules.isIssuer ? .tokenInvalid : .forbidden, "refused by the backend")
        if let code {
            let word = text(code).flatMap { bytes in Self.codes(kind).first { bytes.elementsEqual($0.rawValue.utf8) } }
            if let word {
                error = WireError(word, error.message)
            } else {
                slip = AskFault("code isn't one that this question can have")
            }
        }
        if let reason {
            if let name = WireValue(reason).name(in: body, limit: Self.reasonBytesMax) {
                error.message = "\(name)"
            } else {
                slip = AskFault("reason isn't 1 to 100 bytes without control characters")
            }
        }
        if error.mayRetry { error.retryAfter = Self.retryAfterStandard }
        if let retryAfter {
            if let wait = WireValue(retryAfter).unsigned(in: body) {
                if error.mayRetry { error.retryAfter = min(wait, Self.retryAfterMax) }
            } else {
                slip = AskFault("retryAfter isn't a whole number of milliseconds")
            }
        }
        var kept: Span?
        if let ttl {
            if let milliseconds = WireValue(ttl).unsigned(in: body) {
                kept = .milliseconds(milliseconds)
            } else {
                slip = AskFault("ttl isn't a whole number of milliseconds")
            }
        }
        // Of a token that isn't in the question: the next one may be better.
        if kind == .connect, !rules.isIssuer, [.tokenInvalid, .tokenExpired].contains(error.code) { kept = .zero }
        return AskAnswer(.deny(error), ttl: kept, weight: body.count, slip: slip)
    }

    // MARK: Allowances

    private func allowance() throws(AskFault) -> AskAllowance {
        var allowance = AskAllowance()
        switch kind {
        case .connect:
            allowance.expires = try expires.map { (value) throws(AskFault) in
                try number(value, else: "expires isn't milliseconds since 1970")
            }
            if rules.isIssuer {
                try readIdentity(into: &allowance)
            } else if user != nil || caps != nil || channels != nil {
                // Whoever wrote it thinks that it counts.
                throw AskFault("user, caps and channels count with ask.connect.mode: instead only")
            }
        case .subscribe: break
        case .publish:
            guard let payload else { break }
            guard payload.kind != .null, payload.token.count <= rules.payloadBytesMax else {
                throw AskFault("payload is null, or larger than limits.messageBytes")
            }
            allowance.payload = [UInt8](payload.token.bytes(in: body))
        }
        return allowance
    }

    private func readIdentity(into allowance: inout AskAllowance) throws(AskFault) {
        guard let user, let name = WireValue(user).name(in: body) else {
            throw AskFault("user is missing, or isn't 1 to 255 bytes without control characters")
        }
        guard expires != nil else { throw AskFault("expires is missing: a connection is let in for a time") }
        allowance.user = name
        if let channels {
            let names = elements(channels, atMost: Self.channelsMax)?.map { WireValue($0).name(in: body) } ?? [nil]
            let known = names.compactMap { $0 }
            guard known.count == names.count, Set(known).count == known.count,
                !known.contains(where: { $0.bytes.contains(ChannelPattern.star) })
            else { throw AskFault("channels isn't a list of 32 channel names at most, each once and without *") }
            allowance.channels = known
        }
        guard let caps else { return }
        guard let grants = Grants(patterns: try patterns(caps), channels: allowance.channels) else {
            throw AskFault("caps has too many patterns, or one that isn't one")
        }
        allowance.grants = grants
    }

    private func patterns(_ caps: JSONValue) throws(AskFault) -> [(pattern: [UInt8], permissions: Permissions)] {
        guard caps.kind == .object else { throw AskFault("caps isn't an object of lists") }
        var patterns: [(pattern: [UInt8], permissions: Permissions)] = []
        do throws(WireError) {
            var fields = JSONFields(body, range: caps.range, depthMax: rules.depthMax)
            while let (key, value) = try fields.next() {
                guard patterns.count < Grants.patternsMax, let name = text(key), !patterns.contains(where: { $0.pattern == name }),
                    let permissions = permissions(value)
                else { throw WireError(.malformed, "") }
                patterns.append((name, permissions))
            }
        } catch { throw AskFault("caps isn't an object of lists of rights, with 64 patterns at most, each once") }
        return patterns
    }

    private func permissions(_ value: JSONValue) -> Permissions? {
        guard let words = elements(value, atMost: 16) else { return nil }
        var permissions: Permissions = []
        for word in words {
            guard let text = text(word), let permission = Permissions(word: text) else { return nil }
            permissions.formUnion(permission)
        }
        return permissions
    }

    // MARK: Values

    /// nil when it's no list of so few.
    private func elements(_ value: JSONValue, atMost limit: Int) -> [JSONValue]? {
        guard value.kind == .array else { return nil }
        var found: [JSONValue] = []
        do throws(WireError) {
            var elements = JSONElements(body, range: value.range, depthMax: rules.depthMax)
            while let element = try elements.next() {
                guard found.count < limit else { return nil }
                found.append(element)
            }
        } catch { return nil }
        return found
    }

    private func number(_ value: JSONValue, else fault: StaticString) throws(AskFault) -> UInt64 {
        guard let number = WireValue(value).unsigned(in: body) else { throw AskFault(fault) }
        return number
    }

    private func text(_ value: JSONValue) -> [UInt8]? {
        guard value.kind == .string else { return nil }
        let raw = value.range.bytes(in: body)
        guard value.hasEscapes else { return [UInt8](raw) }
        var buffer = ByteBuffer(capacity: raw.count)
        return JSONText.unescape(raw, into: &buffer) ? buffer.copyBytes() : nil
    }
}
