import CCurl
import HubBase
import HubNet

/// One request that is under way: an easy handle, and what has come of its answer. A class: libcurl hands its address back.
final class FetchTransfer {
    let job: FetchJob
    let handle: UnsafeMutableRawPointer
    private var body: [UInt8] = []
    private var head: [UInt8] = []
    private var headsBytes = 0
    private var isTooLarge = false
    private var isHeadTooLarge = false
    private var list: UnsafeMutablePointer<curl_slist>?
    /// Where libcurl puts what its codes don't say.
    private let errorText = UnsafeMutablePointer<CChar>.allocate(capacity: Int(CURL_ERROR_SIZE))

    /// Of the head of one answer, trailers included.
    private static let headBytesMax = 32 * 1024
    /// Of all heads together: interim answers (100, a proxy's) could come without end.
    private static let headsBytesMax = 64 * 1024

    init(_ job: FetchJob, _ options: Fetcher.Options, at now: Instant) throws(FetchFailure) {
        guard let handle = curl_easy_init() else { throw .unusable("libcurl: out of memory") }
        self.job = job
        self.handle = handle
        errorText.pointee = 0
        try set(CURLOPT_URL, job.request.url.text)
        try set(CURLOPT_PATH_AS_IS, 1)
        try set(CURLOPT_USERAGENT, options.agent)
        try check(hub_curl_only_http(handle))
        try check(hub_curl_leave_lookups(handle))
        try set(CURLOPT_NOSIGNAL, 1)
        // One request a connection at a time: a receiver's trouble with one is its own.
        try set(CURLOPT_HTTP_VERSION, Int(CURL_HTTP_VERSION_1_1))
        let left = max(job.deadline.since(now).milliseconds, 1)
        try set(CURLOPT_TIMEOUT_MS, Int(clamping: left))
        try set(CURLOPT_CONNECTTIMEOUT_MS, Int(clamping: max(options.connectDeadline.milliseconds, 1)))
        try set(CURLOPT_MAXFILESIZE, max(job.request.answerBytesMax, 1))
        // An empty text turns off what the environment says; as does the other for names that go past a proxy.
        try set(CURLOPT_PROXY, options.proxy ?? "")
        try set(CURLOPT_NOPROXY, "")
        try set(CURLOPT_SSLVERSION, Int(CURL_SSLVERSION_TLSv1_2))
        if let file = options.authorities {
            try set(CURLOPT_CAINFO, file)
            // Else the system's folder of authorities counts as well.
            try check(hub_curl_set_pointer(handle, CURLOPT_CAPATH, nil))
        }
        try check(hub_curl_set_pointer(handle, CURLOPT_ERRORBUFFER, errorText))
        try setFields()
        if job.request.method == .post {
            try set(CURLOPT_POSTFIELDSIZE, job.request.body.count)
            // Copied, so that nothing of ours must stay where it is.
            let code = job.request.body.withUnsafeBytes {
                hub_curl_set_pointer(handle, CURLOPT_COPYPOSTFIELDS, $0.baseAddress ?? UnsafeRawPointer(handle))
            }
            try check(code)
        }
        // The loop keeps this object until its handle is removed.
        let context = Unmanaged.passUnretained(self).toOpaque()
        try check(
            hub_curl_set_writer(
                handle,
                { bytes, size, count, context in
                    guard let bytes, let context else { return 0 }
                    let transfer = Unmanaged<FetchTransfer>.fromOpaque(context).takeUnretainedValue()
                    return transfer.received(UnsafeRawBufferPointer(start: bytes, count: size * count)) ? size * count : 0
                }, context))
        try check(
            hub_curl_set_head_writer(
                handle,
                { bytes, size, count, context in
                    guard let bytes, let context else { return 0 }
                    let transfer = Unmanaged<FetchTransfer>.fromOpaque(context).takeUnretainedValue()
                    return transfer.receivedHead(UnsafeRawBufferPointer(start: bytes, count: size * count)) ? size * count : 0
                }, context))
    }

    deinit {
        curl_easy_cleanup(handle)
        curl_slist_free_all(list)
        errorText.deallocate()
    }

    private func setFields() throws(FetchFailure) {
        // Nobody waits for a "100 Continue".
        for header in job.request.headers + ["Expect:"] {
            guard !header.utf8.contains(where: { $0 == 0x0D || $0 == 0x0A || $0 == 0 }) else {
                throw .unusable("a header holds a line break")
            }
            guard let longer = curl_slist_append(list, header) else { throw .unusable("libcurl: out of memory") }
            list = longer
        }
        try check(hub_curl_set_pointer(handle, CURLOPT_HTTPHEADER, list))
    }

