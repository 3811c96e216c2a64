import CHubShims
import Glibc
import HubBase
import HubCore
import HubNet
import HubWire
import Synchronization

/// Revocations of an embedded node, on the disk before anybody is told that they hold: a snapshot of all comes too late for whoever pulls the plug
/// (decision 0271). `PATH.revocations` beside the snapshot, whose lock keeps other nodes out.
///
/// A thread of its own writes what has come since its last write, and waits for the disk once for all of that.
///
/// `@unchecked Sendable`: what's to be written is behind the mutex; the file is the thread's, once it runs; `thread` is set before anybody else sees it.
final class RevocationJournal: @unchecked Sendable {
    struct Entry: Sendable {
        var publication: Publication
        var revocation: Revocation
        var tag: RequestTag
    }

    private struct State: Sendable {
        var waiting: [Entry] = []
        var isStopped = false
    }

    let path: String
    /// What held when it was opened.
    let known: [Revocation]
    private var file: Int32
    private var held: RevocationList
    private var bytes: Int
    private var isTorn = false
    private let wake: Int32
    private let state = Mutex(State())
    private var thread: LoopThread?

    /// Beyond it they're refused: come back.
    private static let waitingMax = 1_000
    /// Where the file is written anew, with those that hold.
    private static let bytesMax = 8 << 20
    /// A file of ours is never larger.
    private static let readMax = 64 << 20

    /// Reads what's there, and writes it anew without what has ended.
    init(_ path: String, log: Log) throws(NetError) {
        self.path = path
        let found = RevocationRecords.read(try RevocationJournal.contents(path))
        var list = RevocationList()
        for revocation in found.revocations { list.add(revocation) }
        list.expire(at: WallClock.milliseconds())
        if let place = found.damagedFrom {
            // A last record that was never answered is what a pulled plug leaves; anything else is for people to look at.
            let aside = "\(path).damaged"
            unlink(aside)
            guard link(path, aside) == 0 else { throw SnapshotFile.failed("link \(aside)") }
            log.warning(
                "revocations.damaged",
                [
                    "file": path, "movedTo": aside,
                    "message": "what begins at byte \(place) can't be read; the \(found.revocations.count) revocations before it count",
                ])
        }
        held = list
        known = list.tokens
        bytes = 0
        file = -1
        wake = eventfd(0, Int32(EFD_CLOEXEC | EFD_NONBLOCK))
        guard wake >= 0 else { throw SnapshotFile.failed("eventfd for \(path)") }
        try rewrite()
    }

    deinit {
        if file >= 0 { close(file) }
        close(wake)
    }

    /// `deliver` is called on the journal's thread: what is on the disk now, or why it isn't.
    func start(_ deliver: @escaping @Sendable ([Entry], NetError?) -> Void) throws(NetError) {
        thread = try LoopThread(name: "hub-revocations") { [self] in run(deliver) }
    }

    /// Any thread. False: too many wait.
    func add(_ entry: Entry) -> Bool {
        let isTaken = state.withLock { state in
            guard state.waiting.count < Self.waitingMax, !state.isStopped else { return false }
            state.waiting.append(entry)
            return true
        }
        stir()
        return isTaken
    }

    /// Writes what waits, and ends. Once.
    func stop() {
        state.withLock { $0.isStopped = true }
        stir()
        thread?.join()
    }

    private func stir() {
        var one: UInt64 = 1
        _ = Glibc.write(wake, &one, 8)
    }

    // MARK: Its thread

    private func run(_ deliver: ([Entry], NetError?) -> Void) {
        while true {
            let (entries, isStopped) = state.withLock { state in
                defer { state.waiting = [] }
                return (state.waiting, state.isStopped)
            }
            if entries.isEmpty {
                if isStopped { return }
                var entry = pollfd(fd: wake, events: Int16(POLLIN), revents: 0)
                _ = poll(&entry, 1, -1)
                var count: UInt64 = 0
                _ = read(wake, &count, 8)
                continue
            }
            do throws(NetError) {
                try write(entries.map(\.revocation))
                deliver(entries, nil)
            } catch { deliver(entries, error) }
        }
    }

    private func write(_ revocations: [Revocation]) throws(NetError) {
        held.expire(at: WallClock.milliseconds())
        for revocation in revocations { held.add(revocation) }
        // A part of a record may be there since the last failure: nothing behind it would be read.
        if isTorn || bytes > Self.bytesMax { return try rewrite() }
        var out = ByteBuffer(capacity: 256 * revocations.count)
        for revocation in revocations { RevocationRecords.append(revocation, to: &out) }
        isTorn = true
        try put(out, into: file, path)
        guard fsync(file) == 0 else { throw SnapshotFile.failed("fsync \(path)") }
        isTorn = false
        bytes += out.count
    }

    /// All that hold, in a new file that takes the old one's place when it's on the disk.
    private func rewrite() throws(NetError) {
        isTorn = true
        let next = "\(path).new"
        let descriptor = open(next, O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0o600)
        guard descriptor >= 0 else { throw SnapshotFile.failed("open \(next)") }
        var out = ByteBuffer(capacity: 1 << 16)
        out.append(RevocationRecords.magic)
        for revocation in held.tokens { RevocationRecords.append(revocation, to: &out) }
        do throws(NetError) {
            try put(out, into: descriptor, next)
            guard fsync(descriptor) == 0 else { throw SnapshotFile.failed("fsync \(next)") }
            guard rename(next, path) == 0 else { throw SnapshotFile.failed("rename \(next)") }
            try SnapshotFile.settleFolder(of: path)
        } catch {
            close(descriptor)
            throw error
        }
        if file >= 0 { close(file) }
        file = descriptor
        bytes = out.count
        isTorn = false
    }

    private func put(_ out: borrowing ByteBuffer, into descriptor: Int32, _ path: String) throws(NetError) {
        var place = 0
        while place < out.count {
            let count = Glibc.write(descriptor, out.bytes.baseAddress.map { $0 + place }, out.count - place)
            if count < 0 && errno == EINTR { continue }
            guard count > 0 else { throw SnapshotFile.failed("write \(path)") }
            place += count
        }
    }

    private static func contents(_ path: String) throws(NetError) -> [UInt8] {
        let file = open(path, O_RDONLY | O_CLOEXEC)
        if file < 0 {
            if errno == ENOENT { return [] }
            throw SnapshotFile.failed("open \(path)")
        }
        defer { close(file) }
        var facts = stat()
        guard fstat(file, &facts) == 0 else { throw SnapshotFile.failed("stat \(path)") }
        guard facts.st_size <= readMax else {
            throw NetError(number: 0, description: "\(path) has \(facts.st_size) bytes: that's no hub's")
        }
        var bytes = [UInt8](repeating: 0, count: Int(facts.st_size))
        var place = 0
        while place < bytes.count {
            let count = bytes.withUnsafeMutableBytes { pread(file, $0.baseAddress.map { $0 + place }, $0.count - place, off_t(place)) }
            if count < 0 && errno == EINTR { continue }
            guard count >= 0 else { throw SnapshotFile.failed("read \(path)") }
            guard count > 0 else { break }
            place += count
        }
        return Array(bytes.prefix(place))
    }
}
