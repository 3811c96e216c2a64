import CCurl
import CHubShims
import HubBase
import HubNet
import Synchronization

/// Outgoing HTTP, off the way of any message: libcurl's multi interface on a thread of its own.
///
/// Every request has a deadline, every answer a largest size, and so many at once may be under way and wait. Redirects aren't followed, so
/// that nobody whom a request goes to can send it elsewhere; only http and https are spoken; names of servers are checked, by the system's
/// authorities or by a file's. No proxy is taken from the environment: where requests go is a matter of the configuration alone.
/// Each of our purposes has a fetcher of its own, so that one whose servers hang keeps no other waiting.
package final class Fetcher: Sendable {
    package struct Options: Sendable {
        /// Of the thread, 15 bytes at most.
        package var name: String
        /// "hubd/0.1", for the servers' logs.
        package var agent: String
        package var inFlightMax = 8
        package var waitingMax = 256
        /// For name, connection and TLS.
        package var connectDeadline = Span.seconds(3)
        /// PEM file of the authorities that count; nil: the system's. Read anew for each connection, so that it can be replaced.
        package var authorities: String?
        /// "http://proxy:3128"; nil: none, whatever the environment says.
        package var proxy: String?

        package init(name: String, agent: String) {
            self.name = name
            self.agent = agent
        }
    }

    package typealias Done = @Sendable (Result<FetchAnswer, FetchFailure>) -> Void

    private let inbox: FetchInbox
    private let thread: LoopThread
    private let isJoined = Atomic<Bool>(false)

    /// Once a process: it wasn't safe between threads before 7.84.
    private static let isInitialised = curl_global_init(Int(CURL_GLOBAL_DEFAULT)) == CURLE_OK

    package init(_ options: Options) throws(NetError) {
        guard Self.isInitialised, let multi = curl_multi_init() else {
            throw NetError(number: 0, description: "libcurl can't be initialised")
        }
        // OpenSSL writes to sockets that their peer has closed.
        hub_ignore_sigpipe()
        let inbox = FetchInbox(multi: multi, limit: options.inFlightMax + options.waitingMax)
        self.inbox = inbox
        do throws(NetError) {
            thread = try LoopThread(name: options.name) { FetchLoop(inbox, options).run() }
        } catch {
            curl_multi_cleanup(multi)
            throw error
        }
    }

    deinit { stop() }

    /// Any thread. `done` is called once: on the fetcher's thread, where it must not block, or, when the request can't even wait, within this
    /// call.
    package func send(_ request: FetchRequest, _ done: @escaping Done) {
        let deadline = FetchLoop.now() + request.deadline
        if let refusal = inbox.post(FetchJob(request: request, deadline: deadline, done: done)) { done(.failure(refusal)) }
    }

    /// Ends: what waits or is under way fails with `stopped` before this returns, what comes later at once. Never from within a `done`.
    package func stop() {
        inbox.stop()
        if !isJoined.exchange(true, ordering: .acquiringAndReleasing) { thread.join() }
    }
}

struct FetchJob: Sendable {
    var request: FetchRequest
    var deadline: Instant
    var done: Fetcher.Done
}

/// What other threads touch of a fetcher.
///
/// `@unchecked Sendable`: libcurl allows `curl_multi_wakeup` from any thread; it's called under the lock and never after `isStopped` was set,
/// and the thread frees `multi` only after it has seen that. Everything else that is done with `multi` the fetcher's thread does.
final class FetchInbox: @unchecked Sendable {
    let multi: UnsafeMutableRawPointer
    private let limit: Int
    private let state = Mutex(State())

    private struct State {
        var jobs: [FetchJob] = []
        /// Posted and not done yet.
        var held = 0
        var isStopped = false
    }

    init(multi: UnsafeMutableRawPointer, limit: Int) {
        self.multi = multi
        self.limit = limit
    }

    /// nil: taken.
    func post(_ job: FetchJob) -> FetchFailure? {
        state.withLock { state in
            guard !state.isStopped else { return .stopped }
            guard state.held < limit else { return .busy(limit: limit) }
            state.held += 1
            state.jobs.append(job)
            curl_multi_wakeup(multi)
            return nil
        }
    }

    func stop() {
        state.withLock { state in
            guard !state.isStopped else { return }
            curl_multi_wakeup(multi)
            state.isStopped = true
        }
    }

    /// Appends what was posted. False: the fetcher was stopped.
    func take(into jobs: inout [FetchJob]) -> Bool {
        state.withLock { state in
            jobs += state.jobs
            state.jobs.removeAll(keepingCapacity: true)
            return !state.isStopped
        }
    }

    func finished() { state.withLock { $0.held -= 1 } }
}
