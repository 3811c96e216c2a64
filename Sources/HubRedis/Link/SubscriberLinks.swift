import HubBase
import HubNet

/// All subscriber links together: what the node wants to hear, and one count of PINGs, so that a lane's positions are judged alike on
/// whichever link it is.
final class SubscriberLinks {
    /// In memory of its own: a class's stored property pays a run-time check for each access. No method of the set calls back, so two accesses
    /// never meet.
    var set: SubscriptionSet {
        _read { yield memory.pointee }
        _modify { yield &memory.pointee }
    }
    private let memory: UnsafeMutablePointer<SubscriptionSet>
    /// PINGs sent on all links. A link tells the number of the last one that was answered: pub/sub messages of its lanes from before that
    /// PING have arrived.
    private(set) var pings: UInt64 = 0
    let isSharded: Bool
    /// The hash slot of each lane.
    let slots: [Int]
    /// Owns this, so it's there as long as it.
    private unowned(unsafe) let backend: RedisBackend

    init(seed: UInt64, tipCheck: Span, slots: [Int], isSharded: Bool, backend: RedisBackend) {
        memory = .allocate(capacity: 1)
        memory.initialize(to: SubscriptionSet(seed: seed, tipCheck: tipCheck))
        self.slots = slots
        self.isSharded = isSharded
        self.backend = backend
    }

    deinit {
        memory.deinitialize(count: 1)
        memory.deallocate()
    }

    func nextPing() -> UInt64 {
        pings += 1
        return pings
    }

    /// Whatever happened to the user before this wasn't heard.
    func followed(_ user: Name) { backend.followed(user) }

    func heard(_ index: Int, _ body: UnsafeRawBufferPointer, pongs: UInt64) { backend.heard(index, body, pongs: pongs) }

    func linkDown() { backend.topologyIsOld() }

    /// A channel's slot is another master's.
    func moved(_ redirect: Redirect) { backend.link.learn(redirect) }
}
