import CCurl

/// Where an outgoing request goes: http or https, as libcurl itself reads it, so that what was checked is what is asked.
package struct FetchURL: Sendable, Equatable {
    package let text: String
    /// "https://host:port": all that logs and errors may say, since paths and queries of such addresses often hold a secret.
    package let place: String
    package let isSecure: Bool
    /// This machine: nobody sits on the way there.
    package let isLoopback: Bool

    package struct Problem: Error, Sendable, Equatable {
        /// "must be …", for after the setting's name.
        package var message: String
    }

    package static let bytesMax = 2048

    package init(_ text: String) throws(Problem) {
        guard text.utf8.count <= Self.bytesMax else { throw Problem(message: "must have at most \(Self.bytesMax) bytes") }
        guard text.utf8.allSatisfy({ $0 > 0x20 && $0 < 0x7F }) else {
            throw Problem(message: "must be ASCII without spaces: percent-encode the rest")
        }
        guard let handle = curl_url() else { throw Problem(message: "can't be read: out of memory") }
        defer { curl_url_cleanup(handle) }
        // Without a flag that guesses a scheme, one must be there.
        guard curl_url_set(handle, CURLUPART_URL, text, 0) == CURLUE_OK, let scheme = Self.part(CURLUPART_SCHEME, handle),
            // libcurl passes over a third slash, and takes the path's first part for the host.
            scheme == "http" || scheme == "https", !text.dropFirst(scheme.count).hasPrefix(":///"),
            let host = Self.part(CURLUPART_HOST, handle)
        else { throw Problem(message: "must be an address such as \"https://example.com/hub\"") }
        guard Self.part(CURLUPART_USER, handle) == nil, Self.part(CURLUPART_PASSWORD, handle) == nil else {
            throw Problem(message: "must not hold a user or a password")
        }
        guard Self.part(CURLUPART_FRAGMENT, handle) == nil else { throw Problem(message: "must not have a fragment (#)") }
        self.text = text
        isSecure = scheme == "https"
        isLoopback = host == "localhost" || host == "[::1]" || host.hasPrefix("127.")
        place = "\(scheme)://\(host)" + (Self.part(CURLUPART_PORT, handle).map { ":" + $0 } ?? "")
    }

    private static func part(_ part: CURLUPart, _ handle: OpaquePointer) -> String? {
        var text: UnsafeMutablePointer<CChar>?
        guard curl_url_get(handle, part, &text, 0) == CURLUE_OK, let text else { return nil }
        defer { curl_free(text) }
        return String(cString: text)
    }
}

extension FetchURL: CustomStringConvertible {
    package var description: String { place }
}
