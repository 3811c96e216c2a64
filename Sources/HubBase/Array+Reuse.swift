extension Array {
    /// Empties it and keeps its memory for the next batch, unless this one shows that so much isn't needed: what a herd of clients takes for a
    /// turn isn't to be held for ever. A batch that fills an eighth of it keeps it.
    @inlinable package mutating func removeAllForReuse() {
        removeAll(keepingCapacity: capacity <= 64 || count >= capacity / 8 && capacity <= 8192)
    }
}
