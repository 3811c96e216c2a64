import Glibc
import HubBase
import HubCore
import HubNet

/// The file in which snapshots of the embedded broker lie, ours alone as long as the process lives. A new one is written beside it
/// (`PATH.new`), and takes its place when all of it is on the disk; `PATH.lock` keeps a second node out.
///
/// `@unchecked Sendable`: nothing of it changes after `init`.
final class SnapshotFile: @unchecked Sendable {
    let path: String
    private let lock: Int32

    enum Loaded {
        case nothing
        /// It was moved out of the way, to `movedTo`.
        case damaged(String, movedTo: String)
        /// `keepsEpochs`: it holds all that was ever handed out, and says so no longer.
        case snapshot([ChannelImage], Generation?, keepsEpochs: Bool)
    }

    /// Fails when another process has it, or when nothing can be written there: better at the start than when it's needed.
    init(_ path: String) throws(NetError) {
        self.path = path
        lock = open("\(path).lock", O_RDWR | O_CREAT | O_CLOEXEC, 0o600)
        guard lock >= 0 else { throw SnapshotFile.failed("open \(path).lock") }
        guard flock(lock, LOCK_EX | LOCK_NB) == 0 else {
            let error =
                errno == EWOULDBLOCK
                ? NetError(number: EWOULDBLOCK, description: "another process uses the snapshot \(path)")
                : SnapshotFile.failed("lock \(path)")
            close(lock)
            throw error
        }
        let trial = open("\(path).new", O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0o600)
        guard trial >= 0 else { throw SnapshotFile.failed("open \(path).new") }
        close(trial)
        unlink("\(path).new")
    }

    deinit { close(lock) }

    static func failed(_ what: String) -> NetError {
        let number = errno
        return NetError(number: number, description: "\(what): \(String(cString: strerror(number)))")
    }

    /// A new name in its folder has to be on the disk too.
    static func settleFolder(of path: String) throws(NetError) {
        let folder = path.lastIndex(of: "/").map { $0 == path.startIndex ? "/" : String(path[..<$0]) } ?? "."
        let directory = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC)
        guard directory >= 0 else { throw failed("open \(folder)") }
        defer { close(directory) }
        guard fsync(directory) == 0 else { throw failed("fsync \(folder)") }
    }

    /// Reads what's there, for a node that starts. A clean one is marked as no longer clean before this returns: what's handed out from now
    /// on isn't in it.
    func load(limits: MemoryLimits, at now: Instant, wallClock: UInt64) throws(NetError) -> Loaded {
        let file = open(path, O_RDWR | O_CLOEXEC)
        if file < 0 {
            if errno == ENOENT { return .nothing }
            throw SnapshotFile.failed("open \(path)")
        }
        defer { close(file) }
        var facts = stat()
        guard fstat(file, &facts) == 0 else { throw SnapshotFile.failed("stat \(path)") }
        let snapshot: Snapshot
        do throws(SnapshotDamage) {
            snapshot = try decode(file, size: Int(facts.st_size), limits, now, wallClock)
        } catch {
            let aside = "\(path).damaged"
            guard rename(path, aside) == 0 else { throw SnapshotFile.failed("rename \(path)") }
            return .damaged(error.description, movedTo: aside)
        }
        guard snapshot.isClean else { return .snapshot(snapshot.channels, nil, keepsEpochs: false) }
        let header = SnapshotFormat.header(isClean: false, wallClock: snapshot.wallClock)
        guard pwrite(file, header, header.count, 0) == header.count, fsync(file) == 0 else { throw SnapshotFile.failed("write \(path)") }
        return .snapshot(snapshot.channels, snapshot.generation, keepsEpochs: true)
    }

    /// The file is mapped, not copied: what's kept of it is.
    private func decode(
        _ file: Int32, size: Int, _ limits: MemoryLimits, _ now: Instant, _ wallClock: UInt64
    ) throws(SnapshotDamage) -> Snapshot {
        guard size > 0, let base = mmap(nil, size, PROT_READ, MAP_PRIVATE, file, 0), base != MAP_FAILED else { throw .notASnapshot }
        defer { munmap(base, size) }
        return try SnapshotDecoder.decode(UnsafeRawBufferPointer(start: base, count: size), limits: limits, at: now, wallClock: wallClock)
    }
}

/// Writes one snapshot.
///
/// `@unchecked Sendable`: one thread at a time has it; each hands it on by starting or joining a thread.
final class SnapshotWriter: @unchecked Sendable {
    private let path: String
    private var descriptor: Int32
    private var encoder: SnapshotEncoder
    private var out = ByteBuffer(capacity: 1 << 20)
    private(set) var bytes = 0

    private static let flushBytes = 1 << 20

    init(_ file: SnapshotFile, _ generation: Generation, isClean: Bool, at now: Instant, wallClock: UInt64) throws(NetError) {
        path = file.path
        encoder = SnapshotEncoder(at: now)
        descriptor = open("\(file.path).new", O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0o600)
        guard descriptor >= 0 else { throw SnapshotFile.failed("open \(path).new") }
        out.append(SnapshotFormat.header(isClean: isClean, wallClock: wallClock))
        encoder.append(generation, to: &out)
    }

    deinit { discard() }

    func append(_ images: [ChannelImage]) throws(NetError) {
        for image in images {
            encoder.append(image, to: &out)
            if out.count >= SnapshotWriter.flushBytes { try flush() }
        }
    }

    /// All is there: takes the place of the last one, once it's on the disk.
    func finish() throws(NetError) {
        encoder.finish(&out)
        try flush()
        guard fsync(descriptor) == 0 else { throw SnapshotFile.failed("fsync \(path).new") }
        close(descriptor)
        descriptor = -1
        guard rename("\(path).new", path) == 0 else { throw SnapshotFile.failed("rename \(path).new") }
        try SnapshotFile.settleFolder(of: path)
    }

    /// Gives it up; the last one stays.
    func discard() {
        guard descriptor >= 0 else { return }
        close(descriptor)
        descriptor = -1
        unlink("\(path).new")
    }

    private func flush() throws(NetError) {
        var place = 0
        while place < out.count {
            let count = write(descriptor, out.bytes.baseAddress.map { $0 + place }, out.count - place)
            if count < 0 && errno == EINTR { continue }
            guard count > 0 else { throw SnapshotFile.failed("write \(path).new") }
            place += count
        }
        bytes += out.count
        out.removeAll()
        out.trim(above: 4 << 20)
    }
}
