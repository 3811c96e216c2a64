import HubBase
import HubWire

/// The outermost fields of one JSON object of an answer, by name: cold, so copies are fine.
package struct JSONObject: Sendable {
    package struct Value: Sendable, Equatable {
        package var kind: WireKind
        /// The whole token; a string without its quotes, still escaped.
        package var raw: [UInt8]
        package var hasEscapes: Bool

        package init(kind: WireKind, raw: [UInt8], hasEscapes: Bool) {
            self.kind = kind
            self.raw = raw
            self.hasEscapes = hasEscapes
        }
    }

    package private(set) var fields: [(key: String, value: Value)] = []
    /// The object as it came.
    package let raw: [UInt8]

    /// nil for anything but an object. Of a repeated field the first counts.
    package init?(_ text: [UInt8]) {
        let read = text.withUnsafeBytes { bytes -> [(String, Value)]? in
            var found: [(String, Value)] = []
            var fields = JSONFields(bytes, range: ByteRange(offset: 0, count: bytes.count), depthMax: 64)
            do throws(WireError) {
                while let (key, value) = try fields.next() {
                    let name = Value(kind: .string, raw: [UInt8](key.range.bytes(in: bytes)), hasEscapes: key.hasEscapes)
                    let content = Value(kind: value.kind, raw: [UInt8](value.range.bytes(in: bytes)), hasEscapes: value.hasEscapes)
                    found.append((name.text ?? "", content))
                }
            } catch {
                return nil
            }
            return found
        }
        guard let read else { return nil }
        fields = read
        raw = text
    }

    package subscript(_ key: String) -> Value? { fields.first { $0.key == key }?.value }

    package func text(_ key: String) -> String? { self[key]?.text }
    package func number(_ key: String) -> UInt64? { self[key]?.number }
    package func isTrue(_ key: String) -> Bool { self[key]?.raw == Array("true".utf8) }
    package func objects(_ key: String) -> [JSONObject]? { self[key]?.objects }
}

extension JSONObject.Value {
    package var text: String? {
        guard kind == .string else { return nil }
        var buffer = ByteBuffer(capacity: raw.count)
        guard raw.withUnsafeBytes({ JSONText.unescape($0, into: &buffer) }) else { return nil }
        return String(decoding: buffer.bytes, as: UTF8.self)
    }

    package var number: UInt64? { kind == .number ? raw.withUnsafeBytes { JSONText.unsigned($0) } : nil }

    /// The objects of an array; others in it are left out.
    package var objects: [JSONObject]? {
        guard kind == .array else { return nil }
        return raw.withUnsafeBytes { bytes -> [JSONObject]? in
            var found: [JSONObject] = []
            var elements = JSONElements(bytes, range: ByteRange(offset: 0, count: bytes.count), depthMax: 64)
            do throws(WireError) {
                while let element = try elements.next() {
                    if let object = JSONObject([UInt8](element.range.bytes(in: bytes))) { found.append(object) }
                }
            } catch {
                return nil
            }
            return found
        }
    }

    /// The texts of an array, for people: "connect, publish". All else as `shown`.
    package var list: String {
        guard kind == .array else { return shown }
        var words: [String] = []
        let isWhole = raw.withUnsafeBytes { bytes -> Bool in
            var elements = JSONElements(bytes, range: ByteRange(offset: 0, count: bytes.count), depthMax: 64)
            do throws(WireError) {
                while let element = try elements.next() {
                    let value = JSONObject.Value(
                        kind: element.kind, raw: [UInt8](element.range.bytes(in: bytes)), hasEscapes: element.hasEscapes)
                    words.append(value.shown)
                }
                return true
            } catch { return false }
        }
        return isWhole ? words.joined(separator: ", ") : shown
    }

    /// For people: a string without quotes, all else as it stands.
    package var shown: String { Terminal.safe(text ?? String(decoding: raw, as: UTF8.self)) }
}
