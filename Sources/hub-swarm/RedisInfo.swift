import Glibc
import HubBase
import HubClientNet
import HubSwarm

/// `INFO cpu` of one Redis over one blocking connection; each wait has 2 s.
struct RedisInfo {
    private static let answerMax = 64 << 10
    /// For a whole answer, however it drips in.
    private static let patience: Span = .seconds(4)
    private let place: ReportOptions.RedisPlace
    private var socket: Int32 = -1
    /// Why it didn't answer the last time; nothing of the secret.
    private(set) var trouble = "it wasn't asked"

    init(_ place: ReportOptions.RedisPlace) { self.place = place }

    /// Microseconds so far of all its threads; nil: it didn't answer. The next call connects anew.
    mutating func processorTime() -> UInt64? {
        if socket < 0 { connect() }
        guard socket >= 0 else { return nil }
        guard let text = answer() else {
            trouble = "\(place.host):\(place.port) doesn't answer"
            close()
            return nil
        }
        func seconds(_ name: String) -> Double? {
            text.split(whereSeparator: \.isNewline).first { $0.hasPrefix(name + ":") }.flatMap { Double($0.dropFirst(name.count + 1)) }
        }
        guard let user = seconds("used_cpu_user"), let system = seconds("used_cpu_sys"), user + system >= 0, user + system < 1e9 else {
            trouble = "\(place.host):\(place.port) doesn't tell its processor time (INFO cpu)" + Self.refusal(text)
            return nil
        }
        return UInt64((user + system) * 1e6)
    }

    mutating func close() {
        if socket >= 0 { Glibc.close(socket) }
        socket = -1
    }

    private mutating func connect() {
        var hints = addrinfo()
        hints.ai_socktype = Int32(SOCK_STREAM.rawValue)
        var found: UnsafeMutablePointer<addrinfo>?
        guard getaddrinfo(place.host, place.port, &hints, &found) == 0 else {
            trouble = "\(place.host) isn't known"
            return
        }
        defer { freeaddrinfo(found) }
        // A name may have an address of each family, and Redis be at one of them.
        var next = found
        while let address = next, socket < 0 {
            socket = Self.connected(address.pointee)
            if socket < 0 { trouble = "\(place.host):\(place.port) can't be reached: \(String(cString: strerror(errno)))" }
            next = address.pointee.ai_next
        }
        if socket >= 0, place.secret != nil { introduce() }
    }

    /// -1, and errno says why.
    private static func connected(_ address: addrinfo) -> Int32 {
        let made = Glibc.socket(address.ai_family, address.ai_socktype, address.ai_protocol)
        guard made >= 0 else { return -1 }
        var patience = timeval(tv_sec: 2, tv_usec: 0)
        setsockopt(made, SOL_SOCKET, SO_RCVTIMEO, &patience, socklen_t(MemoryLayout<timeval>.size))
        // Of the connecting too.
        setsockopt(made, SOL_SOCKET, SO_SNDTIMEO, &patience, socklen_t(MemoryLayout<timeval>.size))
        guard Glibc.connect(made, address.ai_addr, address.ai_addrlen) == 0 else {
            let why = errno
            Glibc.close(made)
            errno = why
            return -1
        }
        return made
    }

    private mutating func introduce() {
        let line = send(["AUTH"] + [place.user, place.secret].compactMap { $0 }) ? receive(until: { $0.last == 10 }) : nil
        guard line?.hasPrefix("+") != true else { return }
        trouble = "\(place.host):\(place.port) doesn't let us in" + (line.map(Self.refusal) ?? ": no answer")
        close()
    }

    /// ": WRONGPASS …", Redis' own words if those are an error.
    private static func refusal(_ text: String) -> String {
        guard text.hasPrefix("-") else { return "" }
        let line = text.dropFirst().prefix { !$0.isNewline }
        return ": " + ReportNumbers.plain(String(line.prefix(200)))
    }

    private func answer() -> String? {
        guard send(["INFO", "cpu"]) else { return nil }
        // "$123\r\n", so many bytes, "\r\n".
        return receive { bytes in
            guard let end = bytes.firstIndex(of: 10) else { return false }
            guard bytes[0] == UInt8(ascii: "$"), let length = Int(String(decoding: bytes[1..<max(end - 1, 1)], as: UTF8.self)) else {
                return true
            }
            // What's longer than an answer of this kind is none.
            return !(0...Self.answerMax).contains(length) || bytes.count >= end + 1 + length + 2
        }
    }

    private func send(_ words: [String]) -> Bool {
        let command = Array(("*\(words.count)\r\n" + words.map { "$\($0.utf8.count)\r\n\($0)\r\n" }.joined()).utf8)
        return Glibc.send(socket, command, command.count, Int32(MSG_NOSIGNAL)) == command.count
    }

    private func receive(until isWhole: ([UInt8]) -> Bool) -> String? {
        var bytes: [UInt8] = []
        var part = [UInt8](repeating: 0, count: 4096)
        let until = Clock.now() + Self.patience
        while bytes.count < Self.answerMax, Clock.now() < until {
            let count = recv(socket, &part, part.count, 0)
            guard count > 0 else { return nil }
            bytes += part[..<count]
            if isWhole(bytes) { return String(decoding: bytes, as: UTF8.self) }
        }
        return nil
    }
}
