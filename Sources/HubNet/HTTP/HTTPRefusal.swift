/// Why a request can't be taken, in words for its sender. It's answered, and then the connection is closed.
package struct HTTPRefusal: Sendable, CustomStringConvertible {
    package let status: Int
    package let message: StaticString

    package init(status: Int, message: StaticString) {
        self.status = status
        self.message = message
    }

    package var description: String { "\(status) \(message)" }

    /// `{"error":{"code":…,"message":…}}`, closing the connection.
    package var response: HTTPResponse { fatalError("skeleton") }
}
