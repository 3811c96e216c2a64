import HubBase
import HubCore
import HubWire
import Testing

/// Whether the id of a retry may be forgotten already, so that history has to decide.
@Suite("Windows of message ids") struct DedupWindowsTests {
    private static func options(_ seconds: UInt64) -> HistoryOptions {
        var options = HistoryOptions()
        options.dedup = .seconds(seconds)
        return options
    }

    private let start = Instant(nanoseconds: 1_000_000_000_000)

    private func forgotten(_ windows: DedupWindows, _ age: UInt64, in namespace: Name = "room:1", at now: Instant) -> Bool {
        windows.mayHaveForgotten(PublishAttempt(age: .seconds(age), since: nil), in: namespace.namespace, at: now)
    }

    @Test("a retry that may lie in front of the store until its id is forgotten is a late one")
    func margin() {
        let windows = DedupWindows(["": Self.options(600), "room": Self.options(8)])
        #expect(!forgotten(windows, 584, in: "other:1", at: start) && forgotten(windows, 585, in: "other:1", at: start))
        // A quarter of a short window at most.
        #expect(!forgotten(windows, 5, at: start) && forgotten(windows, 6, at: start))
    }

    @Test("after a window was raised ids from before are forgotten as early as they were to be; those since then aren't")
    func raised() {
        var windows = DedupWindows(["": Self.options(600), "room": Self.options(8)])
        windows.adopt(["": Self.options(600), "room": Self.options(3_600)], at: start)
        let later = start + .seconds(100)
        #expect(forgotten(windows, 101, at: later) && forgotten(windows, 150, at: later))
        #expect(!forgotten(windows, 60, at: later), "it was sent since")
        #expect(!forgotten(windows, 500, in: "other:1", at: later))
        // Raised again: the shortest one still counts for those before.
        windows.adopt(["": Self.options(600), "room": Self.options(7_200)], at: later)
        #expect(forgotten(windows, 60, at: later + .seconds(1)))
        // Lowered: what's kept is kept for longer than is asked for.
        windows.adopt(["": Self.options(600), "room": Self.options(8)], at: later + .seconds(2))
        #expect(forgotten(windows, 7, at: later + .seconds(10_000)) && !forgotten(windows, 3, at: later + .seconds(10_000)))
    }

    @Test("so too where a namespace gets a window of its own, or has none of its own any more")
    func named() {
        var windows = DedupWindows(["": Self.options(8)])
        windows.adopt(["": Self.options(8), "room": Self.options(600)], at: start)
        #expect(forgotten(windows, 20, at: start + .seconds(5)) && !forgotten(windows, 3, at: start + .seconds(100)))
        windows.adopt(["": Self.options(600)], at: start + .seconds(10_000))
        #expect(forgotten(windows, 20, in: "other:1", at: start + .seconds(10_005)), "its window was 8 s")
        #expect(forgotten(windows, 20, in: "other:2", at: start + .seconds(10_020)))
        #expect(!forgotten(windows, 20, in: "other:2", at: start + .seconds(10_100)))
    }
}
