/// A connection of one loop: an index into its tables (dense, reused) and the generation that tells a late event from a new one.
package struct ConnectionID: Hashable, Sendable {
    package let index: UInt32
    package let generation: UInt32

    @inlinable package init(index: UInt32, generation: UInt32) {
        self.index = index
        self.generation = generation
    }
}
