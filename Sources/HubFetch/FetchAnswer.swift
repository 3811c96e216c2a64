import CCurl
import HubBase

/// What came back. A redirect (3xx) is an answer like any other: none is followed.
package struct FetchAnswer: Sendable, Equatable {
    package var status: Int
    /// The final head's fields, in order, names in lower case.
    package var fields: [Field]
    package var body: [UInt8]

    package struct Field: Sendable, Equatable {
        package var name: String
        package var value: String

        package init(name: String, value: String) {
            self.name = name
            self.value = value
        }
    }

    package init(status: Int, fields: [Field] = [], body: [UInt8] = []) {
        self.status = status
        self.fields = fields
        self.body = body
    }

    /// The first field of that name (in lower case).
    package func field(_ name: String) -> String? { fields.first { $0.name == name }?.value }

    /// `Retry-After` (RFC 9110 §10.2.3): seconds, or a date, which is taken against the answer's own `Date`, so that no clock of ours counts.
    /// nil when there's none, or none that makes sense; a year at most.
    package var retryAfter: Span? {
        guard let text = field("retry-after") else { return nil }
        let year: UInt64 = 366 * 86_400
        if !text.isEmpty, text.utf8.allSatisfy({ (0x30...0x39).contains($0) }) {
            return .seconds(min(UInt64(text) ?? year, year))
        }
        guard let date = field("date"), let then = Self.seconds(text), let now = Self.seconds(date) else { return nil }
        return .seconds(then > now ? min(UInt64(then - now), year) : 0)
    }

    /// How long the answer may be kept, by `Cache-Control` (RFC 9111 §5.2.2): nil where it says nothing; zero for no-store and no-cache.
    package var maxAge: Span? {
        var age: Span?
        for field in fields where field.name == "cache-control" {
            for part in field.value.split(separator: ",") {
                let word = part.lowercased().filter { $0 != " " && $0 != "\t" && $0 != "\"" }
                if word == "no-store" || word == "no-cache" { return .zero }
                if word.hasPrefix("max-age="), age == nil, let seconds = UInt64(word.dropFirst(8)) { age = .seconds(seconds) }
            }
        }
        return age
    }

    private static func seconds(_ date: String) -> Int64? {
        let seconds = curl_getdate(date, nil)
        return seconds >= 0 ? Int64(seconds) : nil
    }
}
