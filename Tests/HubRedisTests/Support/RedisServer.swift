import Glibc
import HubBase
import HubRedis

/// A redis-server of a test's own, on a socket in a directory of its own, without persistence. Stopped by pid when it goes out of use.
final class RedisServer {
    private(set) var pid: pid_t = 0
    let directory: String
    let arguments: [String]
    var socket: String { "\(directory)/redis.sock" }
    var url: String { "unix://\(socket)" }

    init(arguments: [String] = []) {
        var template = Array(("/tmp/hub-redis-" + String(repeating: "X", count: 6)).utf8CString)
        precondition(mkdtemp(&template) != nil)
        directory = template.withUnsafeBufferPointer { String(cString: $0.baseAddress!) }
        self.arguments = arguments
        start()
    }

    deinit {
        stop()
        unlink(socket)
        rmdir(directory)
    }

    func start() {
        precondition(pid == 0)
        let line =
            [
                "redis-server", "--port", "0", "--unixsocket", socket, "--save", "", "--appendonly", "no", "--dir", directory, "--logfile",
                "/dev/null",
            ] + arguments
        var words = line.map { strdup($0) }
        words.append(nil)
        defer { words.forEach { free($0) } }
        let result = posix_spawnp(&pid, "redis-server", nil, nil, words, environ)
        precondition(result == 0, "redis-server isn't installed")
        for _ in 0..<500 {
            if let client = RawClient(socket), client.text("PING") == "+PONG" { return }
            usleep(10_000)
        }
        fatalError("redis-server doesn't start")
    }

    /// As a crash, without a last save; what it held is gone.
    func stop() {
        guard pid != 0 else { return }
        kill(pid, SIGKILL)
        var status: Int32 = 0
        waitpid(pid, &status, 0)
        pid = 0
    }

    func freeze() { kill(pid, SIGSTOP) }
    func thaw() { kill(pid, SIGCONT) }

    func client() -> RawClient {
        guard let client = RawClient(socket) else { fatalError("can't connect to \(socket)") }
        return client
    }
}

/// A plain client that blocks, for looking and for meddling.
final class RawClient {
    private let descriptor: Int32
    private let reader = ReplyReader()

    init?(_ path: String) {
        descriptor = UnixSocket.make()
        if !UnixSocket.connect(descriptor, to: path) { return nil }
        var limit = timeval(tv_sec: 10, tv_usec: 0)
        setsockopt(descriptor, SOL_SOCKET, SO_RCVTIMEO, &limit, socklen_t(MemoryLayout<timeval>.size))
    }

    deinit { close(descriptor) }

    /// One command; hands over the reply.
    func call<Value>(_ words: [[UInt8]], _ body: (borrowing Reply) -> Value) -> Value? {
        var out = ByteBuffer(capacity: 256)
        out.command(words.count)
        for word in words { out.argument(word) }
        guard write(descriptor, out.bytes.baseAddress, out.count) == out.count else { return nil }
        var space = [UInt8](repeating: 0, count: 65_536)
        while true {
            if reader.next() == .reply { return body(reader.reply) }
            let count = read(descriptor, &space, space.count)
            if count <= 0 { return nil }
            space.withUnsafeBytes { reader.feed(UnsafeRawBufferPointer(rebasing: $0[..<count])) }
        }
    }

    func text(_ words: [[UInt8]]) -> String {
        call(words) { reply in
            var index = 0
            return ReplyReaderTests.describe(reply, &index)
        } ?? "no answer"
    }

    @discardableResult
    func text(_ words: String...) -> String { text(words.map { [UInt8]($0.utf8) }) }

    func strings(_ words: String...) -> [String] {
        call(words.map { [UInt8]($0.utf8) }) { reply in
            (0..<reply.count).compactMap { reply.string($0).map { String(decoding: $0, as: UTF8.self) } }
        } ?? []
    }
}
