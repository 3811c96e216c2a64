import HubBase
import HubSwarm
import Testing

@Suite("Bots: what they do and when")
struct BotMachineTests {
    private let start = Instant(nanoseconds: 1_000_000_000_000)

    /// Everything about a day that the scenario can ask for.
    private var busy: Scenario {
        var scenario = Scenario()
        scenario.rampUp = .seconds(10)
        scenario.warmUp = .seconds(5)
        scenario.steady = .seconds(600)
        scenario.rooms.count = 20
        scenario.rooms.joined = 3
        scenario.session.length = .seconds(60)
        scenario.session.pause = .seconds(20)
        scenario.talk.every = .seconds(5)
        scenario.talk.typing = .seconds(2)
        scenario.readEvery = .seconds(7)
        scenario.away = .init(every: .seconds(20), lasts: .seconds(5))
        scenario.loss = .init(every: .seconds(30), lasts: .seconds(2))
        scenario.sleep = .init(every: .seconds(50), lasts: .seconds(10))
        return scenario
    }

    /// The whole day, asked for every `step`.
    private func day(_ scenario: Scenario, seed: UInt64, step: Span, isSpeaker: Bool = true) -> [BotMachine.Due] {
        var bot = BotMachine(scenario, start: start, place: 0.5, isSpeaker: isSpeaker, seed: seed)
        var plan: [BotMachine.Due] = []
        var now = start
        while now < start + scenario.talkingEnds + .seconds(10) {
            while let due = bot.next(scenario, now: now) { plan.append(due) }
            now = now + step
        }
        while let due = bot.next(scenario, now: now) { plan.append(due) }
        #expect(bot.deadline == .distantFuture)
        return plan
    }

    @Test("the same seed makes the same day, however late and however often the shell asks", arguments: [1, 2, 3, 1796] as [UInt64])
    func replay(seed: UInt64) {
        let plan = day(busy, seed: seed, step: .milliseconds(1))
        #expect(plan.count > 100)
        #expect(plan == day(busy, seed: seed, step: .seconds(3)))
        #expect(plan == day(busy, seed: seed, step: .seconds(1000)))
        #expect(plan != day(busy, seed: seed + 1, step: .seconds(3)))
    }

