/// What an embedded store has to tell its delegate, in order, told from `advance` and never from within a call.
///
/// A class, since a delegate that's told something calls back, and what it asks for is answered here as well.
final class Outputs<Output> {
    private var queue = Queue<Output>()
    private var isAdvancing = false

    var isEmpty: Bool { queue.isEmpty }
    func append(_ output: Output) { queue.append(output) }
    func removeAll() { queue.removeAll() }

    /// Tells all that waits, and what delegates ask for while they are told, a few rounds deep: their shells may not turn again for a while.
    /// Then does the `rest` of the turn. A delegate that calls back from inside an answer gets its own answers afterwards, not inside that call.
    func advance(_ tell: (Output) -> Void, rest: () -> Void) {
        guard !isAdvancing else { return }
        isAdvancing = true
        defer { isAdvancing = false }
        for _ in 0..<8 where !queue.isEmpty {
            for _ in 0..<queue.count {
                if let output = queue.popFirst() { tell(output) }
            }
        }
        rest()
    }
}
