import HubBase

package enum HTTPMethod: UInt8, Sendable { case get, head, post, put, delete, options, patch, other }

/// One HTTP/1.1 request, read in place (RFC 9112). Valid during the handler's call only.
package struct HTTPRequest: ~Copyable {
    package struct Header {
        package var name: ByteRange
        package var value: ByteRange
    }

    package let method: HTTPMethod
    /// The whole head; `target` and the headers are ranges in it.
    package let head: UnsafeRawBufferPointer
    package let path: ByteRange
    /// Without the `?`; absent when there was none.
    package let query: ByteRange
    package let headers: [Header]
    package let body: UnsafeRawBufferPointer
    package let keepAlive: Bool
    /// HTTP/1.0 or 1.1.
    package let minorVersion: UInt8

    package init(
        method: HTTPMethod, head: UnsafeRawBufferPointer, path: ByteRange, query: ByteRange, headers: [Header],
        body: UnsafeRawBufferPointer, keepAlive: Bool, minorVersion: UInt8 = 1
    ) {
        self.method = method
        self.head = head
        self.path = path
        self.query = query
        self.headers = headers
        self.body = body
        self.keepAlive = keepAlive
        self.minorVersion = minorVersion
    }

    /// The value of the first header of that name (lower-case), without surrounding white space; nil when there's none.
    package func header(_ name: StaticString) -> UnsafeRawBufferPointer? { fatalError("skeleton") }

    /// How many headers of that name there are.
    package func count(of name: StaticString) -> Int { fatalError("skeleton") }

    /// The percent-decoded value of a query parameter (`+` stays `+`); nil when absent or wrongly encoded.
    package func queryValue(_ name: StaticString) -> [UInt8]? { fatalError("skeleton") }

    /// The path's segments, percent-decoded ("Names in paths are percent-encoded bytes"); nil when wrongly encoded.
    package func pathSegments() -> [[UInt8]]? { fatalError("skeleton") }

    /// Whether the comma-separated list in all headers of that name (lower-case) holds `token`, compared without case (RFC 9110 §5.6.1).
    package func listContains(_ token: StaticString, in name: StaticString) -> Bool { fatalError("skeleton") }

    /// Whether the client offered that subprotocol; names are compared with case (RFC 6455 §4.1).
    package func offersSubprotocol(_ subprotocol: StaticString) -> Bool { fatalError("skeleton") }
}
