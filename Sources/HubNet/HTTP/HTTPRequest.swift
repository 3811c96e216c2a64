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
    package func header(_ name: StaticString) -> UnsafeRawBufferPointer? {
        for header in headers where ASCII.equals(header.name.bytes(in: head), ignoringCase: name) { return header.value.bytes(in: head) }
        return nil
    }

    /// How many headers of that name (lower-case) there are.
    package func count(of name: StaticString) -> Int {
        var count = 0
        for header in headers where ASCII.equals(header.name.bytes(in: head), ignoringCase: name) { count += 1 }
        return count
    }

    /// The percent-decoded value of a query parameter, the first of that name (`+` is a space); nil when absent or wrongly encoded. A parameter
    /// without `=` has an empty value.
    package func queryValue(_ name: StaticString) -> [UInt8]? {
        let query = query.bytes(in: head)
        for parameter in query.split(separator: UInt8(ascii: "&"), omittingEmptySubsequences: true) {
            let equals = parameter.firstIndex(of: UInt8(ascii: "=")) ?? parameter.endIndex
            guard let key = PercentCoding.decode(UnsafeRawBufferPointer(rebasing: query[parameter.startIndex..<equals])) else { continue }
            guard key.withUnsafeBytes({ ASCII.equals($0, name) }) else { continue }
            let start = min(equals + 1, parameter.endIndex)
            // As forms are encoded (URLSearchParams, urlencode): a plus sign is a space, and itself only as %2B.
            let value = query[start..<parameter.endIndex].map { $0 == UInt8(ascii: "+") ? UInt8(ascii: " ") : $0 }
            return value.withUnsafeBytes { PercentCoding.decode($0) }
        }
        return nil
    }

    /// The name of the first query parameter whose name or value is wrongly percent-encoded, as it was sent; nil when there's none.
    package func wrongQueryParameter() -> [UInt8]? {
        let query = query.bytes(in: head)
        guard query.contains(UInt8(ascii: "%")) else { return nil }
        for parameter in query.split(separator: UInt8(ascii: "&")) {
            let equals = parameter.firstIndex(of: UInt8(ascii: "=")) ?? parameter.endIndex
            let name = query[parameter.startIndex..<equals]
            // An equals sign between the two belongs to neither: it can't make a wrong one right.
            if PercentCoding.decode(UnsafeRawBufferPointer(rebasing: name)) == nil { return Array(name) }
            if PercentCoding.decode(UnsafeRawBufferPointer(rebasing: query[equals..<parameter.endIndex])) == nil { return Array(name) }
        }
        return nil
    }

    /// The path's segments, percent-decoded ("Names in paths are percent-encoded bytes"): `/v1/presence/a%2Fb` has three, `/` none, `/v1/` two
    /// with the last one empty. nil when wrongly encoded.
    package func pathSegments() -> [[UInt8]]? {
        var rest = path.bytes(in: head)
        if rest.first == UInt8(ascii: "/") { rest = UnsafeRawBufferPointer(rebasing: rest.dropFirst()) }
        if rest.isEmpty { return [] }
        var segments: [[UInt8]] = []
        for segment in rest.split(separator: UInt8(ascii: "/"), omittingEmptySubsequences: false) {
            guard let decoded = PercentCoding.decode(UnsafeRawBufferPointer(rebasing: segment)) else { return nil }
            segments.append(decoded)
        }
        return segments
    }

    /// Whether the comma-separated list in all headers of that name (lower-case) holds `token` (lower-case), compared without case
    /// (RFC 9110 §5.6.1).
    package func listContains(_ token: StaticString, in name: StaticString) -> Bool {
        for header in headers where ASCII.equals(header.name.bytes(in: head), ignoringCase: name) {
            for element in TokenList(header.value.bytes(in: head)) where ASCII.equals(element, ignoringCase: token) { return true }
        }
        return false
    }

    /// Which of `known` the client would like best: its offer is in its order of preference (RFC 6455 §4.1). nil when none is offered.
    package func preferredSubprotocol(among known: [StaticString]) -> StaticString? {
        for header in headers where ASCII.equals(header.name.bytes(in: head), ignoringCase: "sec-websocket-protocol") {
            for element in TokenList(header.value.bytes(in: head)) {
                for subprotocol in known where ASCII.equals(element, subprotocol) { return subprotocol }
            }
        }
        return nil
    }

    /// Whether the client offered that subprotocol; names are compared with case (RFC 6455 §4.1).
    package func offersSubprotocol(_ subprotocol: StaticString) -> Bool {
        for header in headers where ASCII.equals(header.name.bytes(in: head), ignoringCase: "sec-websocket-protocol") {
            for element in TokenList(header.value.bytes(in: head)) where ASCII.equals(element, subprotocol) { return true }
        }
        return false
    }
}
