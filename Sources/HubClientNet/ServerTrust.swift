import Glibc
import HubBase
import HubNet

/// Which servers a tool believes over TLS: what `--ca` and `--insecure` say. TLS 1.2 or newer and the server's name are asked for in any case.
package enum ServerTrust: Sendable, Equatable {
    /// Those that the system's authorities vouch for.
    case system
    /// Those that the certificates in this PEM file vouch for, or are, and nobody else. `by`: what named the file, for errors.
    case only(file: String, by: String = "--ca")
    /// All: for tests, with a warning.
    case anyone

    /// - Parameters:
    ///   - file: what `--ca` says; nil: SSL_CERT_FILE is looked at, as OpenSSL's own programs do.
    package init(file: String?, isInsecure: Bool) throws(CommandLineError) {
        switch (file, isInsecure) {
        case (_?, true): throw CommandLineError("give --ca FILE or --insecure, not both")
        case (nil, true): self = .anyone
        case (let file?, false): self = .only(file: file)
        case (nil, false):
            if let named = getenv("SSL_CERT_FILE"), named[0] != 0 {
                self = .only(file: String(cString: named), by: Self.environment)
            } else {
                self = .system
            }
        }
    }

    private static let environment = "SSL_CERT_FILE"

    /// What named the file, for errors about it.
    var source: String { if case .only(_, let source) = self { source } else { "--ca" } }

    package static let warning =
        "warning: --insecure: the server's certificate isn't checked, so anybody on the way can read and change everything"

    /// What advice about authorities names.
    static let place = "--ca FILE"

    /// For people who gave https or wss where http or ws is spoken.
    static let plainPort = "TLS: this port doesn't speak TLS: use http or ws"

    /// The largest file of authorities: the system's own has some 220 KB.
    private static let bytesMax = 4 * 1024 * 1024

    /// For WebSockets. Throws what is wrong with the file.
    package func makeContext() throws(NetError) -> TLSClientContext {
        let authorities = if case .only(let file, let source) = self { try Self.read(file, source) } else { [UInt8]() }
        do throws(TLSCertificate.Problem) {
            // A WebSocket begins with HTTP/1.1, and nothing else is spoken here.
            let trust: TLSClientContext.Trust =
                switch self {
                case .system: .system
                case .anyone: .anyone
                case .only: .only(authorities)
                }
            return try TLSClientContext(trust: trust, protocols: ["http/1.1"], authorityPlace: Self.place)
        } catch {
            guard case .only(let file, let source) = self else { throw NetError(number: 0, description: "TLS: \(error)") }
            throw NetError(number: 0, description: "\(source): \(file) \(error)")
        }
    }

    private static func read(_ path: String, _ source: String) throws(NetError) -> [UInt8] {
        guard let file = fopen(path, "re") else { throw unreadable(path, source) }
        defer { fclose(file) }
        var bytes: [UInt8] = []
        var piece = [UInt8](repeating: 0, count: 64 * 1024)
        while bytes.count <= bytesMax {
            let count = fread(&piece, 1, piece.count, file)
            guard ferror(file) == 0 else { throw unreadable(path, source) }
            if count == 0 { return bytes }
            bytes += piece[..<count]
        }
        throw NetError(number: 0, description: "\(source): \(path) has more than \(bytesMax) bytes")
    }

    private static func unreadable(_ path: String, _ source: String) -> NetError {
        NetError(number: errno, description: "\(source): can't read \(path): \(String(cString: strerror(errno)))")
    }
}
