import HubBase
import HubWire

/// For how long message ids are remembered, by namespace, also after that was raised: an id from before was remembered for the shorter time, and
/// a retry of it that came now would be taken for new.
package struct DedupWindows {
    private var windows: [[UInt8]: Span] = [:]
    /// Of namespaces whose window was raised: the shortest one before, and when.
    private var raises: [[UInt8]: (window: Span, at: Instant)] = [:]

    /// `""` stands for every namespace that isn't named.
    package init(_ namespaces: [String: HistoryOptions]) { windows = DedupWindows.windows(namespaces) }

    private static func windows(_ namespaces: [String: HistoryOptions]) -> [[UInt8]: Span] {
        var windows = Dictionary(namespaces.map { ([UInt8]($0.key.utf8), $0.value.dedup) }, uniquingKeysWith: { _, last in last })
        if windows[[]] == nil { windows[[]] = HistoryOptions().dedup }
        return windows
    }

    package mutating func adopt(_ namespaces: [String: HistoryOptions], at now: Instant) {
        let next = DedupWindows.windows(namespaces)
        let (others, othersRaised) = (windows[[]] ?? .zero, raises[[]])
        for name in Set(windows.keys).union(next.keys) {
            let before = windows[name] ?? others
            let raised = raises[name] ?? (windows[name] == nil ? othersRaised : nil)
            if let after = next[name] ?? next[[]], after > before {
                raises[name] = (min(before, raised?.window ?? before), now)
            } else if let raised {
                raises[name] = raised
            }
        }
        windows = next
    }

    /// Its id may be forgotten already.
    package func mayHaveForgotten(_ attempt: PublishAttempt, in namespace: some Collection<UInt8>, at now: Instant) -> Bool {
        let name = [UInt8](namespace)
        guard let window = windows[name] ?? windows[[]] else { return true }
        guard let raise = raises[name] ?? (windows[name] == nil ? raises[[]] : nil) else { return attempt.isOlder(than: window) }
        let isFromBefore = attempt.isOlder(than: now.since(raise.at))
        return attempt.isOlder(than: isFromBefore ? min(raise.window, window) : window)
    }
}
