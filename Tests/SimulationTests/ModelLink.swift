import HubBase

/// One connection of a node to Redis: in order both ways, late, and sometimes gone. What's asked when it breaks has an unknown fate.
final class ModelLink {
    private unowned let world: ClusterWorld
    private let node: Int
    /// Of this connection; the next one has another.
    private(set) var number = 0
    private(set) var isUp = false
    private(set) var server: ModelRedis?
    private var life = 0
    /// What was sent on a connection before it was cut arrives all the same if it gets there by then: a stream loses its end, never its middle.
    private var endOf: [Int: Instant] = [:]
    private var owed: [UInt64: (sent: Instant, hasArrived: Bool, lost: () -> Void)] = [:]
    private var lastOwed: UInt64 = 0
    private var lastArrival = Instant(nanoseconds: 0)
    private var lastReturn = Instant(nanoseconds: 0)

    /// Calls it once the node's process goes on. What a connection brought and nobody has read by the time it's cut is lost with it.
    var whenAwake: (@escaping () -> Void) -> Void = { $0() }

    init(_ world: ClusterWorld, node: Int) {
        self.world = world
        self.node = node
    }

    /// False when there's nobody.
    /// `failover`: the one that made it the primary, as far as the node knows; nil: the link doesn't say so.
    func open(to server: ModelRedis, failover: Int?) -> Bool {
        guard world.canReach(node), server.frozenUntil <= world.now else { return false }
        number = world.makeLinkNumber()
        self.server = server
        life = server.life
        if let failover { server.pass(failover: failover) }
        isUp = true
        return true
    }

    func cut() {
        guard isUp else { return }
        isUp = false
        endOf[number] = world.now + world.latency()
        server?.listeners[number] = nil
        let lost = owed.sorted { $0.key < $1.key }.map(\.value.lost)
        owed = [:]
        for tell in lost { tell() }
    }

    /// The longest that an answer has been owed.
    func silence(at now: Instant) -> Span { owed.values.filter { !$0.hasArrived }.map { now.since($0.sent) }.max() ?? .zero }

    /// The server has it in a while, and the answer comes in another. `lost`: it may have been carried out or not.
    func ask<Answer>(_ carryOut: @escaping (ModelRedis) -> Answer, answer: @escaping (Answer) -> Void, lost: @escaping () -> Void) {
        guard isUp, let server else { return lost() }
        lastOwed += 1
        let key = lastOwed
        owed[key] = (world.now, false, lost)
        let connection = number
        let life = life
        // A line that is cut delays: a stream loses nothing but its end.
        lastArrival = max(lastArrival, world.now + world.latency(), world.reachable(node))
        world.arrive(at: server, after: lastArrival) { [weak self] in
            guard let self, life == server.life else { return }
            if let end = self.endOf[connection], self.world.now > end { return }
            let result = carryOut(server)
            self.return(connection) {
                self.owed[key]?.hasArrived = true
                self.whenAwake {
                    guard self.owed.removeValue(forKey: key) != nil else { return }
                    answer(result)
                }
            }
        }
    }

    /// Something comes back on the connection, behind what's on its way already.
    func `return`(_ connection: Int, _ body: @escaping () -> Void) {
        guard isUp, number == connection else { return }
        lastReturn = max(lastReturn, world.now + world.latency(), world.reachable(node))
        world.plan(lastReturn) { [weak self] in
            guard let self, self.isUp, self.number == connection else { return }
            body()
        }
    }
}
