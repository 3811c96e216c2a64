import Foundation
import Glibc
import HubBase
import HubClientNet
import HubSwarm

/// `--workers N`: starts this program N times, each with its share, and makes one run of what they send: every second's points for the
/// progress, their measures at the end.
///
/// Each worker has its own bots in its own rooms, so its checker judges all that they were owed; what is merged are histograms, counts and
/// findings. A worker that dies, falls silent or speaks nonsense is told, its share is missing, and the run isn't whole.
struct Workers {
    /// What the workers are started with, without what belongs to one of them.
    let arguments: [String]
    let count: Int
    /// Of all.
    let bots: UInt64
    let title: String
    /// `Instant` at which all begin; told to each.
    let start: Instant
    let seed: UInt64

    /// No frame of a worker for so long: it's stopped or hangs. It writes one each second.
    private static let silenceMax: Span = .seconds(60)
    /// After a signal, for the orderly end.
    private static let leaveMax: Span = .seconds(30)

    private struct Worker {
        var process: pid_t
        var pipe: Int32
        var reader = WorkersFrame.Reader()
        var heard: Instant
        var measures: Measures?
        /// Of its last second; nil once it was shown.
        var point: Measures.Point?
        /// By its last word.
        var connected: UInt64 = 0
        var isRunning = true
        /// Why its share is missing.
        var fault: String?
    }

    /// Runs them to their end. Nothing is left running, whatever happens.
    func execute(_ interrupts: Interrupts) throws(CommandLineError) -> Measures {
        var system = SystemRandomNumberGenerator()
        let run = system.next() >> 12
        var workers: [Worker] = []
        for index in 0..<count {
            let own =
                arguments + ["--share=\(index + 1)/\(count)", "--run=\(run)", "--start=\(start.nanoseconds)", "--seed=\(seed)", "--frames"]
            guard let (process, pipe) = Self.spawn(own) else {
                Self.kill(workers, SIGKILL)
                throw CommandLineError("worker \(index + 1) can't be started: \(String(cString: strerror(errno)))")
            }
            workers.append(Worker(process: process, pipe: pipe, heard: max(Clock.now(), start)))
        }
        var progress = Progress(title: title)
        var signals = 0
        var endBy = Instant.distantFuture
        var shown: UInt64 = 0
        while workers.contains(where: \.isRunning) {
            Self.wait(workers)
            for index in workers.indices where workers[index].isRunning { Self.read(&workers[index]) }
            let now = Clock.now()
            if interrupts.received > signals {
                signals = interrupts.received
                endBy = min(endBy, now + Self.leaveMax)
                Self.kill(workers, SIGINT)
            }
            for index in workers.indices where workers[index].isRunning {
                if now >= endBy { Self.giveUp(&workers[index], "didn't end after it was interrupted") }
                if now.since(workers[index].heard) > Self.silenceMax { Self.giveUp(&workers[index], "said nothing for \(Self.silenceMax)") }
            }
            // They tell each second when it's over: a moment later all have.
            let second = now.since(start + .milliseconds(400)).nanoseconds / 1_000_000_000
            if second > shown {
                shown = second
                show(&workers, second, &progress)
            }
        }
        progress.end()
        return merged(&workers, &progress)
    }

    private func show(_ workers: inout [Worker], _ second: UInt64, _ progress: inout Progress) {
        var sum = Measures.Point()
        var hasAny = false
        for index in workers.indices {
            guard var point = workers[index].point else {
                if workers[index].isRunning { sum.connected += workers[index].connected }
                continue
            }
            point.busiestCPU = point.ownCPU
            workers[index].connected = point.connected
            sum.add(point)
            hasAny = true
            workers[index].point = nil
        }
        guard hasAny else { return }
        progress.show(
            ReportProgress.Moment(
                seconds: second, phase: "running", point: sum, bots: bots, workers: (workers.count(where: \.isRunning), workers.count)))
    }

    private func merged(_ workers: inout [Worker], _ progress: inout Progress) -> Measures {
        var sum = Measures()
        for (index, worker) in workers.enumerated() {
            if let measures = worker.measures, worker.fault == nil {
                sum.merge(measures)
                if sum.scenario.isEmpty { sum.scenario = measures.scenario }
                if sum.options.isEmpty { sum.options = measures.options }
                if sum.environment.isEmpty { sum.environment = measures.environment }
            } else {
                let text = "worker \(index + 1) of \(count) \(worker.fault ?? "sent no measures"): its share is missing"
                progress.say(text)
                sum.missing.append(text)
            }
        }
        sum.workers = UInt64(count)
        sum.seed = seed
        // With those of the missing: what was asked for doesn't shrink because a process died.
        sum.bots = max(bots, sum.bots)
        if sum.began.nanoseconds == 0 { sum.began = start }
        return sum
    }

    // MARK: Processes