    // MARK: What comes

    private func received(_ bytes: UnsafeRawBufferPointer) -> Bool {
        guard bytes.count <= job.request.answerBytesMax - body.count else {
            isTooLarge = true
            return false
        }
        body += bytes
        return true
    }

    private func receivedHead(_ line: UnsafeRawBufferPointer) -> Bool {
        // A new head: the one before was an interim answer's.
        if line.starts(with: "HTTP/".utf8) { head.removeAll(keepingCapacity: true) }
        guard line.count <= Self.headBytesMax - head.count, line.count <= Self.headsBytesMax - headsBytes else {
            isHeadTooLarge = true
            return false
        }
        headsBytes += line.count
        head += line
        return true
    }

    // MARK: How it ended

    func result(_ code: CURLcode) -> Result<FetchAnswer, FetchFailure> {
        guard code == CURLE_OK else { return .failure(failure(code)) }
        var status = 0
        guard hub_curl_get_status(handle, &status) == CURLE_OK, status > 0 else { return .failure(.broken("the answer has no status")) }
        return .success(FetchAnswer(status: status, fields: Self.fields(head), body: body))
    }

    private func failure(_ code: CURLcode) -> FetchFailure {
        if isHeadTooLarge { return .broken("the answer's head has more than \(Self.headBytesMax) bytes") }
        if isTooLarge { return .tooLarge(limit: job.request.answerBytesMax) }
        let text = errorText.pointee == 0 ? String(cString: curl_easy_strerror(code)) : String(cString: errorText)
        switch code {
        case CURLE_FILESIZE_EXCEEDED: return .tooLarge(limit: job.request.answerBytesMax)
        case CURLE_OPERATION_TIMEDOUT: return .timedOut(text)
        case CURLE_COULDNT_RESOLVE_HOST, CURLE_COULDNT_RESOLVE_PROXY, CURLE_COULDNT_CONNECT, CURLE_INTERFACE_FAILED:
            return .unreachable(text)
        case CURLE_URL_MALFORMAT, CURLE_BAD_FUNCTION_ARGUMENT: return .unusable(text)
        case CURLE_PEER_FAILED_VERIFICATION:
            var verdict = 0
            _ = hub_curl_get_verdict(handle, &verdict)
            // libcurl compares the name first, and leaves 1 ("unspecified") there when that fails.
            if verdict == 1 { verdict = 0 }
            return .untrusted("TLS: \(text): \(TLSAdvice.text(verdict: verdict, place: "outgoing.ca"))")
        case CURLE_SSL_CACERT_BADFILE: return .untrusted("outgoing.ca: \(text)")
        case CURLE_SSL_CONNECT_ERROR:
            // OpenSSL takes the first bytes of a plain answer for a record of a strange version.
            return .untrusted(text.contains("wrong version number") ? "TLS: this port doesn't speak TLS: use http" : "TLS: \(text)")
        default: return .broken(text)
        }
    }

    /// The fields of the last head. What isn't a field is passed over; so are a folded line's further parts.
    static func fields(_ head: [UInt8]) -> [FetchAnswer.Field] {
        var fields: [FetchAnswer.Field] = []
        for line in head.split(whereSeparator: { $0 == 0x0A || $0 == 0x0D }).dropFirst() {
            guard let colon = line.firstIndex(of: UInt8(ascii: ":")), colon > line.startIndex, line[line.startIndex] > 0x20 else {
                continue
            }
            var value = line[(colon + 1)...]
            while let first = value.first, first == 0x20 || first == 0x09 { value.removeFirst() }
            while let last = value.last, last == 0x20 || last == 0x09 { value.removeLast() }
            fields.append(
                FetchAnswer.Field(
                    name: String(decoding: line[..<colon], as: UTF8.self).lowercased(), value: String(decoding: value, as: UTF8.self)))
        }
        return fields
    }

    private func set(_ option: CURLoption, _ value: Int) throws(FetchFailure) { try check(hub_curl_set_long(handle, option, value)) }

    private func set(_ option: CURLoption, _ value: String) throws(FetchFailure) {
        let code = value.withCString { hub_curl_set_pointer(handle, option, $0) }
        try check(code)
    }

    private func check(_ code: CURLcode) throws(FetchFailure) {
        guard code == CURLE_OK else { throw .unusable("libcurl: \(String(cString: curl_easy_strerror(code)))") }
    }
}
