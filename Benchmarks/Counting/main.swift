// What a delivery and a publication cost in allocations and retains, a change of presence in allocations, and an idle connection in memory.
// Counts, not times: the result doesn't depend on the machine's mood.
//
//   bench-count             prints the counts, and fails when one is over its limit; embedded
//   bench-count --redis REDIS   the same of a delivery and a publication on that Redis, in this process: the loop, the backplane and its links
//   bench-count --sites     also prints which addresses a publication's counts come from (addr2line -e names them)
//   bench-count --idle [REDIS]   prints the live bytes of the heap for each idle connection instead, on the embedded broker or that Redis
//   bench-count --idle [REDIS] --sites   also prints which ways of calls allocated them
//
// One node in this process, one loop; the driver is C and allocates nothing between the two readings of the counters.
import CCounting
import Foundation
import HubCore
import HubGateway
import HubNet

let deliveriesFree = (allocations: 0.0, retains: 0.0)
// Measured: 7 and 66. The retains may differ from run to run because looking a message id up in the embedded broker's table compares
// with the keys that happen to lie before it, and hashes are seeded anew for each process; so the limit leaves room for that.
let embeddedLimit = (allocations: 8.0, retains: 80.0)
// Measured: 16 and 275, of them 6 allocations of the loop.
let redisLimit = (allocations: 17.0, retains: 300.0)
let rounds = 400
// Live bytes of the heap for a connection that is authenticated, subscribed to a channel of ten, has its inbox, and shows its presence.
let idleLimit = (embedded: 1_250.0, redis: 1_080.0)
let idleArgument = CommandLine.arguments.firstIndex(of: "--idle")
let redis = (idleArgument ?? CommandLine.arguments.firstIndex(of: "--redis"))
    .flatMap { CommandLine.arguments.indices.contains($0 + 1) ? CommandLine.arguments[$0 + 1] : nil }
    .flatMap { $0.hasPrefix("--") ? nil : $0 }
let publicationLimit = redis == nil ? embeddedLimit : redisLimit
let showsSites = CommandLine.arguments.contains("--sites")

func fail(_ text: String) -> Never {
    FileHandle.standardError.write(Data("bench-count: \(text)\n".utf8))
    exit(1)
}

// Both ends of thousands of connections are this process's.
var descriptors = rlimit()
getrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &descriptors)
descriptors.rlim_cur = descriptors.rlim_max
setrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &descriptors)

var configuration = Configuration()
configuration.listen = ["127.0.0.1:0"]
configuration.isDevelopment = true
configuration.loops = 1
configuration.logLevel = .error
// No traffic of its own while we count, and what those leave who have gone is soon over.
configuration.presence.grace = .milliseconds(200)
configuration.ping = .seconds(600)
configuration.redis.url = redis
configuration.limits.acceptsPerSecond = 1_000_000

let node: Node
do {
    node = try Node(configuration, log: Log(level: .error, format: .text))
} catch {
    fail("\(error)")
}
let port = Int32(node.addresses[0].port)

func open(_ user: String) -> Int32 {
    for _ in 0..<200 {
        let socket = hub_drive_open(port, "/v1/ws?user=\(user)")
        if socket >= 0 { return socket }
        usleep(10_000)
    }
    fail("can't open a connection")
}

func reading() -> (allocations: Double, retains: Double, time: Double) {
    let counts = hub_counts_now()
    return (Double(counts.allocations), Double(counts.retains), Double(Node.monotonicNow().nanoseconds))
}

/// Allocations and retains of `rounds` publications to `subscribers`.
func measure(subscribers: Int, name: String) -> (allocations: Double, retains: Double) {
    // A Redis may have had this program before.
    let channel = "\(name)-\(ProcessInfo.processInfo.processIdentifier)"
    let publisher = open("publisher")
    let sockets = (0..<subscribers).map { open("reader-\($0)") }
    for socket in sockets {
        guard hub_drive_send(socket, "{\"type\":\"subscribe\",\"id\":1,\"channel\":\"\(channel)\"}") == 0,
            hub_drive_expect(socket, "\"ack\"", 1) == 0
        else { fail("can't subscribe") }
    }
    let text =
        "{\"type\":\"chat\",\"channel\":\"\(channel)\",\"messageId\":\"m0123456789\",\"payload\":{\"text\":\"\(String(repeating: "x", count: 100))\"}}"
    // A message id that repeats is a duplicate: without one the hub makes it.
    let fresh = text.replacingOccurrences(of: "\"messageId\":\"m0123456789\",", with: "")
    // Offsets of one length: from 1000 on.
    var bytes = 0
    for _ in 0..<1100 {
        guard hub_drive_send(publisher, fresh) == 0 else { fail("can't publish") }
    }
    for socket in sockets { guard hub_drive_expect(socket, "\"offset\":1100,", 1) == 0 else { fail("publications are missing") } }
    usleep(300_000)
    var sink = [UInt8](repeating: 0, count: 65536)
    for socket in sockets { while recv(socket, &sink, sink.count, Int32(MSG_DONTWAIT)) > 0 {} }
    bytes = hub_drive_measure(publisher, fresh, sockets[0])
    guard bytes > 100 else { fail("a publication of \(bytes) bytes can't be right") }
    for socket in sockets { while recv(socket, &sink, sink.count, Int32(MSG_DONTWAIT)) > 0 {} }

    // What the node does by itself (timers, presence) goes by time, not by publications: measured idle, and taken off.
    let idle = reading()
    usleep(500_000)
    let background = (idle, reading())
    if showsSites && name == "few" { hub_counts_sites(1) }
    let before = reading()
    let result = sockets.withUnsafeBufferPointer {
        hub_drive_rounds(publisher, fresh, $0.baseAddress, Int32(sockets.count), bytes, Int32(rounds))
    }
    let after = reading()
    hub_counts_sites(0)
    guard result == 0 else { fail("publications are missing") }
    let share = (after.time - before.time) / (background.1.time - background.0.time)
    for socket in sockets + [publisher] { close(socket) }
    return (
        after.allocations - before.allocations - share * (background.1.allocations - background.0.allocations),
        after.retains - before.retains - share * (background.1.retains - background.0.retains)
    )
}