    @Test("what is due is handed out in the order of time, and nothing behind the end")
    func order() {
        for seed in 0..<50 as Range<UInt64> {
            let plan = day(busy, seed: seed, step: .seconds(2))
            for (earlier, later) in zip(plan, plan.dropFirst()) { #expect(earlier.at <= later.at) }
            #expect(plan.allSatisfy { $0.at < start + busy.talkingEnds })
            #expect(plan.first == BotMachine.Due(at: start + .seconds(5), action: .connect))
        }
    }

    @Test("nobody speaks, reads or loses a network that isn't there, and connects only when gone")
    func whereabouts() {
        for seed in 0..<200 as Range<UInt64> {
            var isIn = false
            for due in day(busy, seed: seed, step: .seconds(5)) {
                switch due.action {
                case .connect:
                    #expect(!isIn)
                    isIn = true
                case .leave, .cut:
                    #expect(isIn)
                    isIn = false
                case .say(let room), .type(let room), .read(let room): #expect(isIn && room < 3)
                case .lose: #expect(isIn)
                case .goAway, .comeBack: break
                }
            }
        }
    }

    @Test("messages come at the rate that was asked for, each behind a sign of typing, whatever else happens")
    func rate() {
        var scenario = busy
        scenario.session.length = nil
        scenario.loss.every = nil
        scenario.sleep.every = nil
        var said = 0
        for seed in 0..<50 as Range<UInt64> {
            var typed: (room: Int, at: Instant)?
            for due in day(scenario, seed: seed, step: .seconds(5)) {
                if case .type(let room) = due.action { typed = (room, due.at) }
                guard case .say(let room) = due.action else { continue }
                said += 1
                #expect(typed?.room == room)
                if let typed { #expect(due.at.since(typed.at) <= .seconds(2)) }
                typed = nil
            }
        }
        // 50 bots for 610 s, one each 5 s: 6,100, give or take four standard deviations of a Poisson count.
        #expect((5788...6412).contains(said))
    }

    @Test("who isn't a speaker says nothing")
    func silent() {
        let plan = day(busy, seed: 1, step: .seconds(5), isSpeaker: false)
        #expect(!plan.contains { if case .say = $0.action { true } else if case .type = $0.action { true } else { false } })
    }

    @Test("a herd's connections break at one instant, and again when it says so; with a time they're gone for exactly so long")
    func herd() {
        var scenario = Scenario()
        scenario.rampUp = .seconds(1)
        scenario.warmUp = .zero
        scenario.steady = .seconds(60)
        scenario.herd.at = .seconds(10)
        scenario.herd.every = .seconds(20)
        let moments = [11, 31, 51].map { start + .seconds($0) }
        for seed in 0..<20 as Range<UInt64> {
            #expect(day(scenario, seed: seed, step: .seconds(1)).filter { $0.action == .lose }.map(\.at) == moments)
        }
        scenario.herd.lasts = .seconds(3)
        let plan = day(scenario, seed: 1, step: .seconds(1)).dropFirst()
        #expect(plan.map(\.action) == [.cut, .connect, .cut, .connect, .cut, .connect])
        #expect(plan.map(\.at) == moments.flatMap { [$0, $0 + .seconds(3)] })
    }

    @Test("sessions last as long as was asked for, on average")
    func sessions() {
        var scenario = busy
        scenario.session.shape = .exponential
        scenario.loss.every = nil
        scenario.sleep.every = nil
        let lengths = (0..<300 as Range<UInt64>).flatMap { seed -> [Double] in
            var began: Instant?
            return day(scenario, seed: seed, step: .seconds(100)).compactMap { due in
                if case .connect = due.action, began == nil { began = due.at }
                guard case .leave = due.action, let first = began else { return nil }
                began = nil
                return Double(due.at.since(first).milliseconds) / 1000
            }
        }
        // The mean of an exponential one is what was asked for; the end of the day cuts off the longest.
        let mean = lengths.reduce(0, +) / Double(lengths.count)
        #expect((48...66).contains(mean))
    }
}

@Suite("Bots: distributions and the agenda")
struct DistributionTests {
    @Test("means are those that were asked for")
    func means() {
        var chance = Chance(seed: 1796)
        let exponential = (0..<100_000).reduce(0.0) { sum, _ in sum + Double(chance.exponential(mean: .seconds(10)).nanoseconds) } / 1e14
        let logNormal =
            (0..<100_000).reduce(0.0) { sum, _ in
                sum + Double(chance.logNormal(mean: .seconds(10), spread: 1).nanoseconds)
            } / 1e14
        #expect((9.8...10.2).contains(exponential))
        #expect((9.7...10.3).contains(logNormal))
    }

    @Test("Zipf's law: the first is drawn ten times as often as the tenth; with 0 all are alike")
    func popularity() {
        var chance = Chance(seed: 7)
        var counts = [Int](repeating: 0, count: 100)
        let popularity = Popularity(count: 100, exponent: 1)
        for _ in 0..<200_000 { counts[popularity.draw(&chance)] += 1 }
        #expect((9.0...11.0).contains(Double(counts[0]) / Double(counts[9])))
        var even = [Int](repeating: 0, count: 10)
        let alike = Popularity(count: 10, exponent: 0)
        for _ in 0..<100_000 { even[alike.draw(&chance)] += 1 }
        #expect(even.allSatisfy { (9_500...10_500).contains($0) })
    }

    @Test("several are all different, also when nearly all are taken and the last ones weigh nothing")
    func several() {
        var chance = Chance(seed: 3)
        for exponent in [0.0, 1, 3] {
            let popularity = Popularity(count: 30, exponent: exponent)
            for count in [1, 5, 29, 30, 40] {
                let drawn = popularity.draw(count, &chance)
                #expect(drawn.count == min(count, 30) && Set(drawn).count == drawn.count && drawn.allSatisfy { $0 < 30 })
            }
        }
    }

    @Test("the agenda hands out who is due, the earliest first")
    func agenda() {
        var agenda = Agenda()
        var chance = Chance(seed: 5)
        let times = (0..<1000).map { _ in Instant(nanoseconds: UInt64.random(in: 0..<500, using: &chance)) }
        for (bot, at) in times.enumerated() { agenda.add(UInt32(bot), at: at) }
        #expect(agenda.next == times.min())
        var last = Instant(nanoseconds: 0)
        var taken = 0
        while let entry = agenda.takeDue(Instant(nanoseconds: 249)) {
            #expect(entry.at >= last && entry.at == times[Int(entry.bot)])
            last = entry.at
            taken += 1
        }
        #expect(taken == times.count { $0.nanoseconds <= 249 })
        #expect(agenda.count == 1000 - taken)
    }

    @Test("a source address is given a third of its ports at most")
    func sources() {
        #expect(Capacity.sources(for: 100, ports: 28_232, destinations: 1) == 1)
        #expect(Capacity.sources(for: 19_000, ports: 28_232, destinations: 1) == 3)
        #expect(Capacity.sources(for: 100_000, ports: 28_232, destinations: 6) == 2)
        #expect(Capacity.sources(for: 1_000_000, ports: 1, destinations: 1) == 200)
    }

    @Test("to each destination as many connect from each source, whatever the numbers have in common", arguments: 1...8, 1...6)
    func pairs(destinations: Int, sources: Int) {
        var pairs: [Int: Int] = [:]
        let clients = destinations * sources * 50
        for client in 0..<clients {
            let source = Capacity.source(of: client, sources: sources, destinations: destinations)
            pairs[client % destinations * 100 + source, default: 0] += 1
        }
        #expect(pairs.count == destinations * sources && pairs.values.allSatisfy { $0 == 50 })
    }

    @Test("what is too much is said with the number that is possible")
    func capacity() {
        let few = Capacity(descriptors: 1024, ports: 28_232, destinations: 1)
        #expect(few.shortage(bots: 1008) == nil)
        #expect(few.shortage(bots: 1009)?.contains("1008 are possible") == true)
        let ports = Capacity(descriptors: 100_000, ports: 1000, sources: 2, destinations: 3)
        #expect(ports.shortage(bots: 6000) == nil)
        #expect(ports.shortage(bots: 6001)?.contains("6000 are possible") == true)
        #expect(ports.shortage(bots: 2001, processes: 3)?.contains("2000 are possible") == true)
    }
}
