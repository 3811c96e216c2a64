import HubBase
import Testing

/// One promise, as a test argument: `@Test(arguments: BrokerContract.checks)`.
package struct BrokerCheck: Sendable, CustomTestStringConvertible {
    package let name: String
    package let run: @Sendable (any BrokerFixture) -> Void

    package init(_ name: String, _ run: @escaping @Sendable (any BrokerFixture) -> Void) {
        self.name = name
        self.run = run
    }

    package var testDescription: String { name }
}

package struct PresenceStoreCheck: Sendable, CustomTestStringConvertible {
    package let name: String
    package let run: @Sendable (any PresenceStoreFixture) -> Void

    package init(_ name: String, _ run: @escaping @Sendable (any PresenceStoreFixture) -> Void) {
        self.name = name
        self.run = run
    }

    package var testDescription: String { name }
}

package struct HookQueueCheck: Sendable, CustomTestStringConvertible {
    package let name: String
    package let run: @Sendable (any HookQueueFixture) -> Void

    package init(_ name: String, _ run: @escaping @Sendable (any HookQueueFixture) -> Void) {
        self.name = name
        self.run = run
    }

    package var testDescription: String { name }
}

/// Records why a check can't go on.
func giveUp(_ why: Comment, at location: SourceLocation = #_sourceLocation) { Issue.record(why, sourceLocation: location) }
