import HubBase
import HubCore
import HubNet
import Synchronization

/// Has the embedded broker written down every so often, and once more when it stops (decision 0112). The loop only takes images, a few
/// thousand a turn; threads of their own encode and write them, one after the other.
final class SnapshotKeeper: BrokerKeeper {
    private let file: SnapshotFile
    /// Beside it: what mustn't wait for the next snapshot.
    let journal: RevocationJournal
    private let interval: Span
    private let log: Log
    private let state: NodeState
    private var nextAt: Instant
    private var writer: SnapshotWriter?
    private var job: Job?
    /// The broker's count of changes when the last snapshot was begun.
    private var savedChanges: UInt64 = 0
    private var begunChanges: UInt64 = 0
    private var hasStopped = false

    /// Images of one turn: a millisecond's work at most.
    private static let imagesPerTurn = 8_192

    /// A thread's work, and how it went.
    private final class Job: Sendable {
        let isLast: Bool
        let isDone = Atomic<Bool>(false)
        let failure = Mutex<String?>(nil)
        init(isLast: Bool) { self.isLast = isLast }
    }
    private var thread: LoopThread?

    init(_ file: SnapshotFile, _ journal: RevocationJournal, interval: Span, log: Log, state: NodeState, at now: Instant) {
        self.state = state
        self.file = file
        self.journal = journal
        self.interval = interval
        self.log = log
        nextAt = now + interval
    }

    func turn(_ broker: MemoryBroker, at now: Instant) {
        guard !hasStopped else { return }
        if let job {
            guard job.isDone.load(ordering: .acquiring) else { return }
            ended(job, broker, at: now)
        }
        if writer == nil {
            guard now >= nextAt, broker.changes != savedChanges else { return }
            begunChanges = broker.changes
            do throws(NetError) {
                writer = try SnapshotWriter(file, broker.generation, isClean: false, at: now, wallClock: WallClock.milliseconds())
                broker.beginImages()
            } catch { return failed(error.description, at: now) }
        }
        goOn(broker, at: now)
    }

    private func goOn(_ broker: MemoryBroker, at now: Instant) {
        guard let writer else { return }
        let (images, isLast) = broker.takeImages(SnapshotKeeper.imagesPerTurn)
        let job = Job(isLast: isLast)
        do throws(NetError) {
            thread = try LoopThread(name: "hub-snapshot") {
                do throws(NetError) {
                    try writer.append(images)
                    if job.isLast { try writer.finish() }
                } catch { job.failure.withLock { $0 = error.description } }
                job.isDone.store(true, ordering: .releasing)
            }
            self.job = job
        } catch {
            broker.endImages()
            failed(error.description, at: now)
        }
    }

    private func ended(_ job: Job, _ broker: MemoryBroker, at now: Instant) {
        thread?.join()
        thread = nil
        self.job = nil
        if let reason = job.failure.withLock({ $0 }) {
            broker.endImages()
            failed(reason, at: now)
        } else if job.isLast {
            writer = nil
            savedChanges = begunChanges
            nextAt = now + interval
        }
    }

    private func failed(_ reason: String, at now: Instant) {
        writer?.discard()
        writer = nil
        nextAt = now + interval
        log.warning("snapshot.failed", ["file": file.path, "message": reason])
    }

    /// The last word, on the loop's own thread: nobody else needs it any more.
    func stopping(_ broker: MemoryBroker, at now: Instant) {
        guard !hasStopped else { return }
        hasStopped = true
        thread?.join()
        thread = nil
        writer?.discard()
        writer = nil
        broker.endImages()
        do throws(NetError) {
            let writer = try SnapshotWriter(file, broker.generation, isClean: true, at: now, wallClock: WallClock.milliseconds())
            broker.beginImages()
            while true {
                let (images, isLast) = broker.takeImages(SnapshotKeeper.imagesPerTurn)
                try writer.append(images)
                if isLast { break }
            }
            try writer.finish()
            log.info("snapshot.written", ["file": file.path, "bytes": writer.bytes])
        } catch {
            broker.endImages()
            log.error("snapshot.failed", ["file": file.path, "message": error.description])
            state.unsaved = error.description
        }
    }
}

extension SnapshotKeeper {
    /// Opens the file that the configuration names and reads what's there; nil without one.
    static func open(
        _ configuration: Configuration, log: Log, state: NodeState, at now: Instant
    ) throws(NetError) -> (SnapshotKeeper, SnapshotFile.Loaded)? {
        guard let path = configuration.embedded.snapshot else { return nil }
        // The configuration's warning says so.
        guard !configuration.redis.isUsed else { return nil }
        let file: SnapshotFile
        let loaded: SnapshotFile.Loaded
        let journal: RevocationJournal
        do throws(NetError) {
            file = try SnapshotFile(path)
            // Before the snapshot, which isn't clean any more once it's loaded: a start that fails changes nothing.
            journal = try RevocationJournal("\(path).revocations", log: log)
            loaded = try file.load(limits: MemoryLimits(), at: now, wallClock: WallClock.milliseconds())
        } catch {
            // No number: what to do about a port that can't be had is nothing to do here.
            throw NetError(number: 0, description: "embedded.snapshot: \(error.description)")
        }
        switch loaded {
        case .nothing: log.info("snapshot.none", ["file": path])
        case .snapshot(let channels, _, true): log.info("snapshot.read", ["file": path, "channels": channels.count])
        case .snapshot(let channels, _, false):
            // It may lack what was handed out last, so positions from before can't be continued.
            let message = "the node didn't stop in order: what came after the last snapshot is lost, and clients are told so (epochChanged)"
            log.warning("snapshot.unclean", ["file": path, "channels": channels.count, "message": message])
        case .damaged(let reason, let movedTo): log.error("snapshot.damaged", ["file": path, "message": reason, "movedTo": movedTo])
        }
        return (
            SnapshotKeeper(file, journal, interval: configuration.embedded.snapshotInterval, log: log, state: state, at: now), loaded
        )
    }
}