/// Allocations of three changes of two users whom `watchers` of `people` connections watch: what the others cost by themselves is in every figure.
func measureWatching(_ watchers: Int, of people: Int) -> Double {
    let everybody = (0..<people).map { open("watcher-\($0)") }
    let sockets = Array(everybody.prefix(watchers))
    let watched = ["anna", "bert"].map { open("\($0)-\(watchers)") }
    for socket in sockets {
        guard hub_drive_send(socket, "{\"type\":\"watch\",\"id\":1,\"users\":[\"anna-\(watchers)\",\"bert-\(watchers)\"]}") == 0,
            hub_drive_expect(socket, "\"ack\"", 1) == 0
        else { fail("can't watch") }
    }
    func change(to status: String) {
        for socket in watched {
            guard hub_drive_send(socket, "{\"type\":\"presence\",\"payload\":{\"status\":\"\(status)\"}}") == 0 else {
                fail("can't set a status")
            }
        }
        let isTold = sockets.withUnsafeBufferPointer {
            hub_drive_expect_each($0.baseAddress, Int32(watchers), "\"status\":\"\(status)\"", 2) == 0
        }
        guard isTold else { fail("changes of presence are missing") }
        // A connection's changes reach the store every two seconds at most.
        usleep(2_300_000)
    }
    change(to: "away")
    settle()
    let before = reading()
    for status in ["online", "away", "online"] { change(to: status) }
    let after = reading()
    for socket in everybody + watched { close(socket) }
    return after.allocations - before.allocations
}

/// Until what opening and closing connections have left to do is done.
func settle() {
    var last = Double.infinity
    for _ in 0..<40 {
        let before = reading()
        usleep(500_000)
        let now = reading().allocations - before.allocations
        // Twice the same, but for a timer.
        if abs(now - last) <= 20 + last * 0.1 { return }
        last = now
    }
    fail("the node does not come to rest")
}

/// Live bytes for each of 3,000 connections behind the first 500.
func measureIdle() -> Double {
    var sockets: [Int32] = []
    func reach(_ count: Int) -> Int64 {
        while sockets.count < count {
            let number = sockets.count
            let socket = open("u\(number)")
            guard hub_drive_send(socket, "{\"type\":\"subscribe\",\"id\":1,\"channel\":\"c\(number / 10)\"}") == 0,
                hub_drive_expect(socket, "\"ack\"", 1) == 0
            else { fail("can't subscribe") }
            sockets.append(socket)
        }
        // What belongs to the opening is over: presence is stored, and its pace has passed.
        usleep(4_000_000)
        return hub_counts_now().live
    }
    sockets.reserveCapacity(3_500)
    let before = reach(500)
    if showsSites { hub_counts_blocks(1) }
    let after = reach(3_500)
    hub_counts_blocks(0)
    if showsSites { hub_counts_print_blocks(3_000 * 4) }
    for socket in sockets { close(socket) }
    return Double(after - before) / 3_000
}

if idleArgument != nil {
    let limit = redis == nil ? idleLimit.embedded : idleLimit.redis
    let bytes = measureIdle()
    print(String(format: "each idle connection: %.0f bytes of the heap (limit %.0f)", bytes, limit))
    print(bytes <= limit ? "ok" : "over the limit")
    _ = node.stop(impatient: { true })
    exit(bytes <= limit ? 0 : 1)
}

let few = measure(subscribers: 10, name: "few")
let many = measure(subscribers: 510, name: "many")
let deliveries = Double(500 * rounds)
let delivery = (allocations: (many.allocations - few.allocations) / deliveries, retains: (many.retains - few.retains) / deliveries)
let publication = (allocations: few.allocations / Double(rounds), retains: few.retains / Double(rounds))
var watcher = 0.0
if redis == nil {
    settle()
    let few = measureWatching(10, of: 510)
    settle()
    watcher = (measureWatching(510, of: 510) - few) / (3 * 500)
    print(String(format: "each watcher:     %.4f allocations (limit 0)", watcher))
}
print(String(format: "each delivery:    %.4f allocations, %.4f retains (limit 0)", delivery.allocations, delivery.retains))
print(
    String(
        format: "each publication: %.2f allocations (limit %.0f), %.2f retains (limit %.0f)", publication.allocations,
        publicationLimit.allocations, publication.retains, publicationLimit.retains))
_ = node.stop(impatient: { true })
if showsSites { hub_counts_print_sites(UInt64(rounds / 4)) }
// A timer or a growing table may allocate once in the while; a cost for each delivery would be a whole number.
let isFree = delivery.allocations < deliveriesFree.allocations + 0.1 && delivery.retains < deliveriesFree.retains + 0.1
let isSmall = publication.allocations <= publicationLimit.allocations && publication.retains <= publicationLimit.retains
// Below zero something else was counted: that would hide as much.
let isToldFreely = abs(watcher) < 0.1
print(isFree && isSmall && isToldFreely ? "ok" : "over the limit")
exit(isFree && isSmall && isToldFreely ? 0 : 1)
