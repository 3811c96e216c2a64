import Glibc
import HubNet
import Synchronization

/// Accepts on a socket of its own and says the same bytes to everybody, then nothing, with the connection open.
final class FakeServer {
    let path: String
    private let listener: Int32
    private let count: Shared
    private var thread: LoopThread?

    private final class Shared: Sendable {
        let accepted = Atomic<Int>(0)
    }

    var accepted: Int { count.accepted.load(ordering: .relaxed) }

    init(_ bytes: [UInt8]) {
        var template = Array(("/tmp/hub-fake-" + String(repeating: "X", count: 6)).utf8CString)
        precondition(mkdtemp(&template) != nil)
        let path = template.withUnsafeBufferPointer { String(cString: $0.baseAddress!) } + "/s"
        let listener = UnixSocket.listen(at: path)
        let count = Shared()
        self.path = path
        self.listener = listener
        self.count = count
        thread = try? LoopThread(name: "fake") {
            var open: [Int32] = []
            while true {
                let client = accept(listener, nil, nil)
                if client < 0 { break }
                open.append(client)
                count.accepted.wrappingAdd(1, ordering: .relaxed)
                _ = bytes.withUnsafeBytes { send(client, $0.baseAddress, $0.count, Int32(MSG_NOSIGNAL)) }
            }
            open.forEach { close($0) }
        }
    }

    deinit {
        // Wakes the thread out of accept.
        shutdown(listener, Int32(SHUT_RDWR))
        thread?.join()
        close(listener)
        unlink(path)
        rmdir(String(path.dropLast(2)))
    }
}
