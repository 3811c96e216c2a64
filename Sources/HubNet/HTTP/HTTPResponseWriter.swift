import HubBase

/// Puts responses on the wire (RFC 9112 §4).
package enum HTTPResponseWriter {
    /// Appends the whole response. `Date`, `Content-Length` and `Connection` are added, and unless they are set
    /// `X-Content-Type-Options: nosniff` and `Cache-Control: no-store`.
    /// - Parameters:
    ///   - keepAlive: as the request's head said; `response.closes` overrides it.
    ///   - isHead: the request was HEAD: the body's length is told, the body isn't sent.
    ///   - date: seconds since 1970, by the wall clock.
    package static func write(_ response: HTTPResponse, keepAlive: Bool, isHead: Bool, date: Int64, into out: inout ByteBuffer) {
        fatalError("skeleton")
    }

    /// `100 Continue`, for a head that `expectsContinue`.
    package static func writeContinue(into out: inout ByteBuffer) { fatalError("skeleton") }
}
