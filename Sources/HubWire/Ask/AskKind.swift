/// What a backend may be asked about (docs/ask.md).
package enum AskKind: Int, Sendable, CaseIterable {
    case connect, subscribe, publish

    package var name: StaticString {
        switch self {
        case .connect: "connect"
        case .subscribe: "subscribe"
        case .publish: "publish"
        }
    }

    /// In what nodes tell each other.
    package var letter: UInt8 {
        switch self {
        case .connect: UInt8(ascii: "c")
        case .subscribe: UInt8(ascii: "s")
        case .publish: UInt8(ascii: "p")
        }
    }
}
