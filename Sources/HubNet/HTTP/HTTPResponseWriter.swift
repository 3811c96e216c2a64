import HubBase

/// Puts responses on the wire (RFC 9112 §4).
package enum HTTPResponseWriter {
    /// Appends the whole response. `Date`, `Content-Length` and `Connection` are added, whatever `response.headers` says of them; unless they
    /// are set there, `Cache-Control: no-store` and what keeps a browser from making more of an answer than it is (`guards`) too. A control character in a header becomes a space: no
    /// value can end its line.
    /// - Parameters:
    ///   - lines: further header lines, each with its CRLF, written as they are.
    ///   - keepAlive: as the request's head said; `response.closes` overrides it.
    ///   - isHead: the request was HEAD: the body's length is told, the body isn't sent.
    ///   - date: seconds since 1970, by the wall clock.
    package static func write(
        _ response: HTTPResponse, lines: [UInt8] = [], keepAlive: Bool, isHead: Bool, date: Int64, into out: inout ByteBuffer
    ) {
        out.append("HTTP/1.1 ")
        out.append(decimal: UInt64(min(max(response.status, 100), 999)))
        out.append(UInt8(ascii: " "))
        out.append(reason(response.status))
        out.append("\r\nDate: ")
        HTTPDate.write(date, into: &out)
        out.append("\r\n")

        var hasCacheControl = false
        var hasPolicy = false
        var hasUpgrade = false
        for header in response.headers {
            if isNamed(header.name, "content-length") || isNamed(header.name, "connection") || isNamed(header.name, "date") { continue }
            // We never chunk: this one would have the body's end misread.
            if isNamed(header.name, "transfer-encoding") { continue }
            hasCacheControl = hasCacheControl || isNamed(header.name, "cache-control")
            hasPolicy = hasPolicy || isNamed(header.name, "content-security-policy")
            if isNamed(header.name, "x-content-type-options") || isNamed(header.name, "x-frame-options")
                || isNamed(header.name, "referrer-policy")
            {
                continue
            }
            hasUpgrade = hasUpgrade || isNamed(header.name, "upgrade")
            append(header.name, into: &out)
            out.append(": ")
            append(header.value, into: &out)
            out.append("\r\n")
        }
        out.append(lines)
        out.append(guards)
        if !hasPolicy { out.append(policy) }
        if !hasCacheControl { out.append("Cache-Control: no-store\r\n") }
        out.append("Connection: ")
        // Whoever sends Upgrade has to name it there (RFC 9110 §7.8).
        if hasUpgrade { out.append("Upgrade, ") }
        out.append(keepAlive && !response.closes ? "keep-alive\r\n" : "close\r\n")

        // 1xx, 204 and 304 have no body, and no length of one (RFC 9110 §8.6).
        let hasBody = response.status >= 200 && response.status != 204 && response.status != 304
        if hasBody {
            out.append("Content-Length: ")
            out.append(decimal: UInt64(response.body.count))
            out.append("\r\n")
        }
        out.append("\r\n")
        if hasBody && !isHead { out.append(response.body) }
    }

    /// An answer is of the type that it says, isn't shown in a frame, and names no address of ours to where it leads.
    package static let guards: StaticString = "X-Content-Type-Options: nosniff\r\nX-Frame-Options: DENY\r\nReferrer-Policy: no-referrer\r\n"
    /// Answers are data: should a browser show one as a page, nothing in it may load or run.
    package static let policy: StaticString = "Content-Security-Policy: default-src 'none'; frame-ancestors 'none'\r\n"

    /// Appends the head of a stream of server-sent events, which ends with the connection: nobody on the way may keep, collect or change it.
    package static func writeStreamHead(lines: [UInt8] = [], date: Int64, into out: inout ByteBuffer) {
        out.append("HTTP/1.1 200 OK\r\nDate: ")
        HTTPDate.write(date, into: &out)
        out.append("\r\nContent-Type: text/event-stream\r\nCache-Control: no-store, no-transform\r\nX-Accel-Buffering: no\r\n")
        out.append(lines)
        out.append(guards)
        out.append(policy)
        out.append("Connection: close\r\n\r\n")
    }

    /// Appends `100 Continue`, for a head that `expectsContinue`.
    package static func writeContinue(into out: inout ByteBuffer) { out.append("HTTP/1.1 100 Continue\r\n\r\n") }

    private static func append(_ text: String, into out: inout ByteBuffer) {
        for byte in text.utf8 { out.append(byte < 0x20 || byte == 0x7F ? 0x20 : byte) }
    }

    private static func isNamed(_ name: String, _ lowercase: StaticString) -> Bool {
        guard name.utf8.count == lowercase.utf8CodeUnitCount else { return false }
        var index = 0
        for byte in name.utf8 {
            if ASCII.lowercased(byte) != lowercase.utf8Start[index] { return false }
            index += 1
        }
        return true
    }

    private static func reason(_ status: Int) -> StaticString {
        switch status {
        case 100: "Continue"
        case 101: "Switching Protocols"
        case 200: "OK"
        case 201: "Created"
        case 202: "Accepted"
        case 204: "No Content"
        case 301: "Moved Permanently"
        case 302: "Found"
        case 304: "Not Modified"
        case 307: "Temporary Redirect"
        case 308: "Permanent Redirect"
        case 400: "Bad Request"
        case 401: "Unauthorized"
        case 403: "Forbidden"
        case 404: "Not Found"
        case 405: "Method Not Allowed"
        case 406: "Not Acceptable"
        case 408: "Request Timeout"
        case 409: "Conflict"
        case 410: "Gone"
        case 413: "Content Too Large"
        case 414: "URI Too Long"
        case 415: "Unsupported Media Type"
        case 417: "Expectation Failed"
        case 422: "Unprocessable Content"
        case 426: "Upgrade Required"
        case 429: "Too Many Requests"
        case 431: "Request Header Fields Too Large"
        case 500: "Internal Server Error"
        case 501: "Not Implemented"
        case 502: "Bad Gateway"
        case 503: "Service Unavailable"
        case 504: "Gateway Timeout"
        case 505: "HTTP Version Not Supported"
        // The reason may be empty; its space stays (RFC 9112 §4).
        default: ""
        }
    }
}
