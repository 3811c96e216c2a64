// The network engine alone: a pub/sub of forty lines over HubNet, in the protocol of the peers' tiny servers ("s7" subscribes to channel 7
// and is answered "ok"; "p7 BYTES" is sent to its subscribers as it came). What hubd costs above this is the hub's own work.
//
//   swift build -c release --product bench-net && .build/release/bench-net PORT [CORE]
//   fanload --port PORT --sub-msg 's%d' --ack ok --pub-msg 'p%d %b' …
import CHubShims
import HubBase
import Glibc
import HubNet

final class Server: LoopHandler, ServerHandler {
    let loop: NetLoop
    var members: [[UInt32]] = []

    init(_ loop: NetLoop) { self.loop = loop }

    func woken() {}
    func timerFired(kind: UInt32, value: UInt64) {}
    func turnEnding() {}
    func opened(_ id: ConnectionID) {}
    func request(_ request: borrowing HTTPRequest, on id: ConnectionID) -> RequestOutcome { .upgrade(subprotocol: nil) }

    func message(_ bytes: UnsafeRawBufferPointer, _ kind: MessageKind, on id: ConnectionID) {
        guard bytes.count >= 2 else { return }
        var channel = 0
        for byte in bytes.dropFirst().prefix(9) {
            guard byte >= 48, byte <= 57 else { break }
            channel = channel * 10 + Int(byte - 48)
        }
        guard channel < 1_000_000 else { return }
        while members.count <= channel { members.append([]) }
        if bytes[0] == UInt8(ascii: "s") {
            members[channel].append(id.index)
            loop.sendMessage(.text, to: id, as: .reply) { $0.append("ok") }
        } else {
            let frame = loop.makeFrame(.text) { $0.append(bytes) }
            members[channel].withUnsafeBufferPointer { loop.broadcast(frame, to: $0, as: .publication) }
        }
    }

    func closed(_ id: ConnectionID, _ end: ConnectionEnd) {
        for channel in members.indices { members[channel].removeAll { $0 == id.index } }
    }
}

hub_ignore_sigpipe()
let arguments = CommandLine.arguments
guard arguments.count >= 2, let address = SocketAddress("127.0.0.1:\(arguments[1])") else {
    print("usage: bench-net PORT [CORE]")
    exit(2)
}
let core = arguments.count > 2 ? Int(arguments[2]) : nil
let loop = try NetLoop(NetLoop.Options(name: "bench", core: core))
let server = Server(loop)
loop.handler = server
loop.server = server
loop.serve(try ListenSocket.open(address, count: 1)[0].take())
loop.run()
