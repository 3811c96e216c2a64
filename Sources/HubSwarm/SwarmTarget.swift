import HubBase
import HubClient

/// Where a swarm goes and how it speaks there, as flags say it. Pure: secrets are read elsewhere, only their places are here.
package struct SwarmTarget: Sendable, Equatable {
    package enum Format: String, Sendable, CaseIterable { case json, msgpack, short }

    package enum KeySource: Sendable, Equatable {
        case environment(String)
        case file(String)
    }

    package var urls: [HubURL]
    /// nil: a hub in development mode, which takes names from the URL.
    package var key: KeySource?
    package var kid: String?
    /// A PEM file of certificates to believe over TLS; nil: the system's.
    package var authorities: String?
    /// Believes anybody.
    package var isInsecure = false
    package var format = Format.json
    package var offersDeflate = false
    /// Local addresses to connect from, in turn: "127.0.0.2".
    package var sources: [String] = []

    package static let sourcesMax = 1_000

    /// The hubs, and how to be let in there.
    package static let placeFlags: [CommandLineParser.Flag] = [
        CommandLineParser.Flag(
            "url", value: "URL", isRepeatable: true,
            help: "Hub or load balancer; several: repeat, or commas (default: HUB_URL, else http://127.0.0.1:8080)."),
        CommandLineParser.Flag(
            "token-key-env", value: "VARIABLE",
            help: "Mint a token for each bot with this HS256 secret (default: none, for a hub in --dev)."),
        CommandLineParser.Flag("token-key-file", value: "FILE", help: "The same, with the secret in a file."),
        CommandLineParser.Flag("kid", value: "KID", help: "Which of the hub's keys the secret is."),
        CommandLineParser.Flag(
            "ca", value: "FILE",
            help: "Over TLS, believe whom these certificates (PEM) vouch for (default: SSL_CERT_FILE, else the system's)."),
        CommandLineParser.Flag("insecure", help: "Over TLS, believe anybody: for tests only."),
    ]
    /// How the bots speak, and from where.
    package static let speechFlags: [CommandLineParser.Flag] = [
        CommandLineParser.Flag(
            "format", value: "FORMAT", help: "What the bots speak: json, msgpack, or short (hub.v1.msgpack.short); default json."),
        CommandLineParser.Flag("deflate", help: "Offer permessage-deflate."),
        CommandLineParser.Flag(
            "source-addresses", value: "LIST", isRepeatable: true,
            help: "Connect from these addresses in turn, each with ports of its own: 127.0.0.2, or 127.0.0.2-127.0.0.9."),
    ]

    package static let flags = placeFlags + speechFlags

    /// `defaultURL` counts when no flag names one.
    package init(_ arguments: CommandLineArguments, defaultURL: String) throws(CommandLineError) {
        let given = arguments.values("url").flatMap { $0.split(separator: ",", omittingEmptySubsequences: false).map(String.init) }
        urls = []
        for text in given.isEmpty ? [defaultURL] : given {
            do throws(HubURL.Malformed) {
                urls.append(try HubURL(text))
            } catch {
                throw CommandLineError("\(given.isEmpty ? "HUB_URL" : "--url"): \(error)")
            }
        }
        switch (arguments.value("token-key-env"), arguments.value("token-key-file")) {
        case (nil, nil): key = nil
        case (let name?, nil): key = .environment(name)
        case (nil, let path?): key = .file(path)
        case (_?, _?): throw CommandLineError("give --token-key-env or --token-key-file, not both")
        }
        kid = arguments.value("kid")
        if kid != nil, key == nil { throw CommandLineError("--kid names a key; give it with --token-key-env or --token-key-file") }
        authorities = arguments.value("ca")
        isInsecure = arguments.has("insecure")
        if let text = arguments.value("format") {
            guard let format = Format(rawValue: text) else {
                throw CommandLineError("--format is json, msgpack or short, not \(CommandLineError.quoted(text))")
            }
            self.format = format
        }
        offersDeflate = arguments.has("deflate")
        for list in arguments.values("source-addresses") {
            for text in list.split(separator: ",", omittingEmptySubsequences: false) { sources += try Self.addresses(String(text)) }
        }
        guard sources.count <= Self.sourcesMax else {
            throw CommandLineError("--source-addresses names \(sources.count) addresses, of at most \(Self.sourcesMax)")
        }
    }

    /// "127.0.0.2", "127.0.0.2-127.0.0.9", or an IPv6 address as it is.
    private static func addresses(_ text: String) throws(CommandLineError) -> [String] {
        func fail() -> CommandLineError {
            CommandLineError(
                "--source-addresses is a list of addresses such as 127.0.0.2 or 127.0.0.2-127.0.0.9, not \(CommandLineError.quoted(text))")
        }
        if text.contains(":") { return [text] }
        let ends = text.split(separator: "-", omittingEmptySubsequences: false).map { number(String($0)) }
        guard let first = ends.first ?? nil, ends.count <= 2 else { throw fail() }
        guard ends.count == 2 else { return [Self.text(first)] }
        guard let last = ends[1], last >= first else { throw fail() }
        guard last - first < UInt32(sourcesMax) else {
            throw CommandLineError("--source-addresses \(CommandLineError.quoted(text)) has more than \(sourcesMax) addresses")
        }
        return (first...last).map(Self.text)
    }

    private static func number(_ text: String) -> UInt32? {
        let parts = text.split(separator: ".", omittingEmptySubsequences: false)
        guard parts.count == 4 else { return nil }
        var number: UInt32 = 0
        for part in parts {
            guard let byte = UInt8(part), part.utf8.allSatisfy({ $0 >= 48 && $0 <= 57 }) else { return nil }
            number = number << 8 | UInt32(byte)
        }
        return number
    }

    private static func text(_ number: UInt32) -> String {
        "\(number >> 24).\(number >> 16 & 255).\(number >> 8 & 255).\(number & 255)"
    }
}
