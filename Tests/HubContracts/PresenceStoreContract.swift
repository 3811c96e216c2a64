import HubBase
import HubCore
import HubWire
import Testing

/// What every presence store promises. Each check has its own users, so that all can run on one backend, one after the other.
package enum PresenceStoreContract {
    /// The design's test timers.
    package static var timers: PresenceTimers {
        var timers = PresenceTimers()
        timers.heartbeat = .milliseconds(800)
        timers.lease = .milliseconds(2_400)
        timers.sweepInterval = .milliseconds(100)
        timers.gapMax = .milliseconds(1_200)
        timers.hold = .milliseconds(1_400)
        timers.grace = .milliseconds(400)
        timers.userTTL = .seconds(10)
        return timers
    }

    package static let checks: [PresenceStoreCheck] = [
        PresenceStoreCheck("the first connection is one online event, told to every node", online),
        PresenceStoreCheck("what doesn't change the user's state is no event, and keeps the version", noEvent),
        PresenceStoreCheck("away and back are events with growing versions", away),
        PresenceStoreCheck("a hundred changes of status are updates, none of them offline", updates),
        PresenceStoreCheck("a user is online if any connection is, else away if any is", severalDevices),
        PresenceStoreCheck("closing one of two connections is no event", oneOfTwo),
        PresenceStoreCheck("a user with invisible connections only is offline to others, and the lease stays", invisible),
        PresenceStoreCheck(
            "who was only ever invisible is nobody: version 0, nothing told, no trail, presence.md Who sees what", neverSeen),
        PresenceStoreCheck("an invisible connection changes nothing of a user known before", knownAndInvisible),
        PresenceStoreCheck("grace applies as if invisible connections weren't there", graceBesideInvisible),
        PresenceStoreCheck("an invisible connection within grace is no coming back", invisibleInGrace),
        PresenceStoreCheck("an invisible connection's end within grace ends no grace", invisibleEndsInGrace),
        PresenceStoreCheck("an operation on one user never touches another", others),
        PresenceStoreCheck("a version is above the floor, whatever the store remembers", versionFloor),
        PresenceStoreCheck("a user's first version tells no more of the time than last seen does, and all grow, decision 0306", coarse),
        PresenceStoreCheck("a record that is behind what a node knows is told anew, above it", behind),
        PresenceStoreCheck("a batch is answered with a version for each operation, in order", batch),
        PresenceStoreCheck("nothing is told from inside a call", neverInside),
        PresenceStoreCheck("a clean leave is offline without grace, once, seen last at the close", cleanLeave),
        PresenceStoreCheck("the last unclean close is offline after grace, once, seen last at the close", graceEnds),
        PresenceStoreCheck("a connection within grace cancels it without an event", graceCancelled),
        PresenceStoreCheck("a reconnect on B before A's late close is never offline", reconnectFirst),
        PresenceStoreCheck("A's close before the reconnect on B, within grace, is never offline", closeFirst),
        PresenceStoreCheck("a page loaded again beside a device that is away is no event, issue 5 point 2", reloadBesideAway),
        PresenceStoreCheck("who doesn't come back beside a device that is away is away after grace, once", awayAfterGrace),
        PresenceStoreCheck("one grace for all: nobody is gone before the last of them is over", graceOfTwo),
        PresenceStoreCheck(
            "a page loaded again is no event, whoever else leaves, turns away or turns invisible meanwhile", othersGoInGrace),
        PresenceStoreCheck(
            "who comes as away takes nothing from one that was online, before that one's own grace is over", awayComesInGrace),
        PresenceStoreCheck("a device that is away is waited for as well", awayIsAwaited),
        PresenceStoreCheck("one that comes back ends the waiting for itself, not for the others, decision 0322", oneForOne),
        PresenceStoreCheck("however many are lost at once, the last one's grace counts", manyAwaited),
        PresenceStoreCheck(
            "who turns invisible looks like who leaves, whatever else is there, presence.md Who sees what", invisibleLooksLikeLeaving),
        PresenceStoreCheck("an invisible user whose record was lost looks like one who is gone, decision 0323", lostAndInvisible),
        PresenceStoreCheck("a late close after grace and reconnect takes nothing away", lateClose),
        PresenceStoreCheck("a close that comes twice takes effect once", closeTwice),
        PresenceStoreCheck("a lease that isn't renewed ends the user once, whoever sweeps", expiredOnce),
        PresenceStoreCheck("a renewed lease doesn't end", renewed),
        PresenceStoreCheck("one expired lease of two leaves the user to the other", expiredOfTwo),
        PresenceStoreCheck("nothing ends before a hold when nobody swept for longer than gapMax", hold),
        PresenceStoreCheck("refresh reports the leases that the store doesn't know", missing),
        PresenceStoreCheck("restoring without a record writes no event, and the state is there again", restore),
        PresenceStoreCheck("inspect shows the connections and what is left of their leases", inspect),
        PresenceStoreCheck("inspect counts no expired lease, also before any sweep", inspectExpired),
        PresenceStoreCheck(
            "an end written again, and lost, is told as it was, once, below whatever has come since, decision 0324", endedAgain),
        PresenceStoreCheck("an end written again takes away nobody else, and has a grace where nothing was told", endedBesideOthers),
        PresenceStoreCheck("inspect counts no lease as ended in a hold, as reading doesn't", inspectHeld),
        PresenceStoreCheck("a user's transitions are kept with version, time and cause", trail),
        PresenceStoreCheck("an end told late is awaited from then on, and is when it was and what it was", lateEnds),
        PresenceStoreCheck("of ends told late, in any order, the last one is when the user was last seen", lateEndsInAnyOrder),
        PresenceStoreCheck("beside those that were told in time too", lateEndsBesideOthers),
        PresenceStoreCheck(
            "an end of a connection that the store has lost, with all its data, is told as it was, once others had time to be back",
            lostEnds),
        PresenceStoreCheck("while others may have to register again nobody goes by the ends of those who have", endsAmidLoss),
        PresenceStoreCheck("an end that's written again shows nobody longer than those who register again do", repeatedAmidLoss),
        PresenceStoreCheck("an end that's written again, and was told then, has no grace beside others in older data", overBesideOthers),
        PresenceStoreCheck(
            "an invisible connection that's written again over older data makes nobody offline whose others are yet to come",
            hiddenInOlderData),
        PresenceStoreCheck("who is registered again when watchers may have been told otherwise is told as there", restoredLate),
        PresenceStoreCheck("the trail tells a loss from a goodbye from a lease that ran out, and who swept", trailOfEnds),
        PresenceStoreCheck("the trail tells a renewed lease from a restored record", trailOfRestoring),
        PresenceStoreCheck("the trail keeps the last fifty", trailIsBounded),
        PresenceStoreCheck("devices and users of any shape come through the trail", trailOfAnyNames),
        PresenceStoreCheck("a grace that is longer than a lease lasts as long as it is, decision 0335", longGrace),
        PresenceStoreCheck(
            "since when a connection is there goes by the store's clock, and stays whatever its node says later, decision 0336", since),
        PresenceStoreCheck("a connection that was known is back by a heartbeat, also in another state, presence.md", backInAnotherState),
        PresenceStoreCheck("that a partition lost its data is told to each node that sweeps it, once, decision 0337", lost),
        PresenceStoreCheck("a user who was never seen is offline at version 0", unknown),
        PresenceStoreCheck("read answers in the order asked, over partitions", readOrder),
        PresenceStoreCheck("announcing lists the living nodes with their connections", nodes),
    ]

    /// Sweeps the partitions of `users` on both nodes, at the design's pace, until `condition` holds.
    static func sweep(
        _ users: [Name], on nodes: (PresenceNode, PresenceNode), _ fixture: any PresenceStoreFixture, until condition: () -> Bool
    ) -> Bool {
        let partitions = Set(users.map { Partition.of($0) }).sorted()
        for _ in 0..<60 {
            for partition in partitions {
                _ = nodes.0.sweep(partition)
                _ = nodes.1.sweep(partition)
            }
            fixture.pass(.milliseconds(110))
            if condition() { return true }
        }
        return false
    }

    /// Sweeps for a while; for what must not happen.
    static func sweep(_ users: [Name], on nodes: (PresenceNode, PresenceNode), _ fixture: any PresenceStoreFixture, turns: Int) {
        var left = turns
        _ = sweep(users, on: nodes, fixture) {
            left -= 1
            return left <= 0
        }
    }

    static func expectGrowing(_ changes: [PresenceChange]) {
        for (before, after) in zip(changes, changes.dropFirst()) {
            #expect(before.version < after.version)
            #expect(before.status != after.status)
        }
    }
}
