import HubBase
import HubCore
import HubNet
import HubWire

/// `/metrics` in the Prometheus text format (version 0.0.4). Label values come from closed lists; no user, channel or address is one.
enum Metrics {
    static func response(_ state: NodeState, limits: NetLimits, _ configuration: Configuration, asks: [AskShell.Numbers])
        -> HTTPResponse
    {
        HTTPResponse(
            status: 200, headers: [("Content-Type", "text/plain; version=0.0.4; charset=utf-8")],
            body: Array(
                text(
                    state.loopNumbers, state.backplaneNumbers, isReady: state.phase.isReady, usesRedis: configuration.redis.isUsed,
                    limits: limits, asks: asks
                ).utf8))
    }

    static func text(
        _ loops: [LoopNumbers], _ backplane: BackplaneNumbers, isReady: Bool, usesRedis: Bool, limits: NetLimits, asks: [AskShell.Numbers]
    )
        -> String
    {
        var page = MetricsPage()
        page.gauge("hub_ready", "1 while /readyz says yes.", isReady ? 1 : 0)
        page.gauge("hub_connections", "Open sockets, HTTP ones among them.", sum(loops) { UInt64($0.connections) })
        page.gauge(
            "hub_connections_limit", "limits.connections, or what there are descriptors for.", UInt64(max(limits.connections.limit, 0)))
        page.gauge("hub_sessions", "Open sessions: WebSockets and streams of events.", sum(loops) { UInt64(max($0.sessions, 0)) })
        page.gauge("hub_streams", "Open streams of server-sent events.", sum(loops) { UInt64(max($0.streams, 0)) })
        page.gauge("hub_channels", "Channels with a subscriber, counted on each loop.", sum(loops) { UInt64($0.channels) })
        page.gauge("hub_subscriptions", "Subscriptions of all connections.", sum(loops) { UInt64(max($0.subscriptions, 0)) })
        page.gauge("hub_watched_users", "Users whose presence is watched, counted on each loop.", sum(loops) { UInt64($0.watched) })
        page.counter("hub_connections_accepted_total", "Sockets accepted.", sum(loops) { $0.net.accepted })
        page.counter("hub_connections_refused_total", "Sockets turned away at a limit.", sum(loops) { $0.net.refused })
        page.counter(
            "hub_connections_refused_by_address_total", "Of those: by limits.connectionsPerAddress.", sum(loops) { $0.net.refusedByAddress }
        )
        page.counter(
            "hub_accept_exhausted_total", "Times that no descriptor was left to accept with.", sum(loops) { $0.net.outOfDescriptors })
        page.counter("hub_turned_away_total", "WebSockets beyond limits.acceptsPerSecond.", sum(loops) { $0.turnedAway })
        page.family("hub_timeouts_total", "Deadlines that passed, by what was waited for.", "counter")
        page.sample("phase", "request", sum(loops) { $0.net.requestTimeouts })
        page.sample("phase", "authentication", sum(loops) { $0.net.authenticationTimeouts })
        page.sample("phase", "pong", sum(loops) { $0.net.pongTimeouts })
        page.sample("phase", "close", sum(loops) { $0.net.closeTimeouts })
        page.counter(
            "hub_arrivals_failed_total", "Connections whose TLS handshake or PROXY header was wrong or late.",
            sum(loops) { $0.net.arrivalsFailed })
        page.counter("hub_tls_handshakes_total", "TLS handshakes completed.", sum(loops) { $0.net.tlsHandshakes })
        page.counter("hub_tls_resumptions_total", "TLS handshakes that resumed a session.", sum(loops) { $0.net.tlsResumptions })
        page.family("hub_recoveries_total", "Subscribers that came with a position, by what became of it.", "counter")
        page.sample("outcome", "nothingMissed", backplane.recovery.nothingMissed)
        page.sample("outcome", "fromMemory", backplane.recovery.fromMemory)
        page.sample("outcome", "fromHistory", backplane.recovery.fromHistory)
        page.sample("outcome", "lost", backplane.recovery.lost)
        page.sample("outcome", "failed", backplane.recovery.failed)
        page.gauge(
            "hub_recovery_memory_bytes", "What channels remember for those who come back (limits.recoveryMemory).",
            UInt64(max(backplane.recoveryBytes, 0)))
        page.counter(
            "hub_typing_throttled_total", "typing that said nothing new, or waited for its turn.", sum(loops) { $0.typingThrottled })
        page.counter("hub_typing_expired_total", "Those who stopped typing without a word.", sum(loops) { $0.typingExpired })
        page.counter(
            "hub_tls_waited_total", "TLS handshakes that had to wait for limits.acceptsPerSecond.", sum(loops) { $0.net.tlsWaited })
        page.counter("hub_tls_turned_away_total", "Those of them whose deadline passed meanwhile.", sum(loops) { $0.net.tlsTurnedAway })
        page.counter("hub_messages_received_total", "WebSocket messages from clients.", sum(loops) { $0.net.messagesIn })
        page.counter("hub_received_bytes_total", "Bytes from clients.", sum(loops) { $0.net.bytesIn })
        page.counter("hub_sent_bytes_total", "Bytes to clients.", sum(loops) { $0.net.bytesOut })
        page.counter("hub_deflate_agreed_total", "Connections that agreed to permessage-deflate.", sum(loops) { $0.net.deflateAgreed })
        page.counter(
            "hub_deflate_messages_total", "Messages compressed, a broadcast's once for each loop and window.",
            sum(loops) { $0.net.deflated })
        page.counter("hub_deflate_input_bytes_total", "Bytes of those before.", sum(loops) { $0.net.deflateBytesIn })
        page.counter("hub_deflate_output_bytes_total", "Bytes of those after.", sum(loops) { $0.net.deflateBytesOut })
        page.counter("hub_inflate_messages_total", "Compressed messages from clients.", sum(loops) { $0.net.inflated })
        page.counter("hub_inflate_input_bytes_total", "Bytes of those before.", sum(loops) { $0.net.inflateBytesIn })
        page.counter("hub_inflate_output_bytes_total", "Bytes of those after.", sum(loops) { $0.net.inflateBytesOut })
        page.counter(
            "hub_inflate_refused_total", "Compressed messages above the limit when inflated, or malformed.",
            sum(loops) { $0.net.inflateRefused })
        page.counter("hub_writes_total", "Write calls to clients' sockets.", sum(loops) { $0.net.writes })
        page.counter("hub_deliveries_total", "Publications handed to subscribers, each counted.", sum(loops) { $0.deliveries })
        page.family("hub_publications_total", "Publications taken from clients and the API.", "counter")
        for messageClass in MessageClass.allCases {
            page.sample("class", "\(messageClass.name)", sum(loops) { $0.publications[Int(messageClass.rawValue)] })
        }
        page.family("hub_refusals_total", "Requests refused, by error code.", "counter")
        for (place, code) in ErrorCode.allCases.enumerated() {
            page.sample("code", code.rawValue, sum(loops) { $0.refusals[place] })
        }
        page.family("hub_stream_posts_total", "Posts to streams of events, by what became of them.", "counter")
        for outcome in StreamPostOutcome.allCases {
            page.sample("outcome", "\(outcome.name)", sum(loops) { $0.streamPosts[Int(outcome.rawValue)] })
        }
        page.counter("hub_stream_posts_forwarded_total", "Posts passed on to the node that holds the stream.", backplane.postsForwarded)
        page.counter("hub_stream_posts_received_total", "Posts that other nodes passed on to this one.", backplane.postsReceived)
        page.counter(
            "hub_stream_events_total", "Messages written as events, a broadcast's once for each loop (twice with ids).",
            sum(loops) { $0.net.events })
        page.counter(
            "hub_control_foreign_total", "Messages on the node's control channel that weren't understood.", backplane.controlForeign)
        page.counter(
            "hub_channels_renewed_total", "Channels that got a new epoch because Redis took back what this node had acknowledged.",
            backplane.channelsRenewed)
        page.counter(
            "hub_acknowledged_forgotten_total",
            "Acknowledged places that weren't remembered until they were an hour old, for want of room.",
            backplane.acknowledgementsForgotten)
        page.gauge("hub_send_memory_bytes", "Memory of what waits to be sent.", UInt64(max(limits.sendMemory.inUse, 0)))
        page.gauge("hub_send_memory_limit_bytes", "limits.sendMemory.", UInt64(max(limits.sendMemory.limit, 0)))
        page.family(
            "hub_drops_total", "Frames left out for slow readers, by class; closed: of any class, with the connection closed for it.",
            "counter")
        page.sample("class", "typing", sum(loops) { $0.net.dropped.typing })
        page.sample("class", "presence", sum(loops) { $0.net.dropped.presence })
        page.sample("class", "read", sum(loops) { $0.net.dropped.read })
        page.sample("class", "closed", sum(loops) { $0.net.framesDropped })
        page.counter("hub_slow_closed_total", "Connections closed because their queue was full.", sum(loops) { $0.net.closedTooSlow })
        page.family("hub_rate_limited_total", "Requests and connections refused for a rate, by which (limits.*PerSecond).", "counter")
        for limit in RateLimit.allCases {
            // Sockets are refused before there's a request.
            let sockets = limit == .addressConnects ? sum(loops) { $0.net.refusedByAddressPace } : 0
            page.sample("limit", limit.label, sum(loops) { $0.rateLimited[limit.rawValue] } &+ sockets)
        }
        page.counter("hub_floods_closed_total", "Connections closed for going past their rates too often.", sum(loops) { $0.floods })
        page.counter(
            "hub_connections_refused_by_user_total", "Connections closed by limits.connectionsPerUser.", sum(loops) { $0.refusedByUser })
        page.counter(
            "hub_rate_reports_total", "Reports of what users spent (limits.user.*): with Redis a call each.", sum(loops) { $0.rateReports })
        page.family("hub_security_events_total", "Refusals by their kind (docs/security.md), logged or not.", "counter")
        for event in SecurityEvent.allCases { page.sample("event", event.name, sum(loops) { $0.security[event.rawValue] }) }
        page.counter("hub_authentication_failures_total", "Tokens and API keys refused.", sum(loops) { $0.authenticationFailures })
        page.counter(
            "hub_rights_lost_total", "Subscriptions and watchings ended because the right to them was gone.", sum(loops) { $0.rightsLost })
        page.counter("hub_revoked_closed_total", "Connections closed by an operator's word.", sum(loops) { $0.revokedClosed })
        page.gauge("hub_revocations", "Revocations that hold.", UInt64(max(backplane.revocations, 0)))
        page.gauge("hub_broker_up", "1 while the broker (Redis or embedded) is reached and proven.", backplane.linkUp ? 1 : 0)
        page.gauge("hub_redis_link_up", "1 while Redis is reached and proven; 0 also without Redis.", usesRedis && backplane.linkUp ? 1 : 0)
        page.gauge("hub_store_full", "1 while the store has no room for anything new.", backplane.storeFull ? 1 : 0)
        page.counter("hub_broker_publications_total", "Publications that came from the broker.", backplane.received)
        page.counter("hub_resyncs_total", "Gaps announced to subscribers.", backplane.resyncs)
        page.counter("hub_presence_changes_total", "Presence changes of watched users.", backplane.presenceChanges)
        page.counter("hub_presence_swept_total", "Users that this node's sweeps found gone.", backplane.swept)
        staleness(loops, &page)
        page.counter(
            "hub_presence_false_offlines_total", "Users declared offline while a connection on this node, in good order, showed otherwise.",
            backplane.falseOfflines)
        page.gauge("hub_member_channels", "Channels whose members this node knows of.", UInt64(backplane.members.channels))
        page.gauge("hub_member_channels_followed", "Of those: with clients who follow them.", UInt64(max(backplane.members.followed, 0)))
        page.family("hub_member_frames_total", "Frames of members' changes made for followers, by mode.", "counter")
        for mode in MembersMode.allCases { page.sample("mode", "\(mode.name)", backplane.members.frames[Int(mode.rawValue)]) }
        page.counter(
            "hub_members_reaped_total", "Users taken out of channels with their dead nodes, by this node.", backplane.members.reaped)
        page.counter("hub_member_gaps_total", "Lists of members read again because a message was missing.", backplane.members.gaps)
        page.counter("hub_member_failures_total", "Calls about members that the store refused.", backplane.members.failures)
        page.counter("hub_local_typing_total", "Typing fanned out on this node alone while degraded.", backplane.localOnly)
        page.counter("hub_probes_failed_total", "Probes through the publish path that failed.", backplane.probesFailed)
        let hooks = backplane.hooks
        page.counter("hub_hook_events_delivered_total", "Events of webhooks that the receiver has taken.", hooks.delivered)
        page.family("hub_hook_requests_total", "Requests of webhooks, by what came of them.", "counter")
        page.sample("outcome", "delivered", hooks.requestsDelivered)
        page.sample("outcome", "refused", hooks.requestsRefused)
        page.sample("outcome", "failed", hooks.requestsFailed)
        page.family("hub_hook_events_lost_total", "Events of webhooks that nobody was told of, by why.", "counter")
        page.sample("reason", "full", hooks.overflowed)
        page.sample("reason", "refused", hooks.refused)
        page.sample("reason", "old", hooks.tooOld)
        page.sample("reason", "foreign", hooks.foreign)
        page.gauge(
            "hub_hook_queue_events", "Events that wait in the partitions that this node delivers.",
            UInt64(max(backplane.hookBacklog.length, 0)))
        page.gauge("hub_hook_oldest_milliseconds", "How long the oldest of them has waited.", backplane.hookBacklog.oldest.milliseconds)
        AskMetrics.write(asks, &page)
        return page.text
    }

