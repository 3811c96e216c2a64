/// An end in a few words for people.
package enum EndText {
    package static func text(_ end: TransportEnd) -> String {
        switch end {
        case .failed(let why): why
        case .unwelcomed(let span): "no welcome within \(span)"
        case .refused(let status, _): "HTTP \(status)"
        case .closed(nil, _): "closed without a code"
        case .closed(let code?, let reason): reason.isEmpty ? "close \(code)" : "close \(code), \(printable(reason))"
        }
    }

    /// The peer's text, harmless on a terminal.
    private static func printable(_ text: String) -> String {
        String(
            String.UnicodeScalarView(text.unicodeScalars.prefix(123).map { $0.value < 0x20 || (0x7F...0x9F).contains($0.value) ? "?" : $0 })
        )
    }
}
