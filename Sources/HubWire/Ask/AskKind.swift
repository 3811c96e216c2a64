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
}