    /// Sums over loops; the unit is seconds, as Prometheus has it.
    private static func staleness(_ loops: [LoopNumbers], _ page: inout MetricsPage) {
        page.family(
            "hub_presence_staleness_seconds",
            "Age of presence changes when the last watcher on a loop got them, from the cause (offline: when the user was seen last).",
            "histogram")
        for status in PresenceStatus.allCases {
            let label = "status=\"\(status.name)\""
            for (place, bound) in StalenessNumbers.bounds.enumerated() {
                page.line("_bucket{\(label),le=\"\(seconds(bound))\"}", "\(sum(loops) { $0.staleness.cumulative(status, upTo: place) })")
            }
            let count = sum(loops) { $0.staleness.cumulative(status, upTo: StalenessNumbers.bounds.count) }
            page.line("_bucket{\(label),le=\"+Inf\"}", "\(count)")
            page.line("_sum{\(label)}", seconds(sum(loops) { $0.staleness.sums[Int(status.rawValue)] }))
            page.line("_count{\(label)}", "\(count)")
        }
    }

    private static func seconds(_ milliseconds: UInt64) -> String {
        let rest = milliseconds % 1_000
        guard rest > 0 else { return "\(milliseconds / 1_000)" }
        var digits = String(1_000 + rest).dropFirst()
        while digits.last == "0" { digits.removeLast() }
        return "\(milliseconds / 1_000).\(digits)"
    }

    private static func sum(_ loops: [LoopNumbers], _ value: (LoopNumbers) -> UInt64) -> UInt64 { loops.reduce(0) { $0 &+ value($1) } }
}

struct MetricsPage {
    private(set) var text = ""
    private var current = ""

    mutating func family(_ name: String, _ help: String, _ type: String) {
        current = name
        text += "# HELP \(name) \(help)\n# TYPE \(name) \(type)\n"
    }

    mutating func sample(_ label: String, _ value: String, _ number: UInt64) { text += "\(current){\(label)=\"\(value)\"} \(number)\n" }

    /// A sample of the family with a suffix and labels of its own.
    mutating func line(_ suffix: String, _ value: String) { text += "\(current)\(suffix) \(value)\n" }

    mutating func gauge(_ name: String, _ help: String, _ value: UInt64) {
        family(name, help, "gauge")
        text += "\(name) \(value)\n"
    }

    mutating func counter(_ name: String, _ help: String, _ value: UInt64) {
        family(name, help, "counter")
        text += "\(name) \(value)\n"
    }
}
