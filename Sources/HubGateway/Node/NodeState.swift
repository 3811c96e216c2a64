import HubBase
import HubCore
import HubNet
import Synchronization

/// What all threads of a node share: its health for `/readyz`, and each loop's numbers for `/metrics`.
final class NodeState: Sendable {
    /// `starting → ready → full(reason), degraded(reason) → stopping`
    enum Phase: Sendable, Equatable {
        case starting(String)
        case ready
        /// Serves; what has to be kept is refused.
        case full(String)
        case degraded(String)
        case stopping

        var isReady: Bool {
            switch self {
            case .ready, .full: true
            case .starting, .degraded, .stopping: false
            }
        }
    }

    let admission = AdmissionRate()
    let addressPaces = AddressPaces()
    let keyPaces = KeyPaces()
    let userConnections = UserConnections()
    private let phaseBox = Mutex<Phase>(.starting("the first probe hasn't come back yet"))
    private let unsavedBox = Mutex<String?>(nil)
    private let loopBoxes: Mutex<[LoopNumbers]>
    /// The presence store's clock less the monotonic one, in milliseconds; the least number: not known.
    private let offset = Atomic<Int64>(.min)
    private let leftBox = Atomic<Bool>(false)
    private let adoptionsBox = Atomic<Int>(0)
    private let backplaneBox = Mutex<BackplaneNumbers>(BackplaneNumbers())

    init(loops: Int) {
        loopBoxes = Mutex([LoopNumbers](repeating: LoopNumbers(), count: loops))
    }

    var storeClockOffset: Int64? {
        get {
            let value = offset.load(ordering: .relaxed)
            return value == .min ? nil : value
        }
        set { offset.store(newValue ?? .min, ordering: .relaxed) }
    }

    /// The presence store's clock at a moment of the monotonic one, in milliseconds since 1970; nil: not known yet.
    func storeMilliseconds(at now: Instant) -> Int64? {
        storeClockOffset.map { Int64(clamping: now.nanoseconds / 1_000_000) + $0 }
    }

    /// What all nodes go by, in milliseconds since 1970: the store's clock, or, as long as that isn't known, this machine's.
    func sharedClock() -> UInt64 { storeMilliseconds(at: Node.monotonicNow()).map { UInt64(clamping: $0) } ?? WallClock.milliseconds() }

    var phase: Phase { phaseBox.withLock { $0 } }

    /// Stopping is final.
    func enter(_ phase: Phase) {
        phaseBox.withLock { if $0 != .stopping { $0 = phase } }
    }

    /// The stores know that the node stops, or can't be told.
    var hasLeft: Bool {
        get { leftBox.load(ordering: .relaxed) }
        set { leftBox.store(newValue, ordering: .relaxed) }
    }

    /// How often a loop or the backplane has taken a configuration over.
    var adoptions: Int { adoptionsBox.load(ordering: .acquiring) }
    func adopted() { adoptionsBox.add(1, ordering: .releasing) }

    /// Why the snapshot of the node's end couldn't be written.
    var unsaved: String? {
        get { unsavedBox.withLock { $0 } }
        set { unsavedBox.withLock { $0 = newValue } }
    }

    func report(_ numbers: LoopNumbers, of loop: Int) { loopBoxes.withLock { $0[loop] = numbers } }
    func report(_ numbers: BackplaneNumbers) { backplaneBox.withLock { $0 = numbers } }
    var loopNumbers: [LoopNumbers] { loopBoxes.withLock { $0 } }
    var backplaneNumbers: BackplaneNumbers { backplaneBox.withLock { $0 } }
}
