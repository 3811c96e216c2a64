import HubWire

/// What a hub may refuse a request with, for who names codes without speaking the protocol.
package enum RefusalCodes {
    /// As on the wire.
    package static let all = ErrorCode.allCases.map(\.rawValue)
}
