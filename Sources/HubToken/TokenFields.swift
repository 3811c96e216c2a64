import HubBase
import HubWire

/// The header or the claims of a token: a JSON object whose fields of interest are found once each (RFC 7519 §4 lets a parser refuse
/// duplicates; RFC 8725 wants no two readings of one token).
struct TokenFields {
    private let bytes: [UInt8]
    private var values: [(key: [UInt8], value: JSONValue)] = []

    /// More fields than any honest token has. Each key is compared with those before it.
    private static let countMax = 64
    private static let depthMax = 16

    /// nil when it isn't one JSON object, is too deep, has too many fields or names one twice.
    init?(_ bytes: [UInt8]) {
        self.bytes = bytes
        guard let found = bytes.withUnsafeBytes({ Self.scan($0) }) else { return nil }
        values = found
    }

    private static func scan(_ raw: UnsafeRawBufferPointer) -> [(key: [UInt8], value: JSONValue)]? {
        var found: [(key: [UInt8], value: JSONValue)] = []
        guard UTF8Check.isValid(raw) else { return nil }
        do throws(WireError) {
            var fields = JSONFields(raw, range: ByteRange(offset: 0, count: raw.count), depthMax: depthMax)
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

    private func value(_ key: StaticString) -> JSONValue? {
        let name = [UInt8](UnsafeBufferPointer(start: key.utf8Start, count: key.utf8CodeUnitCount))
        return values.first { $0.key == name }?.value
    }

    private static func text(_ value: JSONValue, in raw: UnsafeRawBufferPointer) -> [UInt8]? {
        let written = value.range.bytes(in: raw)
        guard value.hasEscapes else { return [UInt8](written) }
        var buffer = ByteBuffer(capacity: written.count)
        return JSONText.unescape(written, into: &buffer) ? buffer.copyBytes() : nil
    }
}
