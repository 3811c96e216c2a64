import CHubShims
import Glibc
import HubBase
import HubCore
import HubFetch
import HubNet
import HubToken
import Synchronization

/// Reads the key set of `auth.jwks` for the loops, on a thread of its own: from a file here, from an address by the fetcher.
///
/// `@unchecked Sendable`: the watch and the latest keys are behind the mutex; all else is made in `init` and never changed, but for the thread, which
/// is set before anybody else sees the reader.
final class KeySetReader: @unchecked Sendable {
    private enum Source {
        case file(String)
        case address(FetchURL, Fetcher)
    }

    private struct State: Sendable {
        var watch: KeySetWatch
        var isStopped = false
        /// For the log: only a change is news.
        var problem: String?
        var count = 0
    }

    private let source: Source
    private let state: Mutex<State>
    private let wake: Int32
    private let log: Log
    private let deliver: @Sendable ([TokenKey]) -> Void
    private var thread: LoopThread?

    private static let deadline = Span.seconds(10)

    /// nil when the configuration names no set. `deliver` is called on the reader's or the fetcher's thread, with all keys of the set.
    init?(_ configuration: Configuration, log: Log, deliver: @escaping @Sendable ([TokenKey]) -> Void) throws(NetError) {
        let jwks = configuration.keySet
        if let text = jwks.url {
            let url: FetchURL
            do throws(FetchURL.Problem) { url = try FetchURL(text) } catch {
                throw NetError(number: 0, description: "auth.jwks.url \(error.message)")
            }
            var options = Fetcher.Options(name: "hub-keys-fetch", agent: "hubd/" + HubVersion.text)
            options.authorities = jwks.authorities
            source = .address(url, try Fetcher(options))
        } else if let file = jwks.file {
            source = .file(file)
        } else {
            return nil
        }
        var times = KeySetWatch.Times()
        times.refresh = jwks.refresh
        times.interval = jwks.interval
        times.keep = jwks.keep
        state = Mutex(State(watch: KeySetWatch(times, seed: UInt64.random(in: .min ... .max))))
        wake = eventfd(0, Int32(EFD_CLOEXEC | EFD_NONBLOCK))
        guard wake >= 0 else { throw NetError(number: errno, description: "eventfd for the key set: \(String(cString: strerror(errno)))") }
        self.log = log
        self.deliver = deliver
        thread = try LoopThread(name: "hub-keys") { [self] in run() }
    }

    deinit { close(wake) }

    // MARK: Any thread

    /// See `KeySetWatch.lacksKey`.
    func lacksKey(_ id: [UInt8]) -> Span? {
        defer { stir() }
        return state.withLock { $0.watch.lacksKey(id, at: Node.monotonicNow()) }
    }

    func readSoon() {
        state.withLock { $0.watch.want() }
        stir()
    }

    /// Ends its threads. Once.
    func stop() {
        state.withLock { $0.isStopped = true }
        stir()
        if case .address(_, let fetcher) = source { fetcher.stop() }
        thread?.join()
    }

    private func stir() {
        var one: UInt64 = 1
        _ = write(wake, &one, 8)
    }

    // MARK: Its thread

    private func run() {
        while true {
            let (action, patience, isStopped) = state.withLock { state in
                let now = Node.monotonicNow()
                let action = state.watch.tick(at: now)
                return (action, state.watch.patience(at: now), state.isStopped)
            }
            if isStopped { return }
            switch action {
            case .read: read()
            case .forget:
                log.error(
                    "keys.forgotten", ["message": "the key set couldn't be read for longer than auth.jwks.keep: its keys count no more"])
                state.withLock { $0.count = 0 }
                deliver([])
            case .none: wait(patience)
            }
        }
    }

    private func wait(_ span: Span) {
        var entry = pollfd(fd: wake, events: Int16(POLLIN), revents: 0)
        // A little later than due rather than a little earlier, again and again.
        _ = poll(&entry, 1, Int32(clamping: min(span.milliseconds, 60_000) + 1))
        var count: UInt64 = 0
        _ = Glibc.read(wake, &count, 8)
    }

    private func read() {
        switch source {
        case .file(let path):
            do throws(SmallFile.Failure) { took(try SmallFile.read(path, byteCountMax: KeySet.byteCountMax).bytes) } catch {
                failed("\(shownPath(path)) \(error.message)")
            }
        case .address(let url, let fetcher):
            let request = FetchRequest(
                method: .get, url: url, headers: ["Accept: application/jwk-set+json, application/json"], deadline: Self.deadline,
                answerBytesMax: KeySet.byteCountMax)
            fetcher.send(request) { [weak self] result in
                switch result {
                case .success(let answer) where answer.status == 200: self?.took(answer.body)
                case .success(let answer): self?.failed("\(url.place) answered with the status \(answer.status)")
                case .failure(let failure): self?.failed("\(url.place): \(failure)")
                }
                self?.stir()
            }
        }
    }

    private func took(_ bytes: [UInt8]) {
        let set: KeySet
        do throws(TokenKey.Problem) { set = try KeySet(json: bytes) } catch { return failed("what was read \(error.message)") }
        let isNews = state.withLock { state in
            defer {
                state.problem = nil
                state.count = set.keys.count
            }
            state.watch.ended(well: true, at: Node.monotonicNow())
            return state.problem != nil || state.count != set.keys.count
        }
        if isNews { log.info("keys.read", ["keys": set.keys.count, "leftOut": set.skipped]) }
        deliver(set.keys)
    }

    private func failed(_ problem: String) {
        let isNews = state.withLock { state in
            state.watch.ended(well: false, at: Node.monotonicNow())
            defer { state.problem = problem }
            return state.problem != problem
        }
        if isNews { log.warning("keys.unreadable", ["message": problem]) }
    }
}
