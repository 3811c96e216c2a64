import HubBase
import HubWire

/// Who somebody is in development mode: who they say they are, `?user=alice`.
package enum DevelopmentIdentity {
    /// `value` is the query's, percent-decoded; nil when there was none.
    package static func user(_ value: [UInt8]?) -> Result<Name, WireError> {
        guard let value, !value.isEmpty else {
            return .failure(.init(.unauthenticated, "development mode wants a user's name in the address: ?user=alice"))
        }
        guard let name = Name(validating: value) else {
            return .failure(.init(.badName, "user must be 1 to 255 bytes of UTF-8 without control characters"))
        }
        return .success(name)
    }
}
