import HubBase

/// The raw `id` token of a request that waits for its answer, carried back verbatim. Up to 24 bytes are held without an allocation:
/// that's every integer, and most strings.
package struct RequestID: Sendable {
    private var inline: (UInt64, UInt64, UInt64) = (0, 0, 0)
    private var count: UInt8 = 0
    private var long: [UInt8] = []

    package static let none = RequestID()

    package init() {}

    package init(_ token: UnsafeRawBufferPointer) {
        if token.count <= 24 {
            count = UInt8(token.count)
            withUnsafeMutableBytes(of: &inline) { $0.copyMemory(from: token) }
        } else {
            long = [UInt8](token)
        }
    }

    package func withBytes<Result>(_ body: (UnsafeRawBufferPointer) -> Result) -> Result {
        if long.isEmpty {
            return withUnsafeBytes(of: inline) { body(UnsafeRawBufferPointer(rebasing: $0[0..<Int(count)])) }
        }
        return long.withUnsafeBytes(body)
    }

    package var isPresent: Bool { count > 0 || !long.isEmpty }
}
