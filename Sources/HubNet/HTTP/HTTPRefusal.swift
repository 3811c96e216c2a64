import HubBase

/// Why a request can't be taken, in words for its sender. It's answered, and then the connection is closed.
package struct HTTPRefusal: Sendable, CustomStringConvertible {
    package let status: Int
    /// Plain ASCII without quotes.
    package let message: StaticString

    package init(status: Int, message: StaticString) {
        self.status = status
        self.message = message
    }

    package var description: String { "\(status) \(message)" }

    /// `{"error":{"code":…,"message":…}}` as every error of the HTTP API, closing the connection.
    package var response: HTTPResponse {
        var body = ByteBuffer(capacity: 128)
        body.append("{\"error\":{\"code\":\"")
        body.append(code)
        body.append("\",\"message\":\"")
        body.append(message)
        body.append("\"}}")
        var response = HTTPResponse(status: status, headers: [("Content-Type", "application/json")], body: body.copyBytes())
        if status == 503 { response.headers.append(("Retry-After", "1")) }
        response.closes = true
        return response
    }

    /// From the protocol's closed list of error codes.
    private var code: StaticString {
        switch status {
        case 413, 414, 431: "tooLarge"
        case 503: "unavailable"
        default: "malformed"
        }
    }
}
