/// Close codes, and what the client is to do about each (protocol: close codes; RFC 6455 §7.4).
package struct CloseCode: RawRepresentable, Hashable, Sendable {
    package let rawValue: UInt16
    package init(rawValue: UInt16) { self.rawValue = rawValue }

    package static let normal = CloseCode(rawValue: 1000)
    package static let goingAway = CloseCode(rawValue: 1001)
    package static let protocolError = CloseCode(rawValue: 1002)
    package static let unsupportedData = CloseCode(rawValue: 1003)
    package static let invalidPayload = CloseCode(rawValue: 1007)
    package static let policyViolation = CloseCode(rawValue: 1008)
    package static let messageTooBig = CloseCode(rawValue: 1009)
    package static let internalError = CloseCode(rawValue: 1011)
    package static let drained = CloseCode(rawValue: 1012)
    package static let overloaded = CloseCode(rawValue: 1013)
    package static let tokenInvalid = CloseCode(rawValue: 4001)
    package static let tokenExpired = CloseCode(rawValue: 4002)
    package static let disconnected = CloseCode(rawValue: 4003)
    package static let disconnectedMayReturn = CloseCode(rawValue: 4004)
    package static let tooSlow = CloseCode(rawValue: 4008)
    package static let rateAbuse = CloseCode(rawValue: 4009)
    package static let authenticationDeadline = CloseCode(rawValue: 4010)
    package static let silent = CloseCode(rawValue: 4011)
}
