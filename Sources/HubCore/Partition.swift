import HubBase

/// Users and channels are spread over 256 partitions, fixed for a deployment (redis-design §1).
package enum Partition {
    package static let count = 256

    @inlinable package static func of(_ name: Name) -> Int { Int(truncatingIfNeeded: FNV1a.hash(name.bytes) & 255) }
}
