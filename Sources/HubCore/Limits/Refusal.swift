import HubBase
import HubWire

/// Why a request isn't served, and which rate it's for where it's one.
package struct Refusal: Sendable, Equatable {
    package var error: WireError
    package var limit: RateLimit?

    package init(_ error: WireError, limit: RateLimit? = nil) {
        self.error = error
        self.limit = limit
    }
}
