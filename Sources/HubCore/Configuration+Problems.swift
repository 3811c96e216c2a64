import HubBase

extension Configuration {
    /// Broken relations between settings, a sentence each that names them; empty when the node may start. The bounds of single settings
    /// are the loader's.
    package func problems() -> [String] {
        presence.problems() + limitProblems() + deadlineProblems() + keyProblems() + edgeProblems() + hookProblems()
            + ask.problems(namespaces)
    }

    private func deadlineProblems() -> [String] {
        // The next ping would be due before the last one has been judged.
        guard deadlines.pong >= ping else { return [] }
        return ["deadlines.pong (\(deadlines.pong)) must be shorter than ping (\(ping))"]
    }

    private func limitProblems() -> [String] {
        var problems: [String] = []
        func require(_ holds: Bool, _ sentence: String) {
            if !holds { problems.append(sentence) }
        }
        // A publication is the message and what the hub adds to it; one that doesn't fit the queue could reach nobody.
        let whole = limits.messageBytes.addingReportingOverflow(Self.envelopeBytesMax).partialValue
        require(
            limits.outboundBytes >= whole,
            "limits.outboundBytes (\(limits.outboundBytes)) must be at least limits.messageBytes + \(Self.envelopeBytesMax) (\(whole)), or the largest message reaches nobody"
        )
        require(
            limits.sendMemory >= limits.outboundBytes,
            "limits.sendMemory (\(limits.sendMemory)) must be at least limits.outboundBytes (\(limits.outboundBytes)), or no queue could reach its own limit"
        )
        require(
            limits.bodyBytes >= whole,
            "limits.bodyBytes (\(limits.bodyBytes)) must be at least limits.messageBytes + \(Self.envelopeBytesMax) (\(whole)), or HTTP can't publish the largest message"
        )
        require(
            !diagnostics.echo || diagnostics.echoBytes >= limits.messageBytes,
            "diagnostics.echoBytes (\(diagnostics.echoBytes)) must be at least limits.messageBytes (\(limits.messageBytes))")
        require(
            typing.expire.nanoseconds / 2 >= typing.throttle.nanoseconds,
            "typing.expire (\(typing.expire)) must be at least twice typing.throttle (\(typing.throttle)), or who goes on typing seems to stop"
        )
        for (name, perSecond) in [
            ("bytesPerSecond", limits.bytesPerSecond), ("user.bytesPerSecond", limits.user.bytes),
            ("address.bytesPerSecond", limits.address.bytes),
        ] where perSecond > 0 {
            // It would go through all the same, since a full bucket takes any message; but hardly as whoever set this thought.
            let rate = Rate(perSecond: perSecond, within: limits.burst)
            require(
                rate.cost(limits.messageBytes) <= rate.depth,
                "limits.\(name) (\(perSecond)) must allow limits.messageBytes (\(limits.messageBytes)) within limits.burst (\(limits.burst))"
            )
        }
        require(
            limits.watchRequest <= limits.watch,
            "limits.watchRequest (\(limits.watchRequest)) must be at most limits.watch (\(limits.watch))")
        return problems
    }

    /// The most that the hub writes around a payload: names, ids and a position, each escaped at worst.
    private static let envelopeBytesMax = 4 * 1024

    private func edgeProblems() -> [String] {
        var problems: [String] = []
        if !tls.listen.isEmpty && tls.certificates.isEmpty { problems.append("tls.listen needs a certificate: tls.certificates is empty") }
        if tls.listen.isEmpty && !tls.certificates.isEmpty { problems.append("tls.certificates serve nobody: tls.listen is empty") }
        if let secret = tls.ticketSecret, secret.bytes.count < Self.ticketSecretBytesMin {
            problems.append("tls.ticketSecretFile holds \(secret.bytes.count) bytes; \(Self.ticketSecretBytesMin) are needed at least")
        }
        if proxy.usesProtocol && proxy.trusted.isEmpty {
            problems.append("proxy.protocol needs proxy.trusted: a PROXY header is believed from there only")
        }
        return problems
    }

    private static let ticketSecretBytesMin = 32

    private func hookProblems() -> [String] {
        var problems: [String] = []
        guard hooks.url != nil else {
            if !hooks.secrets.isEmpty { problems.append("hooks.secret signs nothing: hooks.url is missing") }
            return problems
        }
        if hooks.secrets.isEmpty {
            problems.append("hooks.url needs hooks.secret: without a signature its receiver believes anybody")
        }
        for (index, secret) in hooks.secrets.enumerated() where secret.bytes.count < Self.hookSecretBytesMin {
            problems.append("hooks.secret[\(index)] has \(secret.bytes.count) bytes; \(Self.hookSecretBytesMin) are needed at least")
        }
        if hooks.events.isEmpty { problems.append("hooks.url is told of nothing: hooks.events is empty") }
        if hooks.keep <= hooks.retryMax {
            problems.append("hooks.keep (\(hooks.keep)) must be longer than hooks.retryMax (\(hooks.retryMax))")
        }
        return problems
    }

    private static let hookSecretBytesMin = 16

    private func keyProblems() -> [String] {
        var problems: [String] = []
        if !isDevelopment {
            if tokenKeys.isEmpty && !keySet.isUsed && !ask.isIssuer { problems.append(Self.noKey) }
            for (index, key) in tokenKeys.enumerated() where key.secret.bytes.count < key.bytesMin {
                // RFC 7518 §3.2: a key of at least the size of the hash.
                problems.append(
                    "auth.keys[\(index)] is \(key.secret.bytes.count) bytes long; \(key.algorithm) needs at least \(key.bytesMin) bytes")
            }
        }
        if keySet.file != nil && keySet.url != nil {
            problems.append("auth.jwks.file and auth.jwks.url are both given; one of them is enough")
        }
        if keySet.interval > keySet.refresh {
            problems.append("auth.jwks.interval (\(keySet.interval)) must be at most auth.jwks.refresh (\(keySet.refresh))")
        }
        if keySet.keep < keySet.refresh {
            problems.append("auth.jwks.keep (\(keySet.keep)) must be at least auth.jwks.refresh (\(keySet.refresh))")
        }
        let ids = tokenKeys.compactMap { $0.id.map { Array($0.utf8) } }
        if Set(ids).count < ids.count { problems.append("auth.keys has two keys with the same kid") }
        if Set(apiKeys.map { Array($0.id.utf8) }).count < apiKeys.count { problems.append("api.keys has two keys with the same id") }
        if Set(apiKeys.map(\.digest)).count < apiKeys.count { problems.append("api.keys has the same key twice") }
        return problems
    }

    private static let noKey = """
        auth.keys is empty: with no key to check tokens with nobody could connect. One of these:
          hubd --dev                                                 on this machine only, without tokens
          hubd --config FILE                                         FILE: { auth: { keys: [{ alg: "HS256", file: "/etc/hub/secret" }] } }
          HUB_CFG_AUTH__KEYS='[{"alg":"HS256","env":"HUB_SECRET"}]'  and the secret (32 bytes at least) in HUB_SECRET
        """
}
