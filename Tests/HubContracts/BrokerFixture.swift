import HubBase
import HubCore
import HubWire

/// What the broker's contract needs from an implementation under test. Everything happens on the thread that runs the suite.
package protocol BrokerFixture: AnyObject {
    /// How many nodes can share one backend here: 1 for memory. The suite uses two where it can, and the one as both elsewhere.
    var nodeLimit: Int { get }
    /// What the suite's namespaces have: `""` and `brief` (see `BrokerContract.namespaces`).
    func makeNode() -> any Broker
    /// The time that calls are to be given.
    var now: Instant { get }
    /// Advances every node that was made until `condition` holds; false when it doesn't within 5 s of the fixture's time.
    func run(until condition: () -> Bool) -> Bool
    /// Lets `span` pass on every node and on the backend. Suites only ask for short ones (below 2 s): Redis needs them for real.
    func pass(_ span: Span)
    /// Publishes to a channel so that nobody hears it: it's in the history, and its message is lost on the way.
    func publishUnheard(_ publication: Publication, to channel: Name)
    /// Everything that's kept is gone, as by a restart without data.
    func loseAllData()
    /// What channels of which there's nothing stand at ends, as it does after some days; nothing is lost.
    func endGenerations()
    /// Within this time a lost message without a successor is found.
    var tailCheck: Span { get }
}

/// The same for the presence store.
package protocol PresenceStoreFixture: AnyObject {
    var nodeLimit: Int { get }
    /// Of nodes that are made from now on; at first `PresenceStoreContract.timers`.
    var timers: PresenceTimers { get set }
    /// `incarnation` and `name` as in `NodeEntry`.
    func makeNode(incarnation: Name, name: Name) -> any PresenceStore
    var now: Instant { get }
    func run(until condition: () -> Bool) -> Bool
    func pass(_ span: Span)
    /// Deletes the user's record behind the store's back, as an eviction or a restart without data would; nothing else of its partition.
    func forgetRecord(of user: Name)
    /// Everything that's kept is gone, as by FLUSHALL: no link is lost.
    func loseAllData()
}

/// The same for the queues of webhooks, together with the presence store that fills them.
package protocol HookQueueFixture: PresenceStoreFixture {
    func makeHookNode(incarnation: Name, name: Name, rules: HookRules) -> (store: any PresenceStore, queue: any HookQueue)
}
