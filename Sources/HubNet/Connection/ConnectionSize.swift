/// The sizes that the memory budget of an idle connection rests on, for the test that holds them.
package enum ConnectionSize {
    /// One slot of the slab.
    package static let bytes = MemoryLayout<Connection>.stride
    /// Up to the end of what a delivery touches.
    package static let deliveryBytes = (MemoryLayout<Connection>.offset(of: \.partial) ?? Int.max - 8) + 8
    /// Beside the slab: the deadline's node in the wheel.
    package static let deadlineBytes = 16
}
