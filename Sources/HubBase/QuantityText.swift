/// Durations and sizes as people write them: a whole number and a unit, without a space.
package enum QuantityText {
    /// "800ms", "30s", "5m", "1h", "7d"; nil for anything else, a bare number included: it would be read as seconds by one person and as
    /// milliseconds by the next.
    package static func span(_ text: String) -> Span? {
        let units: [(String, UInt64)] = [
            ("ms", 1_000_000), ("s", 1_000_000_000), ("m", 60_000_000_000), ("h", 3_600_000_000_000), ("d", 86_400_000_000_000),
        ]
        return quantity(text, units).map(Span.init(nanoseconds:))
    }

    /// "512B", "64KB", "1MB", "2GB" in steps of 1024, or a bare number of bytes; nil for anything else.
    package static func byteCount(_ text: String) -> Int? {
        let units: [(String, UInt64)] = [("B", 1), ("KB", 1 << 10), ("MB", 1 << 20), ("GB", 1 << 30), ("", 1)]
        return quantity(text, units).flatMap(Int.init(exactly:))
    }

    /// The largest unit that divides the length: 90 s is "90s", 120 s is "2m".
    package static func text(_ span: Span) -> String {
        let nanoseconds = span.nanoseconds
        for (unit, size) in [("d", 86_400_000_000_000), ("h", 3_600_000_000_000), ("m", 60_000_000_000), ("s", 1_000_000_000)]
            as [(String, UInt64)]
        where nanoseconds > 0 && nanoseconds % size == 0 {
            return "\(nanoseconds / size)\(unit)"
        }
        return nanoseconds == 0 ? "0s" : "\(nanoseconds / 1_000_000)ms"
    }

    package static func text(byteCount: Int) -> String {
        for (unit, size) in [("GB", 1 << 30), ("MB", 1 << 20), ("KB", 1 << 10)] where byteCount > 0 && byteCount % size == 0 {
            return "\(byteCount / size)\(unit)"
        }
        return "\(byteCount)B"
    }

    private static func quantity(_ text: String, _ units: [(String, UInt64)]) -> UInt64? {
        let digits = text.utf8.prefix { (0x30...0x39).contains($0) }
        guard !digits.isEmpty, let number = UInt64(String(decoding: digits, as: UTF8.self)) else { return nil }
        let suffix = String(decoding: text.utf8.dropFirst(digits.count), as: UTF8.self)
        guard let unit = units.first(where: { $0.0 == suffix }) else { return nil }
        let (product, overflow) = number.multipliedReportingOverflow(by: unit.1)
        return overflow ? nil : product
    }
}