    /// This program again, in a process group of its own: Ctrl-C at a terminal goes to whole groups, and each worker is to be told once.
    private static func spawn(_ arguments: [String]) -> (pid_t, Int32)? {
        var ends: [Int32] = [0, 0]
        guard pipe(&ends) == 0 else { return nil }
        // Not for the next worker: a pipe that two hold doesn't close when one of them ends.
        for end in ends { _ = fcntl(end, F_SETFD, FD_CLOEXEC) }
        var actions = posix_spawn_file_actions_t()
        posix_spawn_file_actions_init(&actions)
        posix_spawn_file_actions_adddup2(&actions, ends[1], 1)
        var attributes = posix_spawnattr_t()
        posix_spawnattr_init(&attributes)
        var none = sigset_t()
        sigemptyset(&none)
        posix_spawnattr_setsigmask(&attributes, &none)
        posix_spawnattr_setpgroup(&attributes, 0)
        posix_spawnattr_setflags(&attributes, Int16(POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK))
        defer {
            posix_spawn_file_actions_destroy(&actions)
            posix_spawnattr_destroy(&attributes)
            close(ends[1])
        }
        var words: [UnsafeMutablePointer<CChar>?] = ([CommandLine.arguments[0]] + arguments).map { strdup($0) }
        words.append(nil)
        defer { for word in words { free(word) } }
        // Secrets among them: workers need the keys that tokens are minted with.
        var surroundings: [UnsafeMutablePointer<CChar>?] = ProcessInfo.processInfo.environment.map { strdup("\($0.key)=\($0.value)") }
        surroundings.append(nil)
        defer { for word in surroundings { free(word) } }
        var process = pid_t()
        let result = posix_spawn(&process, "/proc/self/exe", &actions, &attributes, words, surroundings)
        guard result == 0 else {
            close(ends[0])
            errno = result
            return nil
        }
        let flags = fcntl(ends[0], F_GETFL)
        _ = fcntl(ends[0], F_SETFL, flags | O_NONBLOCK)
        return (process, ends[0])
    }

    private static func kill(_ workers: [Worker], _ signal: Int32) {
        for worker in workers where worker.isRunning {
            Glibc.kill(worker.process, signal)
            if signal == SIGKILL { waitpid(worker.process, nil, 0) }
        }
    }

    /// Until one has something to say, at most a tenth of a second.
    private static func wait(_ workers: [Worker]) {
        var pipes = workers.filter(\.isRunning).map { pollfd(fd: $0.pipe, events: Int16(POLLIN), revents: 0) }
        _ = poll(&pipes, nfds_t(pipes.count), 100)
    }

    private static func read(_ worker: inout Worker) {
        var part = [UInt8](repeating: 0, count: 1 << 16)
        while worker.isRunning {
            let count = Glibc.read(worker.pipe, &part, part.count)
            if count < 0 {
                if errno == EINTR { continue }
                if errno != EAGAIN { giveUp(&worker, "can't be read: \(String(cString: strerror(errno)))") }
                return
            }
            if count == 0 { return ended(&worker) }
            worker.heard = Clock.now()
            worker.reader.append(part[..<count])
            do throws(WorkersFrame.Reader.Malformed) {
                while let frame = try worker.reader.next() {
                    do throws(CommandLineError) { try take(frame, &worker) } catch { giveUp(&worker, "sent what can't be read: \(error)") }
                }
            } catch {
                giveUp(&worker, "sent \(error.why)")
            }
        }
    }

    private static func take(_ frame: WorkersFrame, _ worker: inout Worker) throws(CommandLineError) {
        switch frame.kind {
        case .point:
            worker.point = try MeasuresFile.decode(Measures.Point.self, frame.body)
        case .measures: worker.measures = try MeasuresFile.decode(Measures.self, frame.body)
        }
    }

    /// Its pipe is closed: how did it end?
    private static func ended(_ worker: inout Worker) {
        close(worker.pipe)
        worker.isRunning = false
        // Its pipe closes when it exits; one that closed it and stays is ended.
        var status: Int32 = 0
        var waited: pid_t = 0
        for _ in 0..<200 {
            waited = waitpid(worker.process, &status, WNOHANG)
            if waited != 0 { break }
            usleep(10_000)
        }
        if waited == 0 {
            Glibc.kill(worker.process, SIGKILL)
            waitpid(worker.process, &status, 0)
        }
        if status & 0x7F != 0 {
            worker.fault = "ended by signal \(status & 0x7F)"
        } else if worker.measures == nil {
            worker.fault = "ended with code \(status >> 8 & 0xFF)"
        }
    }

    private static func giveUp(_ worker: inout Worker, _ why: String) {
        guard worker.isRunning else { return }
        Glibc.kill(worker.process, SIGKILL)
        waitpid(worker.process, nil, 0)
        close(worker.pipe)
        worker.isRunning = false
        worker.fault = why
    }
}

extension CommandLineArguments {
    /// Those of `flags` that were given, as words again.
    func words(of flags: [CommandLineParser.Flag]) -> [String] {
        flags.flatMap { flag in values(flag.name).map { flag.value == nil ? "--\(flag.name)" : "--\(flag.name)=\($0)" } }
    }
}

/// The other end: a worker's frames on standard output. When nobody reads them any more the coordinator is gone, and so is this process's
/// reason.
enum WorkerVoice {
    static func send(_ point: Measures.Point) { if let body = try? MeasuresFile.encode(point) { write(WorkersFrame(.point, body)) } }

    static func send(_ measures: Measures) throws(CommandLineError) {
        var measures = measures
        var body = try MeasuresFile.encode(measures)
        while body.count > Measures.textMax, measures.series.count > 1 {
            measures.coarsen()
            body = try MeasuresFile.encode(measures)
        }
        write(WorkersFrame(.measures, body))
    }

    private static func write(_ frame: WorkersFrame) {
        var rest = frame.encoded[...]
        while !rest.isEmpty {
            let written = rest.withUnsafeBytes { Glibc.write(1, $0.baseAddress, $0.count) }
            if written > 0 {
                rest.removeFirst(written)
            } else if errno != EINTR {
                exit(1)
            }
        }
    }
}
