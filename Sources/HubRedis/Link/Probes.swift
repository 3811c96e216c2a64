import HubBase
import HubCore

/// Messages to ourselves that are on their way: a probe of the whole path is one for each master, and proves it when all are back and the
/// write that went ahead of each is answered.
struct Probes {
    private struct Probe {
        var number: UInt64
        var tag: RequestTag
        var master: Int
        var deadline: Instant
        var isPublished = false
        var isBack = false
        var isTried = false
    }

    private var probes: [Probe] = []
    private var last: UInt64 = 0
    /// Masters that had no room when they were asked last.
    var full: Set<Int> = []

    /// The number that the message is to carry.
    mutating func add(_ tag: RequestTag, master: Int, deadline: Instant) -> UInt64 {
        last += 1
        probes.append(Probe(number: last, tag: tag, master: master, deadline: deadline))
        return last
    }

    func isPending(_ tag: RequestTag) -> Bool { probes.contains { $0.tag == tag } }

    /// The probe that is proven by this message.
    mutating func cameBack(_ number: UInt64) -> RequestTag? { step(number) { $0.isBack = true } }

    /// Redis has said that it handed the message on.
    mutating func published(_ number: UInt64) {
        guard let place = probes.firstIndex(where: { $0.number == number }) else { return }
        probes[place].isPublished = true
    }

    /// The same of an answer to its write.
    mutating func tried(_ number: UInt64, isFull: Bool) -> RequestTag? {
        guard let probe = probes.first(where: { $0.number == number }) else { return nil }
        if isFull { full.insert(probe.master) } else { full.remove(probe.master) }
        return step(number) { $0.isTried = true }
    }

    private mutating func step(_ number: UInt64, _ change: (inout Probe) -> Void) -> RequestTag? {
        guard let place = probes.firstIndex(where: { $0.number == number }) else { return nil }
        change(&probes[place])
        guard probes[place].isBack, probes[place].isTried else { return nil }
        let tag = probes.remove(at: place).tag
        return isPending(tag) ? nil : tag
    }

    /// Masters that handed our message on without its having come back in time. What is still under way to them is the command link's matter.
    func silent(at now: Instant) -> [Int] { probes.filter { $0.deadline <= now && $0.isPublished && !$0.isBack }.map(\.master) }

    mutating func failOverdue(at now: Instant) -> [RequestTag] { fail { $0.deadline <= now } }
    mutating func fail(of master: Int) -> [RequestTag] { fail { $0.master == master } }
    mutating func failAll() -> [RequestTag] { fail { _ in true } }

    /// One message that's lost fails its probe, whatever the others of it say later.
    private mutating func fail(_ which: (Probe) -> Bool) -> [RequestTag] {
        var failed: [RequestTag] = []
        for probe in probes where which(probe) && !failed.contains(probe.tag) { failed.append(probe.tag) }
        probes.removeAll { failed.contains($0.tag) }
        return failed
    }
}
