/// How messages are compressed (permessage-deflate, RFC 7692), where clients offer it.
package struct DeflateOptions: Sendable {
    /// zlib's, 1 (fast) … 9 (small); 0: every offer is declined.
    package var level = 1
    /// Base-2 logarithm of the largest window that is used either way: 9 … 15.
    package var windowBits = 15
    /// Shorter messages go out as they are: it isn't worth the time.
    package var minimumBytes = 256
    /// What connections may own of zlib's memory, in the whole node; shared by its loops.
    package var contexts = ContextBudget(limit: 0)

    package init() {}
}
