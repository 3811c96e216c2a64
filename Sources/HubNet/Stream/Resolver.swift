import Glibc

/// Names to addresses, on a small thread of its own (getaddrinfo blocks).
package enum Resolver {
    /// Blocks, as long as the system's resolver is set to try (resolv.conf: timeout × attempts); for start-up and tools. Never empty.
    package static func resolve(host: String, port: Int) throws(NetError) -> [SocketAddress] {
        guard let port = UInt16(exactly: port) else {
            throw NetError(number: EINVAL, description: "\(host):\(port): a port is 0 to 65535")
        }
        var hints = addrinfo()
        hints.ai_socktype = Int32(SOCK_STREAM.rawValue)
        hints.ai_family = AF_UNSPEC
        var list: UnsafeMutablePointer<addrinfo>?
        let result = getaddrinfo(host, nil, &hints, &list)
        guard result == 0 else {
            let number = result == EAI_SYSTEM ? errno : 0
            throw NetError(number: number, description: "resolve \(host): \(String(cString: gai_strerror(result)))")
        }
        defer { freeaddrinfo(list) }
        var addresses: [SocketAddress] = []
        var entry = list
        while let current = entry {
            if let system = current.pointee.ai_addr, let address = SocketAddress(system: UnsafeRawPointer(system))?.with(port: port),
                !addresses.contains(address)
            {
                addresses.append(address)
            }
            entry = current.pointee.ai_next
        }
        guard !addresses.isEmpty else { throw NetError(number: 0, description: "resolve \(host): no usable address") }
        return addresses
    }

    /// Answers on the resolver's thread: one for each call, so that a name whose server is silent keeps nobody else waiting.
    package static func resolve(host: String, port: Int, _ done: @escaping @Sendable (Result<[SocketAddress], NetError>) -> Void) {
        do throws(NetError) {
            let thread = try LoopThread(name: "resolver") {
                let result: Result<[SocketAddress], NetError>
                do throws(NetError) { result = .success(try resolve(host: host, port: port)) } catch { result = .failure(error) }
                done(result)
            }
            thread.detach()
        } catch {
            done(.failure(error))
        }
    }
}
