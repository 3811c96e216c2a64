import CCurl
import Glibc
import HubBase

/// The fetcher's thread: starts what waits as far as there's room, lets libcurl work, hands out what ended.
final class FetchLoop {
    private let inbox: FetchInbox
    private let options: Fetcher.Options
    private var multi: UnsafeMutableRawPointer { inbox.multi }
    private var waiting: [FetchJob] = []
    /// By their handles.
    private var underWay: [UnsafeMutableRawPointer: FetchTransfer] = [:]

    init(_ inbox: FetchInbox, _ options: Fetcher.Options) {
        self.inbox = inbox
        self.options = options
    }

    /// Until the fetcher is stopped.
    func run() {
        _ = hub_curl_multi_set_long(multi, CURLMOPT_MAXCONNECTS, options.inFlightMax)
        while inbox.take(into: &waiting) {
            expireWaiting()
            startWaiting()
            var running: Int32 = 0
            let code = curl_multi_perform(multi, &running)
            guard code == CURLM_OK else {
                // Memory, or a bug of ours: what is under way can't be trusted to end.
                failAll(.broken("libcurl: \(String(cString: curl_multi_strerror(code)))"))
                continue
            }
            let hasRoom = takeEnded() && !waiting.isEmpty
            // libcurl has its own transfers' times in mind; those that wait here it doesn't know.
            let patience: Int32 = hasRoom ? 0 : waiting.isEmpty ? 60_000 : 100
            curl_multi_poll(multi, nil, 0, patience, nil)
        }
        for job in waiting { finish(job, .failure(.stopped)) }
        waiting = []
        failAll(.stopped)
        curl_multi_cleanup(multi)
    }

    static func now() -> Instant {
        var time = timespec()
        clock_gettime(CLOCK_MONOTONIC, &time)
        return Instant(nanoseconds: UInt64(time.tv_sec) * 1_000_000_000 + UInt64(time.tv_nsec))
    }

    private func expireWaiting() {
        guard !waiting.isEmpty else { return }
        let now = Self.now()
        var rest: [FetchJob] = []
        for job in waiting {
            if job.deadline <= now {
                finish(job, .failure(.timedOut("no turn within \(job.request.deadline): \(options.inFlightMax) requests were under way")))
            } else {
                rest.append(job)
            }
        }
        waiting = rest
    }

    private func startWaiting() {
        let count = min(waiting.count, options.inFlightMax - underWay.count)
        guard count > 0 else { return }
        for job in waiting.prefix(count) {
            do throws(FetchFailure) {
                let transfer = try FetchTransfer(job, options, at: Self.now())
                let code = curl_multi_add_handle(multi, transfer.handle)
                guard code == CURLM_OK else { throw .unusable("libcurl: \(String(cString: curl_multi_strerror(code)))") }
                underWay[transfer.handle] = transfer
            } catch { finish(job, .failure(error)) }
        }
        waiting.removeFirst(count)
    }

    /// True when something ended.
    private func takeEnded() -> Bool {
        var hasEnded = false
        var left: Int32 = 0
        while let message = curl_multi_info_read(multi, &left) {
            guard message.pointee.msg == CURLMSG_DONE, let handle = message.pointee.easy_handle else { continue }
            // The message is gone once its handle is removed.
            let code = hub_curl_message_result(message)
            curl_multi_remove_handle(multi, handle)
            guard let transfer = underWay.removeValue(forKey: handle) else { continue }
            hasEnded = true
            finish(transfer.job, transfer.result(code))
        }
        return hasEnded
    }

    private func failAll(_ failure: FetchFailure) {
        let transfers = underWay
        underWay = [:]
        for (handle, transfer) in transfers {
            curl_multi_remove_handle(multi, handle)
            finish(transfer.job, .failure(failure))
        }
    }

    private func finish(_ job: FetchJob, _ result: Result<FetchAnswer, FetchFailure>) {
        inbox.finished()
        job.done(result)
    }
}
