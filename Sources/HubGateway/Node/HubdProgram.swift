import Glibc
import HubBase
import HubCore
import HubNet

/// `hubd` from its arguments to its exit code. The executable calls this and nothing else.
package enum HubdProgram {
    /// 0: stopped in order. 1: failed at run time (a taken port, a last snapshot that can't be written). 2: usage or configuration.
    package static func run(arguments: [String], environment: [String: String]) -> Int32 {
        signal(SIGPIPE, SIG_IGN)
        switch Hubd.prepare(arguments: arguments, environment: environment) {
        case .exit(let code, let output, let errors):
            if !output.isEmpty { StandardStream.output.write(output) }
            if !errors.isEmpty { StandardStream.error.write(errors) }
            return Int32(code)
        case .run(let loaded, let options):
            // `ps` shows them no longer than the start takes. Options are read by now, for reloads too.
            ShownArguments.hide(from: SecretArguments.start)
            return serve(loaded) { () throws(ConfigurationError) in try Hubd.load(options, environment: environment) }
        }
    }

    private static func serve(_ loaded: LoadedConfiguration, reload: () throws(ConfigurationError) -> LoadedConfiguration) -> Int32 {
        let configuration = loaded.configuration
        let log = Log(level: configuration.logLevel, format: configuration.logFormat)
        for warning in loaded.warnings { log.warning("configuration.warning", ["message": warning]) }
        let descriptors = DescriptorLimit.raise()
        log.info("node.descriptors", ["limit": descriptors])
        // Threads inherit the mask: signals come to this thread only, when it asks.
        var signals = SignalSet([SIGTERM, SIGINT, SIGHUP])
        signals.block()

        let node: Node
        do {
            node = try Node(configuration, log: log, descriptors: descriptors)
        } catch {
            StandardStream.error.write("hubd: \(error.description)\(hint(error))\n")
            return 1
        }
        if node.connectionsMax < configuration.limits.connections {
            // The default is meant as "as many as there are descriptors for"; a number that somebody chose isn't.
            let isChosen = configuration.limits.connections != Configuration().limits.connections
            let fields: KeyValuePairs<String, any LogValue> = [
                "connections": node.connectionsMax, "descriptors": descriptors, "limits.connections": configuration.limits.connections,
            ]
            if isChosen { log.warning("node.connectionsLimited", fields) } else { log.info("node.connectionsLimited", fields) }
        }
        log.info(
            "node.started",
            [
                "node": node.name, "version": HubVersion.text, "loops": node.loopCount, "connections": node.connectionsMax,
                "broker": configuration.redis.isUsed ? "redis" : "embedded",
                "mode": configuration.isDevelopment ? "development" : "production",
                "addresses": node.addresses.map(\.description).joined(separator: " "),
            ])
        for address in node.addresses {
            let scheme = node.secureAddresses.contains(address) ? "https" : "http"
            StandardStream.output.write("hubd \(HubVersion.text) listens on \(scheme)://\(address)\n")
        }

        var current = configuration
        while true {
            switch signals.wait() {
            case SIGHUP: current = reconfigure(node, from: current, reload, log)
            case SIGTERM, SIGINT:
                log.info("node.stopping", [:])
                let unsaved = node.stop(impatient: { signals.wait(milliseconds: 20).map { $0 != SIGHUP } ?? false })
                log.info("node.stopped", [:])
                guard let unsaved else { return 0 }
                StandardStream.error.write(
                    "hubd: embedded.snapshot: \(unsaved). The snapshot of the end isn't written: the next start goes on from the one before it,"
                        + " and tells clients (epochChanged).\n")
                return 1
            default: break
            }
        }
    }

    private static func reconfigure(
        _ node: Node, from running: Configuration, _ reload: () throws(ConfigurationError) -> LoadedConfiguration, _ log: Log
    ) -> Configuration {
        do throws(ConfigurationError) {
            let loaded = try reload()
            for warning in loaded.warnings { log.warning("configuration.warning", ["message": warning]) }
            let difference = ConfigurationDiff(from: running, to: loaded.configuration)
            let isSame = difference.live.isEmpty && difference.needsRestart.isEmpty
            node.reconfigure(difference.merged)
            // Whoever reads this may rely on it.
            log.info(
                "configuration.reloaded",
                isSame
                    ? ["message": "nothing changed"]
                    : [
                        "changed": difference.live.map(\.description).joined(separator: "; "),
                        "needsRestart": difference.needsRestart.map(\.description).joined(separator: "; "),
                    ])
            log.level = difference.merged.logLevel
            return difference.merged
        } catch {
            log.error("configuration.refused", ["message": error.description])
            return running
        }
    }

    private static func hint(_ error: NetError) -> String {
        switch error.number {
        case EADDRINUSE: ". Another process has this port: stop it, or choose another with --listen HOST:PORT (port 0 picks a free one)."
        case EACCES: ". Ports below 1024 need privileges: choose a higher one with --listen."
        case EADDRNOTAVAIL: ". This machine has no such address."
        default: ""
        }
    }
}
