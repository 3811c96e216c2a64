/// Whether the system lets one process hold so many connections: said before anything is started.
package struct Capacity: Sendable, Equatable {
    /// The hard limit (`ulimit -Hn`).
    package var descriptors: Int
    /// Of one local address to one destination.
    package var ports: Int
    package var sources: Int
    package var destinations: Int

    /// Standard streams, epoll, eventfd, and a few that libraries keep.
    private static let descriptorsOfOurOwn = 16

    package init(descriptors: Int, ports: Int, sources: Int = 1, destinations: Int) {
        self.descriptors = descriptors
        self.ports = ports
        self.sources = max(sources, 1)
        self.destinations = max(destinations, 1)
    }

    /// How many connections are possible in one process. Processes of one run share the ports.
    package func possible(processes: Int = 1) -> Int {
        let perPort = ports.multipliedReportingOverflow(by: sources * destinations)
        return min(max(descriptors - Self.descriptorsOfOurOwn, 0), (perPort.overflow ? Int.max : perPort.partialValue) / max(processes, 1))
    }

    /// How many source addresses so many connections in all want: a kernel looks for a free port one by one, first among one half of them, so that
    /// past a half each connect of a source costs milliseconds (measured: 14,100 of 28,232 ports).
    package static func sources(for connections: Int, ports: Int, destinations: Int) -> Int {
        let each = (connections + max(destinations, 1) - 1) / max(destinations, 1)
        let comfortable = max(ports / 3, 1)
        return min(max((each + comfortable - 1) / comfortable, 1), 200)
    }

    /// From which of its source addresses a client connects whose destination is `client % destinations`: to each destination as many come from each
    /// source. Taken in step, two sources and six destinations would make six pairs of twelve, each with ports for twice as many.
    package static func source(of client: Int, sources: Int, destinations: Int) -> Int {
        client / max(destinations, 1) % max(sources, 1)
    }

    /// nil when all is well; else what is short, how many are possible, and what to do.
    package func shortage(bots: Int, processes: Int = 1) -> String? {
        guard bots > possible(processes: processes) else { return nil }
        if bots > descriptors - Self.descriptorsOfOurOwn {
            return "\(bots) connections need as many descriptors, and this process may have \(descriptors) (ulimit -Hn): "
                + "\(max(descriptors - Self.descriptorsOfOurOwn, 0)) are possible; raise the limit, or take more processes (--workers)"
        }
        let sources = sources == 1 ? "one source address" : "\(sources) source addresses"
        return
            "\(bots) connections\(processes > 1 ? " in each of \(processes) processes" : "") need as many local ports, and net.ipv4.ip_local_port_range "
            + "has \(ports) for \(sources) and \(destinations) destination\(destinations == 1 ? "" : "s"): "
            + "\(possible(processes: processes)) are possible; give more --source-addresses or --url, or widen the range"
    }
}
