import HubBase
import HubCore
import HubWire

/// The header or the claims of a token, or a key of a set: a JSON object whose fields of interest are found once each (RFC 7519 §4 lets a
/// parser refuse duplicates; RFC 8725 wants no two readings of one token).
struct TokenFields {
    private let bytes: [UInt8]
    private var values: [(key: [UInt8], value: JSONValue)] = []

    /// More fields than any honest token has. Each key is compared with those before it.
    private static let countMax = 64
    private static let depthMax = 16

    /// nil when it isn't one JSON object, is too deep, has too many fields or names one twice.
    init?(_ bytes: [UInt8]) {
        self.bytes = bytes
        let whole = ByteRange(offset: 0, count: bytes.count)
        guard let found = bytes.withUnsafeBytes({ UTF8Check.isValid($0) ? Self.scan($0, whole) : nil }) else { return nil }
        values = found
    }

    private static func scan(_ raw: UnsafeRawBufferPointer, _ range: ByteRange) -> [(key: [UInt8], value: JSONValue)]? {
        var found: [(key: [UInt8], value: JSONValue)] = []
        do throws(WireError) {
            var fields = JSONFields(raw, range: range, depthMax: depthMax)
            while let (key, value) = try fields.next() {
                guard let name = text(key, in: raw), found.count < countMax, !found.contains(where: { $0.key == name }) else { return nil }
                found.append((name, value))
            }
        } catch { return nil }
        return found
    }

    func has(_ key: StaticString) -> Bool { value(key) != nil }

    enum Found<Value: Sendable>: Sendable { case absent, wrong, value(Value) }

    /// A string's bytes.
    func text(_ key: StaticString) -> Found<[UInt8]> {
        guard let value = value(key) else { return .absent }
        guard value.kind == .string, let text = bytes.withUnsafeBytes({ Self.text(value, in: $0) }) else { return .wrong }
        return .value(text)
    }

    /// Whole seconds since 1970, as milliseconds. Fractions, exponents, negatives and strings are wrong.
    func time(_ key: StaticString) -> Found<UInt64> {
        guard let value = value(key) else { return .absent }
        guard value.kind == .number, let seconds = bytes.withUnsafeBytes({ JSONText.unsigned(value.range.bytes(in: $0)) }) else {
            return .wrong
        }
        let (milliseconds, overflow) = seconds.multipliedReportingOverflow(by: 1000)
        // Times travel as milliseconds in JSON, where numbers end at 2^53.
        return overflow || milliseconds >= 1 << 53 ? .wrong : .value(milliseconds)
    }

    /// A list of strings, at most `limit`; one string stands for a list of it where `orOne` says so (RFC 7519 §4.1.3).
    func texts(_ key: StaticString, limit: Int, orOne: Bool = false) -> Found<[[UInt8]]> {
        guard let value = value(key) else { return .absent }
        if orOne, case .value(let text) = text(key) { return .value([text]) }
        guard value.kind == .array else { return .wrong }
        let found = bytes.withUnsafeBytes { raw in Self.strings(value, in: raw, limit: limit) }
        return found.map { .value($0) } ?? .wrong
    }

    /// An object's fields, whose values are lists of strings: `caps`.
    func lists(_ key: StaticString, limit: Int) -> Found<[(key: [UInt8], texts: [[UInt8]])]> {
        guard let value = value(key) else { return .absent }
        guard value.kind == .object else { return .wrong }
        let found = bytes.withUnsafeBytes { raw -> [(key: [UInt8], texts: [[UInt8]])]? in
            guard let fields = Self.scan(raw, value.range), fields.count <= limit else { return nil }
            var lists: [(key: [UInt8], texts: [[UInt8]])] = []
            for field in fields {
                guard field.value.kind == .array, let texts = Self.strings(field.value, in: raw, limit: 16) else { return nil }
                lists.append((field.key, texts))
            }
            return lists
        }
        return found.map { .value($0) } ?? .wrong
    }

    /// The objects of a list, each as fields of its own: the keys of a set. nil for an element that isn't one, or isn't well formed; nil when it's no
    /// list of at most `limit` elements.
    func objects(_ key: StaticString, limit: Int) -> [TokenFields?]? {
        guard let value = value(key), value.kind == .array else { return nil }
        let texts = bytes.withUnsafeBytes { raw -> [[UInt8]]? in
            Self.elements(value, in: raw, limit: limit)?.map { [UInt8]($0.range.bytes(in: raw)) }
        }
        return texts?.map { TokenFields($0) }
    }

    private func value(_ key: StaticString) -> JSONValue? {
        let name = UnsafeBufferPointer(start: key.utf8Start, count: key.utf8CodeUnitCount)
        return values.first { $0.key.elementsEqual(name) }?.value
    }

    private static func elements(_ value: JSONValue, in raw: UnsafeRawBufferPointer, limit: Int) -> [JSONValue]? {
        var found: [JSONValue] = []
        do throws(WireError) {
            var elements = JSONElements(raw, range: value.range, depthMax: depthMax)
            while let element = try elements.next() {
                guard found.count < limit else { return nil }
                found.append(element)
            }
        } catch { return nil }
        return found
    }

    private static func strings(_ value: JSONValue, in raw: UnsafeRawBufferPointer, limit: Int) -> [[UInt8]]? {
        guard let elements = elements(value, in: raw, limit: limit) else { return nil }
        let texts = elements.compactMap { $0.kind == .string ? text($0, in: raw) : nil }
        return texts.count == elements.count ? texts : nil
    }

    private static func text(_ value: JSONValue, in raw: UnsafeRawBufferPointer) -> [UInt8]? {
        let written = value.range.bytes(in: raw)
        guard value.hasEscapes else { return [UInt8](written) }
        var buffer = ByteBuffer(capacity: written.count)
        return JSONText.unescape(written, into: &buffer) ? buffer.copyBytes() : nil
    }
}
