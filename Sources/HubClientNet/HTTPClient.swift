import CCurl
import HubBase
import HubNet

/// One HTTP exchange after another with one hub, blocking, over a kept-alive connection: for tools at a prompt.
///
/// Every wait has an end (3 s for the connection, 10 s in all), an answer has a largest size, redirects aren't followed (an API key must
/// not travel on), and a proxy from the environment is passed by for loopback addresses.
package final class HTTPClient {
    package struct Answer: Sendable, Equatable {
        package var status: Int
        package var body: [UInt8]

        package init(status: Int, body: [UInt8]) {
            self.status = status
            self.body = body
        }
    }

    package enum Failure: Error, Sendable, Equatable {
        /// No connection, or none that brought a whole answer in time: what libcurl says.
        case unreachable(String)
        case tooLarge(limit: Int)
        /// The request can't be made at all.
        case unusable(String)
    }

    package static let bodyMax = 8 * 1024 * 1024
    /// Once a process: it wasn't safe between threads before 7.84.
    private static let isInitialised = curl_global_init(Int(CURL_GLOBAL_DEFAULT)) == CURLE_OK
    private let handle: UnsafeMutableRawPointer
    private let agent: String
    private let trust: ServerTrust
    /// Where libcurl puts what its codes don't say.
    private let errorText = UnsafeMutablePointer<CChar>.allocate(capacity: Int(CURL_ERROR_SIZE))

    /// - Parameters:
    ///   - agent: "hubctl/0.1", for the server's logs.
    ///   - trust: whom to believe over https.
    package init(agent: String, trust: ServerTrust = .system) throws(Failure) {
        guard Self.isInitialised, let handle = curl_easy_init() else {
            throw .unusable("libcurl can't be initialised")
        }
        self.handle = handle
        self.agent = agent
        self.trust = trust
    }

    deinit {
        curl_easy_cleanup(handle)
        errorText.deallocate()
    }

    /// What the write callback fills. A class: libcurl hands its address back.
    private final class Sink {
        var body: [UInt8] = []
        var isTooLarge = false
    }

    /// `headers` as "Name: value". With a body it's a POST, otherwise a GET.
    package func send(url: String, headers: [String], body: [UInt8]?, isLoopback: Bool) throws(Failure) -> Answer {
        curl_easy_reset(handle)
        let sink = Sink()
        var list: UnsafeMutablePointer<curl_slist>?
        defer { curl_slist_free_all(list) }
        for header in headers {
            guard let longer = curl_slist_append(list, header) else { throw .unusable("out of memory") }
            list = longer
        }
        try set(CURLOPT_URL, url)
        // A user may be called "..": dot segments are names here.
        try set(CURLOPT_PATH_AS_IS, 1)
        try set(CURLOPT_USERAGENT, agent)
        try check(hub_curl_only_http(handle))
        try set(CURLOPT_NOSIGNAL, 1)
        try set(CURLOPT_CONNECTTIMEOUT_MS, 3000)
        try set(CURLOPT_TIMEOUT_MS, 10_000)
        if isLoopback { try set(CURLOPT_PROXY, "") }
        errorText.pointee = 0
        try check(hub_curl_set_pointer(handle, CURLOPT_ERRORBUFFER, errorText))
        try setTrust()
        try check(hub_curl_set_pointer(handle, CURLOPT_HTTPHEADER, list))
        let writer: hub_curl_writer = { bytes, size, count, context in
            guard let bytes, let context else { return 0 }
            let sink = Unmanaged<Sink>.fromOpaque(context).takeUnretainedValue()
            let length = size * count
            guard length <= HTTPClient.bodyMax - sink.body.count else {
                sink.isTooLarge = true
                return 0
            }
            sink.body.append(contentsOf: UnsafeRawBufferPointer(start: bytes, count: length))
            return length
        }
        // `sink` outlives the call: withExtendedLifetime below.
        try check(hub_curl_set_writer(handle, writer, Unmanaged.passUnretained(sink).toOpaque()))
        if let body { try set(CURLOPT_POSTFIELDSIZE, body.count) }
        // libcurl copies neither the body's bytes nor keeps the sink alive: both are held while it works.
        let code = withExtendedLifetime(sink) { () -> CURLcode in
            guard let body else { return curl_easy_perform(handle) }
            return body.withUnsafeBytes { bytes in
                let set = hub_curl_set_pointer(handle, CURLOPT_POSTFIELDS, bytes.baseAddress ?? UnsafeRawPointer(handle))
                return set == CURLE_OK ? curl_easy_perform(handle) : set
            }
        }
        if sink.isTooLarge { throw .tooLarge(limit: Self.bodyMax) }
        guard code == CURLE_OK else { throw .unreachable(describe(code)) }
        var status = 0
        try check(hub_curl_get_status(handle, &status))
        return Answer(status: status, body: sink.body)
    }

    private func setTrust() throws(Failure) {
        try set(CURLOPT_SSLVERSION, Int(CURL_SSLVERSION_TLSv1_2))
        switch trust {
        case .system: break
        case .only(let file, _):
            try set(CURLOPT_CAINFO, file)
            // Else the system's folder of authorities counts as well.
            try check(hub_curl_set_pointer(handle, CURLOPT_CAPATH, nil))
        case .anyone:
            try set(CURLOPT_SSL_VERIFYPEER, 0)
            try set(CURLOPT_SSL_VERIFYHOST, 0)
        }
    }

    /// libcurl's words, and what to do where TLS is what failed.
    private func describe(_ code: CURLcode) -> String {
        let text = errorText.pointee == 0 ? String(cString: curl_easy_strerror(code)) : String(cString: errorText)
        switch code {
        case CURLE_PEER_FAILED_VERIFICATION:
            var verdict = 0
            _ = hub_curl_get_verdict(handle, &verdict)
            // libcurl compares the name first, and leaves 1 ("unspecified") there when that fails.
            if verdict == 1 { verdict = 0 }
            return "TLS: \(text): \(TLSAdvice.text(verdict: verdict, place: ServerTrust.place))"
        case CURLE_SSL_CONNECT_ERROR:
            // OpenSSL takes the first bytes of a plain answer for a record of a strange version.
            return text.contains("wrong version number") ? ServerTrust.plainPort : "TLS: \(text)"
        case CURLE_SSL_CACERT_BADFILE: return "\(trust.source): \(text)"
        default: return text
        }
    }

    private func set(_ option: CURLoption, _ value: Int) throws(Failure) { try check(hub_curl_set_long(handle, option, value)) }

    private func set(_ option: CURLoption, _ value: String) throws(Failure) {
        let code = value.withCString { hub_curl_set_pointer(handle, option, $0) }
        try check(code)
    }

    private func check(_ code: CURLcode) throws(Failure) {
        guard code == CURLE_OK else { throw .unusable(String(cString: curl_easy_strerror(code))) }
    }
}
