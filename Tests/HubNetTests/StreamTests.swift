import Glibc
import HubBase
import HubNet
import Testing

/// A blocking server for one stream after another, on a thread of its own.
private final class Listener {
    let descriptor: Int32
    let address: SocketAddress

    init(unixPath: String? = nil) throws {
        let wanted = unixPath.map { SocketAddress(unixPath: $0) } ?? SocketAddress("127.0.0.1:0")!
        let socket = try ListenSocket.open(wanted, count: 1)[0].take()
        address = socket.address
        descriptor = dup(socket.descriptor)
        _ = consume socket
        _ = fcntl(descriptor, F_SETFL, 0)
    }

    deinit { close(descriptor) }

    func accept() -> Int32 {
        let accepted = Glibc.accept(descriptor, nil, nil)
        if accepted < 0 { Issue.record("accept: errno \(errno)") }
        return accepted
    }

    static func read(_ descriptor: Int32, _ count: Int) -> [UInt8] {
        var bytes = [UInt8](repeating: 0, count: count)
        var filled = 0
        while filled < count {
            let got = bytes.withUnsafeMutableBytes { recv(descriptor, $0.baseAddress! + filled, count - filled, 0) }
            if got < 0 { Issue.record("recv: errno \(errno) of \(descriptor)") }
            guard got > 0 else { break }
            filled += got
        }
        return [UInt8](bytes[..<filled])
    }
}

private final class Script: StreamHandler {
    enum Event: Equatable, Sendable {
        case opened
        case received([UInt8])
        case ended(String)
    }

    let events: Watch<Event>
    var onOpened: ((ByteStream) -> Void)?
    var onReceived: ((ByteStream) -> Void)?
    var onEnded: ((ByteStream) -> Void)?

    init(_ events: Watch<Event>) { self.events = events }

    func streamOpened(_ stream: ByteStream) {
        events.note(.opened)
        onOpened?(stream)
    }

    func streamReceived(_ stream: ByteStream, _ bytes: UnsafeRawBufferPointer) {
        events.note(.received([UInt8](bytes)))
        onReceived?(stream)
    }

    func streamEnded(_ stream: ByteStream, _ reason: NetError) {
        events.note(.ended(reason.description))
        onEnded?(stream)
    }
}

/// Keeps handlers alive on the loop's thread.
private final class Keeper {
    var scripts: [Script] = []
    var streams: [ByteStream] = []
}

@Suite struct StreamTests {
    /// A loop whose handler's `onTimer` holds a keeper; streams are opened by `open`.
    private static func open(
        _ fixture: LoopFixture, _ address: SocketAddress, _ events: Watch<Script.Event>, deadline: Span = .seconds(5),
        _ setUp: @escaping @Sendable (Script, ByteStream, NetLoop) -> Void = { _, _, _ in }
    ) {
        fixture.perform { loop, handler in
            let script = Script(events)
            let stream = loop.openStream(to: address, connectDeadline: deadline, handler: script)
            setUp(script, stream, loop)
            let keeper = Keeper()
            keeper.scripts.append(script)
            keeper.streams.append(stream)
            // Held until the loop goes.
            let before = handler.onTimer
            handler.onTimer = { kind, value in
                before?(kind, value)
                withExtendedLifetime(keeper) {}
            }
        }
    }

    @Test("bytes go both ways over TCP and over a Unix path; what's written before the connect leaves after it", arguments: [false, true])
    func bothWays(isUnix: Bool) throws {
        let path = "/tmp/hub-stream-\(getpid())-\(UInt32.random(in: 0 ... .max))"
        defer { if isUnix { unlink(path) } }
        let listener = try Listener(unixPath: isUnix ? path : nil)
        let fixture = try LoopFixture()
        let events = Watch<Script.Event>()
        Self.open(fixture, listener.address, events) { _, stream, _ in
            [UInt8]("hel".utf8).withUnsafeBytes { stream.write($0) }
            stream.write { $0.append("lo") }
            #expect(stream.queuedBytes == 5)
        }
        let peer = listener.accept()
        #expect(Listener.read(peer, 5) == [UInt8]("hello".utf8))
        _ = Glibc.send(peer, "world", 5, 0)
        #expect(events.wait(for: 2) == [.opened, .received([UInt8]("world".utf8))])
        close(peer)
        #expect(events.wait(for: 3).last == .ended("\(listener.address): end of stream"))
    }

