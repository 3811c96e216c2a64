/// Figures as people read them: three digits that mean something, and a unit. Without Foundation's formatters, which follow the locale.
package enum ReportNumbers {
    /// "850 ns", "12.3 µs", "1.20 ms", "4.05 s".
    package static func time(_ nanoseconds: UInt64) -> String {
        let value = Double(nanoseconds)
        if nanoseconds < 1000 { return "\(nanoseconds) ns" }
        // What rounds up to a thousand of one unit is one of the next.
        if value < 999_500 { return significant(value / 1e3) + " µs" }
        if value < 999_500_000 { return significant(value / 1e6) + " ms" }
        return significant(value / 1e9) + " s"
    }

    /// "12,345".
    package static func count(_ value: UInt64) -> String { SwarmReport.grouped(value) }

    /// Of one thing a second: "0.25", "12.3", "4,560".
    package static func rate(_ value: Double) -> String {
        guard value.isFinite else { return "–" }
        return value >= 99.95 ? count(UInt64(min(value.rounded(), 1e15))) : significant(max(value, 0))
    }

    /// A share as per cent: "0 %", "0.0123 %", "12.3 %".
    package static func percent(_ share: Double) -> String {
        guard share.isFinite else { return "–" }
        return significant(share * 100) + " %"
    }

    /// "p50", "p99.9".
    package static func percentile(_ percent: Double) -> String { "p" + trimmed(decimal(percent, digits: 4)) }

    /// Three significant digits, no exponent; 0 is "0", below a thousandth "0.0005".
    package static func significant(_ value: Double) -> String {
        guard value.isFinite else { return "–" }
        if value == 0 { return "0" }
        let size = abs(value)
        if size >= 99.95 { return (value < 0 ? "-" : "") + count(UInt64(min(size.rounded(), 1e15))) }
        if size >= 9.995 { return decimal(value, digits: 1) }
        if size >= 0.9995 { return decimal(value, digits: 2) }
        if size >= 0.0995 { return trimmed(decimal(value, digits: 3)) }
        if size >= 0.00995 { return trimmed(decimal(value, digits: 4)) }
        return trimmed(decimal(value, digits: 6))
    }

    /// Fixed digits after the point; rounds half away from zero.
    package static func decimal(_ value: Double, digits: Int) -> String {
        guard value.isFinite, abs(value) < 1e12 else { return "–" }
        var scale = 1.0
        for _ in 0..<digits { scale *= 10 }
        let rounded = Int64((abs(value) * scale).rounded())
        let sign = value < 0 && rounded > 0 ? "-" : ""
        guard digits > 0 else { return sign + String(rounded) }
        let fraction = String(rounded % Int64(scale))
        return sign + "\(rounded / Int64(scale))." + String(repeating: "0", count: digits - fraction.count) + fraction
    }

    private static func trimmed(_ text: String) -> String {
        guard text.contains(".") else { return text }
        var text = text
        while text.hasSuffix("0") { text.removeLast() }
        if text.hasSuffix(".") { text.removeLast() }
        return text
    }

    /// "2026-11-30 21:04:05 UTC", from seconds since 1970 (civil calendar, proleptic Gregorian).
    package static func date(_ seconds: UInt64) -> String {
        let days = Int64(clamping: seconds / 86_400) + 719_468
        let era = days / 146_097
        let dayOfEra = days - era * 146_097
        let yearOfEra = (dayOfEra - dayOfEra / 1460 + dayOfEra / 36_524 - dayOfEra / 146_096) / 365
        let dayOfYear = dayOfEra - (365 * yearOfEra + yearOfEra / 4 - yearOfEra / 100)
        let shifted = (5 * dayOfYear + 2) / 153
        let day = dayOfYear - (153 * shifted + 2) / 5 + 1
        let month = shifted < 10 ? shifted + 3 : shifted - 9
        let year = yearOfEra + era * 400 + (month <= 2 ? 1 : 0)
        func two(_ value: Int64) -> String { value < 10 ? "0\(value)" : "\(value)" }
        let time = Int64(seconds % 86_400)
        return "\(year)-\(two(month))-\(two(day)) \(two(time / 3600)):\(two(time / 60 % 60)):\(two(time % 60)) UTC"
    }

    /// "45 s", "2 min 5 s", "1 h 3 min".
    package static func length(_ seconds: Double) -> String {
        guard seconds.isFinite, seconds >= 0, seconds < 1e9 else { return "–" }
        if seconds < 120 { return trimmed(decimal(seconds, digits: 1)) + " s" }
        let whole = UInt64(seconds.rounded())
        if whole < 7200 { return "\(whole / 60) min" + (whole % 60 > 0 ? " \(whole % 60) s" : "") }
        return "\(whole / 3600) h" + (whole / 60 % 60 > 0 ? " \(whole / 60 % 60) min" : "")
    }
}
