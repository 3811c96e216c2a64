/// What to answer. `Content-Length`, `Date` and `Connection` are added when it's written; a HEAD request gets no body.
package struct HTTPResponse: Sendable {
    package var status: Int
    package var headers: [(name: String, value: String)]
    package var body: [UInt8]
    /// Close the connection after it.
    package var closes = false

    package init(status: Int, headers: [(name: String, value: String)] = [], body: [UInt8] = []) {
        self.status = status
        self.headers = headers
        self.body = body
    }
}
