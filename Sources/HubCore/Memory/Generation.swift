import HubBase
import HubWire

/// The life of the embedded broker's data: a word that is lost with them.
package struct Generation: Sendable, Equatable {
    package var word: Mark
    package var ends: Instant

    /// Shorter than `MemoryChannel.metaTTL`.
    static let life = Span.seconds(5 * 86_400)

    package init(word: Mark, ends: Instant) {
        self.word = word
        self.ends = ends
    }
}
