/// "https://app.example.com": scheme, host and maybe a port, as browsers write an Origin (RFC 6454 §6.2).
enum OriginText {
    static func problem(_ text: String) -> String? {
        let expected = "an origin such as \"https://app.example.com\" or \"http://localhost:3000\", without a path"
        guard let scheme = ["https://", "http://"].first(where: text.hasPrefix) else { return expected }
        let rest = String(text.dropFirst(scheme.count))
        if ListenAddress.isHost(rest) { return nil }
        return ListenAddress.problem(rest) == nil && !rest.hasSuffix(":0") ? nil : expected
    }
}
