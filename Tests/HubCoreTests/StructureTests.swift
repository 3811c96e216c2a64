import HubBase
import HubCore
import Testing

@Suite("Queue, deadlines and patrol, against slow twins")
struct StructureTests {
    @Test("a queue is first in, first out, over any mixture", arguments: 1...5)
    func queue(_ seed: UInt64) {
        var chance = Chance(seed: seed)
        var queue = Queue<Int>()
        var twin: [Int] = []
        for number in 0..<5_000 {
            switch chance.next() % 7 {
            case 0, 1:
                queue.append(number)
                twin.append(number)
            case 5:
                queue.prepend(number)
                twin.insert(number, at: 0)
            case 6:
                guard let place = twin.indices.randomElement(using: &chance) else { continue }
                queue.update(place) { $0 = number }
                twin[place] = number
            case 2: #expect(queue.popLast() == twin.popLast())
            case 3 where chance.next() % 50 == 0:
                queue.removeAll()
                twin = []
            default: #expect(queue.popFirst() == (twin.isEmpty ? nil : twin.removeFirst()))
            }
            #expect(queue.count == twin.count && queue.first == twin.first)
            if let place = twin.indices.randomElement(using: &chance) { #expect(queue[place] == twin[place]) }
        }
    }

    @Test("deadlines come in order, and none before its time", arguments: 1...5)
    func deadlines(_ seed: UInt64) {
        var chance = Chance(seed: seed)
        var heap = DeadlineHeap<UInt64>()
        var twin: [UInt64] = []
        for _ in 0..<3_000 {
            if chance.next() % 2 == 0 {
                let due = chance.next() % 1_000
                heap.insert(due, due: Instant(nanoseconds: due))
                twin.append(due)
                twin.sort()
            } else {
                let now = chance.next() % 1_200
                let expected = twin.first.flatMap { $0 <= now ? $0 : nil }
                #expect(heap.popFirst(dueBy: Instant(nanoseconds: now))?.element == expected)
                if expected != nil { twin.removeFirst() }
            }
            #expect(heap.count == twin.count && heap.firstDue?.nanoseconds == twin.first)
        }
    }

    @Test("a patrol visits every place about once a period, whatever the steps", arguments: [1, 7, 1_000])
    func patrol(_ milliseconds: UInt64) {
        var now = Instant(nanoseconds: 5)
        var patrol = Patrol(period: .seconds(10), stepsMax: 10_000, at: now)
        var visits = [Int](repeating: 0, count: 333)
        let end = now + .seconds(100)
        while now < end {
            now = now + .milliseconds(milliseconds)
            for _ in 0..<patrol.steps(over: visits.count, at: now) { visits[patrol.next(of: visits.count)] += 1 }
        }
        #expect(visits.allSatisfy { $0 >= 9 && $0 <= 11 })
    }

    @Test("a patrol over nothing, or after a long pause, takes no more steps than there are places")
    func patrolBounds() {
        var patrol = Patrol(period: .seconds(10), stepsMax: 50, at: Instant(nanoseconds: 0))
        #expect(patrol.steps(over: 0, at: Instant(nanoseconds: 1_000_000_000)) == 0)
        #expect(patrol.steps(over: 20, at: .distantFuture) <= 20)
        #expect(patrol.steps(over: 1_000_000, at: .distantFuture) == 0)
        // Time that goes backwards owes nothing.
        #expect(patrol.steps(over: 1_000_000, at: Instant(nanoseconds: 0)) == 0)
    }
}