    @Test("20 MB to a peer that reads late arrive whole")
    func blocks() throws {
        let listener = try Listener()
        let fixture = try LoopFixture()
        let events = Watch<Script.Event>()
        let size = 20_000_000
        Self.open(fixture, listener.address, events) { script, stream, _ in
            script.onOpened = { stream in
                for part in 0..<20 {
                    [UInt8](repeating: UInt8(part), count: size / 20).withUnsafeBytes { stream.write($0) }
                }
            }
        }
        let peer = listener.accept()
        events.wait(for: 1)
        _ = fixture.counters
        let bytes = Listener.read(peer, size)
        #expect(bytes.count == size)
        for part in 0..<20 { #expect(bytes[part * size / 20] == UInt8(part) && bytes[(part + 1) * size / 20 - 1] == UInt8(part)) }
        close(peer)
        events.wait(for: 2)
    }

    @Test("a refused connect and one without an answer are told, after openStream has returned")
    func failures() throws {
        let listener = try Listener()
        let address = listener.address
        shutdown(listener.descriptor, Int32(SHUT_RDWR))
        let fixture = try LoopFixture()
        let events = Watch<Script.Event>()
        Self.open(fixture, address, events) { _, _, _ in #expect(events.all.isEmpty) }
        #expect(events.wait(for: 1) == [.ended("connect \(address): Connection refused")])
        let unix = Watch<Script.Event>()
        Self.open(fixture, SocketAddress(unixPath: "/nonexistent/socket"), unix) { _, _, _ in #expect(unix.all.isEmpty) }
        #expect(unix.wait(for: 1) == [.ended("connect unix:/nonexistent/socket: No such file or directory")])
        let long = Watch<Script.Event>()
        Self.open(fixture, SocketAddress(unixPath: String(repeating: "x", count: 200)), long)
        #expect(long.wait(for: 1).count == 1)
        // 192.0.2.0/24 is nobody's (RFC 5737): no answer, or no route.
        let nowhere = Watch<Script.Event>()
        Self.open(fixture, SocketAddress("192.0.2.1:9")!, nowhere, deadline: .milliseconds(100))
        guard case .ended(let reason)? = nowhere.wait(for: 1).first else {
            Issue.record("no end")
            return
        }
        #expect(reason.hasPrefix("connect 192.0.2.1:9: "))
    }

    @Test("a handler may close its stream in any callback, and open the next one: nothing more is told of the first")
    func closesInside() throws {
        let listener = try Listener()
        let fixture = try LoopFixture()
        let first = Watch<Script.Event>()
        Self.open(fixture, listener.address, first) { script, _, _ in
            script.onReceived = { stream in
                stream.close()
                stream.close()
                [1, 2, 3].withUnsafeBytes { stream.write($0) }
                #expect(stream.state == .closed)
            }
        }
        let peer = listener.accept()
        _ = Glibc.send(peer, "abc", 3, 0)
        #expect(Listener.read(peer, 1).isEmpty, "closed by the other end")
        #expect(first.wait(for: 2) == [.opened, .received([UInt8]("abc".utf8))])
        let second = Watch<Script.Event>()
        Self.open(fixture, listener.address, second) { script, _, loop in
            script.onEnded = { [unowned script] stream in
                stream.close()
                if second.all.count < 4 {
                    let next = loop.openStream(to: stream.address, connectDeadline: .seconds(5), handler: script)
                    #expect(next.state == .connecting)
                }
            }
        }
        for _ in 0..<2 { close(listener.accept()) }
        let end = Script.Event.ended("\(listener.address): end of stream")
        #expect(second.wait(for: 4) == [.opened, end, .opened, end])
        #expect(first.all.count == 2)
        close(peer)
    }

    @Test("what's written in a turn leaves together, a stop closes without a word")
    func stops() throws {
        let listener = try Listener()
        let fixture = try LoopFixture()
        let events = Watch<Script.Event>()
        Self.open(fixture, listener.address, events)
        let peer = listener.accept()
        events.wait(for: 1)
        fixture.stop()
        #expect(Listener.read(peer, 1).isEmpty)
        #expect(events.all == [.opened])
        close(peer)
    }
}
