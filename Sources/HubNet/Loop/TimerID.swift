package struct TimerID: Hashable, Sendable {
    package let index: UInt32
    package let generation: UInt32

    package init(index: UInt32, generation: UInt32) {
        self.index = index
        self.generation = generation
    }
}
