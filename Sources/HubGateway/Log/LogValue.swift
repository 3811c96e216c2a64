import HubBase

/// What a log line can say of something. The forms of secrets say nothing.
package protocol LogValue: Sendable {
    /// How both formats write it.
    var logForm: LogForm { get }
}

package enum LogForm: Sendable, Equatable {
    case text(String)
    case number(Int64)
    case boolean(Bool)
}

extension String: LogValue {
    package var logForm: LogForm { .text(self) }
}

extension Int: LogValue {
    package var logForm: LogForm { .number(Int64(self)) }
}

extension Int32: LogValue {
    package var logForm: LogForm { .number(Int64(self)) }
}

extension UInt64: LogValue {
    /// Beyond 2^63 − 1 as text: no number of ours is that large, a peer's may be.
    package var logForm: LogForm { Int64(exactly: self).map { .number($0) } ?? .text("\(self)") }
}

extension Bool: LogValue {
    package var logForm: LogForm { .boolean(self) }
}

extension Span: LogValue {
    package var logForm: LogForm { .text(description) }
}

extension Name: LogValue {
    package var logForm: LogForm { .text(description) }
}

extension Secret: LogValue {
    package var logForm: LogForm { .text(description) }
}

extension Array: LogValue where Element == String {
    package var logForm: LogForm { .text(joined(separator: ", ")) }
}
