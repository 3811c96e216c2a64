import HubBase
import HubContracts
import HubCore

/// The embedded presence store under virtual time.
final class MemoryPresenceFixture: HookQueueFixture {
    private var stores: [MemoryPresenceStore] = []
    private var queues: [MemoryHookQueue] = []
    private(set) var now = Instant(nanoseconds: 5_000_000_000)

    var nodeLimit: Int { 1 }
    var timers = PresenceStoreContract.timers

    func makeNode(incarnation: Name, name: Name) -> any PresenceStore {
        let store = MemoryPresenceStore(
            timers: timers, node: incarnation, nodeName: name, wallClockAtStart: 1_800_000_000_000, startedAt: now)
        stores.append(store)
        return store
    }

    func makeHookNode(incarnation: Name, name: Name, rules: HookRules) -> (store: any PresenceStore, queue: any HookQueue) {
        let store = MemoryPresenceStore(
            timers: timers, node: incarnation, nodeName: name, wallClockAtStart: 1_800_000_000_000, startedAt: now)
        let queue = MemoryHookQueue(wallClockAtStart: 1_800_000_000_000, startedAt: now)
        queue.setHookRules(rules)
        store.hooks = queue
        stores.append(store)
        queues.append(queue)
        return (store, queue)
    }

    func run(until condition: () -> Bool) -> Bool {
        for _ in 0..<500 {
            if condition() { return true }
            step(.milliseconds(10))
        }
        return condition()
    }

    func pass(_ span: Span) {
        let end = now + span
        while now < end { step(min(.milliseconds(10), end.since(now))) }
    }

    func forgetRecord(of user: Name) {
        for store in stores { store.forgetRecord(of: user) }
    }

    func loseAllData() { for store in stores { store.loseAllData() } }

    private func step(_ span: Span) {
        now = now + span
        for store in stores { store.advance(at: now) }
        for queue in queues { queue.advance(at: now) }
    }
}
