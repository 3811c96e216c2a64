import HubBase

/// `Date` as HTTP writes it: `Sun, 06 Nov 1994 08:49:37 GMT` (RFC 9110 §5.6.7).
enum HTTPDate {
    /// Appends 29 bytes. `seconds` since 1970; held within the years 1970 … 9999.
    static func write(_ seconds: Int64, into out: inout ByteBuffer) {
        let clamped = UInt64(min(max(seconds, 0), 253_402_300_799))
        let days = clamped / 86400
        let time = clamped % 86400
        let names: StaticString = "ThuFriSatSunMonTueWed"
        append(names, at: days % 7, into: &out)
        out.append(", ")

        // Years that begin in March put the leap day last; 400 of them are 146,097 days. Day 0 of this count is 1 March of year 0.
        let shifted = days + 719_468
        let era = shifted / 146_097
        let dayOfEra = shifted % 146_097
        let yearOfEra = (dayOfEra - dayOfEra / 1460 + dayOfEra / 36524 - dayOfEra / 146_096) / 365
        let dayOfYear = dayOfEra - (365 * yearOfEra + yearOfEra / 4 - yearOfEra / 100)
        let marchMonth = (5 * dayOfYear + 2) / 153
        let day = dayOfYear - (153 * marchMonth + 2) / 5 + 1
        let month = (marchMonth + 2) % 12
        let year = era * 400 + yearOfEra + (month < 2 ? 1 : 0)

        append(twoDigits: day, into: &out)
        out.append(UInt8(ascii: " "))
        append("JanFebMarAprMayJunJulAugSepOctNovDec", at: month, into: &out)
        out.append(UInt8(ascii: " "))
        append(twoDigits: year / 100, into: &out)
        append(twoDigits: year % 100, into: &out)
        out.append(UInt8(ascii: " "))
        append(twoDigits: time / 3600, into: &out)
        out.append(UInt8(ascii: ":"))
        append(twoDigits: time / 60 % 60, into: &out)
        out.append(UInt8(ascii: ":"))
        append(twoDigits: time % 60, into: &out)
        out.append(" GMT")
    }

    private static func append(_ names: StaticString, at index: UInt64, into out: inout ByteBuffer) {
        out.append(UnsafeRawBufferPointer(start: names.utf8Start + Int(index) * 3, count: 3))
    }

    private static func append(twoDigits value: UInt64, into out: inout ByteBuffer) {
        out.append(UInt8(truncatingIfNeeded: 0x30 + value / 10 % 10))
        out.append(UInt8(truncatingIfNeeded: 0x30 + value % 10))
    }
}
