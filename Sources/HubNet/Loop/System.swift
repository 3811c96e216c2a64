import CHubShims
import Glibc
import HubBase

/// Every system call of this target, so that `EINTR` is repeated in one place, and what can only be our own bug (`EBADF`, `EFAULT`,
/// `ENOTSOCK`) traps in one place.
enum System {
    /// What a non-blocking transfer came to.
    enum Transfer: Equatable {
        case bytes(Int)
        /// Try again when the socket is ready.
        case wouldBlock
        case failed(Int32)
    }

    @inline(never)
    private static func judge(_ call: StaticString, _ number: Int32) -> Transfer {
        if number == EAGAIN || number == EWOULDBLOCK { return .wouldBlock }
        trapOurBugs(call, number)
        return .failed(number)
    }

    private static func trapOurBugs(_ call: StaticString, _ number: Int32) {
        precondition(number != EBADF && number != EFAULT && number != ENOTSOCK, "\(call): \(message(number))")
    }

    static func message(_ number: Int32) -> String { String(cString: strerror(number)) }

    static func error(_ number: Int32, _ what: String) -> NetError {
        NetError(number: number, description: "\(what): \(message(number))")
    }

    // MARK: Bytes

    @inline(__always)
    static func receive(_ descriptor: Int32, _ into: UnsafeMutableRawPointer, _ count: Int) -> Transfer {
        while true {
            let result = recv(descriptor, into, count, Int32(MSG_DONTWAIT))
            if result >= 0 { return .bytes(result) }
            if errno != EINTR { return judge("recv", errno) }
        }
    }

    @inline(__always)
    static func send(_ descriptor: Int32, _ from: UnsafeRawPointer, _ count: Int) -> Transfer {
        while true {
            let result = Glibc.send(descriptor, from, count, Int32(MSG_DONTWAIT) | Int32(MSG_NOSIGNAL))
            if result >= 0 { return .bytes(result) }
            if errno != EINTR { return judge("send", errno) }
        }
    }

    // MARK: Sockets

    static func openSocket(_ domain: Int32) throws(NetError) -> Int32 {
        let descriptor = hub_stream_socket(domain)
        guard descriptor >= 0 else { throw error(errno, "socket") }
        return descriptor
    }

    static func accept(_ listener: Int32) -> Transfer {
        while true {
            let descriptor = hub_accept(listener)
            if descriptor >= 0 { return .bytes(Int(descriptor)) }
            if errno != EINTR { return judge("accept4", errno) }
        }
    }

    /// 0: connected; `EINPROGRESS`: on its way; else the error.
    static func connect(_ descriptor: Int32, _ address: SocketAddress) -> Int32 {
        let result = address.withSocketAddress { Glibc.connect(descriptor, $0, $1) }
        if result == 0 { return 0 }
        // An interrupted connect goes on by itself: writability tells (POSIX connect).
        return errno == EINTR ? EINPROGRESS : errno
    }

    static func bind(_ descriptor: Int32, _ address: SocketAddress) -> Int32 {
        address.withSocketAddress { Glibc.bind(descriptor, $0, $1) } == 0 ? 0 : errno
    }

    static func listen(_ descriptor: Int32) -> Int32 { Glibc.listen(descriptor, 4096) == 0 ? 0 : errno }

    /// What a kernel doesn't take is left as it is.
    static func set(_ descriptor: Int32, _ level: Int32, _ option: Int32, _ value: Int32) {
        var value = value
        _ = setsockopt(descriptor, level, option, &value, socklen_t(MemoryLayout<Int32>.size))
    }

    /// Without reading: a FIN or a reset has come.
    static func hasPeerEnded(_ descriptor: Int32) -> Bool {
        var asked = pollfd(fd: descriptor, events: Int16(EPOLLRDHUP.rawValue), revents: 0)
        return poll(&asked, 1, 0) == 1
    }

    static func finishSending(_ descriptor: Int32) { _ = Glibc.shutdown(descriptor, Int32(SHUT_WR)) }

    /// Never repeated: on Linux the descriptor is gone even when close says `EINTR`.
    static func close(_ descriptor: Int32) {
        if Glibc.close(descriptor) != 0 { trapOurBugs("close", errno) }
    }

    static func duplicate(_ descriptor: Int32) throws(NetError) -> Int32 {
        let copy = fcntl(descriptor, F_DUPFD_CLOEXEC, 0)
        guard copy >= 0 else { throw error(errno, "dup") }
        return copy
    }

    static func localAddress(_ descriptor: Int32) -> SocketAddress? { SocketAddress.read { getsockname(descriptor, $0, $1) } }

    static func peerAddress(_ descriptor: Int32) -> SocketAddress? { SocketAddress.read { getpeername(descriptor, $0, $1) } }

    // MARK: Loop

    static func makeEpoll() throws(NetError) -> Int32 {
        let descriptor = epoll_create1(Int32(EPOLL_CLOEXEC))
        guard descriptor >= 0 else { throw error(errno, "epoll_create1") }
        return descriptor
    }

    static func makeEvent() throws(NetError) -> Int32 {
        let descriptor = eventfd(0, Int32(EFD_CLOEXEC | EFD_NONBLOCK))
        guard descriptor >= 0 else { throw error(errno, "eventfd") }
        return descriptor
    }

    /// A descriptor kept back for the day when there's none.
    static func openSpare() -> Int32 { open("/dev/null", O_RDONLY | O_CLOEXEC) }

    static func signalEvent(_ descriptor: Int32) {
        var one: UInt64 = 1
        // A full counter (EAGAIN) is a signal too.
        while write(descriptor, &one, 8) < 0 && errno == EINTR {}
    }

    static func drainEvent(_ descriptor: Int32) {
        var count: UInt64 = 0
        while read(descriptor, &count, 8) < 0 && errno == EINTR {}
    }

    static func wait(_ epoll: Int32, _ events: UnsafeMutablePointer<epoll_event>, _ capacity: Int, milliseconds: Int32) -> Int {
        let count = epoll_wait(epoll, events, Int32(capacity), milliseconds)
        if count >= 0 { return Int(count) }
        trapOurBugs("epoll_wait", errno)
        // EINTR: the turn goes on with what is due.
        return 0
    }

    /// 0 or the error number (`ENOSPC`, `ENOMEM`: the system's limits).
    static func watch(_ epoll: Int32, _ operation: Int32, _ descriptor: Int32, events: UInt32, data: UInt64) -> Int32 {
        var event = epoll_event()
        event.events = events
        event.data.u64 = data
        if epoll_ctl(epoll, operation, descriptor, &event) == 0 { return 0 }
        trapOurBugs("epoll_ctl", errno)
        return errno
    }

    static func monotonicNow() -> Instant {
        var time = timespec()
        clock_gettime(CLOCK_MONOTONIC, &time)
        return Instant(nanoseconds: UInt64(time.tv_sec) * 1_000_000_000 + UInt64(time.tv_nsec))
    }

    /// Seconds since 1970, for people.
    static func wallSeconds() -> Int64 { Int64(time(nil)) }
}
