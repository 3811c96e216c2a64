import Foundation
import Glibc
import HubNet
import Synchronization

/// A way to a Redis that can be stopped between two commands: from the first on that has `text` in it nothing more goes up on its
/// connection, until `release`. Answers come down at all times.
final class Relay {
    let path: String
    var url: String { "unix://\(path)" }
    private let listener: Int32
    private let gate: Gate
    private var thread: LoopThread?

    private struct Held {
        var text: [UInt8]?
        /// What waits, by the descriptor that it goes to.
        var bytes: [Int32: [UInt8]] = [:]
    }

    private final class Gate: Sendable {
        let held = Mutex(Held())

        /// Passes whole commands on, or keeps them.
        func pass(_ command: [UInt8], to descriptor: Int32) {
            held.withLock { held in
                if held.bytes[descriptor] != nil { return held.bytes[descriptor]! += command }
                if let text = held.text, Relay.contains(command[...], text) { return held.bytes[descriptor] = command }
                Relay.send(command[...], to: descriptor)
            }
        }
    }

    /// `server`: the path of the Redis's socket.
    init(to server: String) {
        path = server + ".relay"
        let listener = UnixSocket.listen(at: path)
        let gate = Gate()
        (self.listener, self.gate) = (listener, gate)
        thread = try? LoopThread(name: "relay") {
            var ways: [(client: Int32, server: Int32, threads: [LoopThread?])] = []
            while true {
                let client = accept(listener, nil, nil)
                if client < 0 { break }
                let up = UnixSocket.make()
                precondition(UnixSocket.connect(up, to: server), "nobody listens at \(server)")
                let threads = [
                    try? LoopThread(name: "relay up") { Relay.carryCommands(from: client, to: up, gate) },
                    try? LoopThread(name: "relay down") { Relay.carry(from: up) { Relay.send($0, to: client) } },
                ]
                ways.append((client, up, threads))
            }
            for way in ways {
                shutdown(way.client, Int32(SHUT_RDWR))
                shutdown(way.server, Int32(SHUT_RDWR))
                way.threads.forEach { $0?.join() }
                close(way.client)
                close(way.server)
            }
        }
    }

    deinit {
        shutdown(listener, Int32(SHUT_RDWR))
        thread?.join()
        close(listener)
        unlink(path)
    }

    /// Stops before the first command that has `text` in it.
    func hold(before text: String) { gate.held.withLock { $0.text = [UInt8](text.utf8) } }

    /// Whether a command with `text` in it is kept.
    func isHolding(_ text: String) -> Bool {
        gate.held.withLock { $0.bytes.values.contains { Relay.contains($0[...], [UInt8](text.utf8)) } }
    }

    /// Lets go what was kept, and keeps nothing any more.
    func release() {
        gate.held.withLock { held in
            for (descriptor, bytes) in held.bytes { Relay.send(bytes[...], to: descriptor) }
            held = Held()
        }
    }

    // MARK: Bytes

    private static func carryCommands(from client: Int32, to server: Int32, _ gate: Gate) {
        var bytes: [UInt8] = []
        carry(from: client) { piece in
            bytes += piece
            while let end = commandEnd(bytes) {
                gate.pass(Array(bytes[..<end]), to: server)
                bytes.removeFirst(end)
            }
        }
        shutdown(server, Int32(SHUT_WR))
    }

    /// Where the first command ends, an array of bulk strings; nil while it isn't whole.
    private static func commandEnd(_ bytes: [UInt8]) -> Int? {
        func number(at place: inout Int) -> Int? {
            guard let end = bytes[place...].firstIndex(of: 13), end + 1 < bytes.count else { return nil }
            defer { place = end + 2 }
            return Int(String(decoding: bytes[(place + 1)..<end], as: UTF8.self))
        }
        var place = 0
        guard !bytes.isEmpty, let count = number(at: &place) else { return nil }
        for _ in 0..<count {
            guard place < bytes.count, let length = number(at: &place) else { return nil }
            place += length + 2
            guard place <= bytes.count else { return nil }
        }
        return place
    }

    private static func carry(from descriptor: Int32, _ body: (ArraySlice<UInt8>) -> Void) {
        var space = [UInt8](repeating: 0, count: 65_536)
        while true {
            let count = read(descriptor, &space, space.count)
            if count <= 0 { return }
            body(space[..<count])
        }
    }

    private static func send(_ bytes: ArraySlice<UInt8>, to descriptor: Int32) {
        var rest = bytes
        while !rest.isEmpty {
            let count = rest.withUnsafeBytes { Glibc.send(descriptor, $0.baseAddress, $0.count, Int32(MSG_NOSIGNAL)) }
            if count <= 0 { return }
            rest = rest.dropFirst(count)
        }
    }

    private static func contains(_ bytes: ArraySlice<UInt8>, _ text: [UInt8]) -> Bool { Data(bytes).range(of: Data(text)) != nil }
}
