import HubBase
import HubCore
import HubNet
import HubWire

/// `GET /v1/presence/{user}?explain=1`: why a user's state is what it is.
extension GatewayLoop {
    func explain(_ segment: [UInt8], on id: ConnectionID) -> RequestOutcome {
        guard let user = Name(validating: segment) else {
            return .respond(.error(WireError(.badName, "a user must be 1 to 255 bytes of UTF-8 without control characters")))
        }
        let key = pending.insert(Pending(kind: .httpExplain, connection: id, id: .none))
        outbox.append(.explain(user, tag: tag(key)))
        return .pending
    }

    func explained(_ result: Result<Boxed<PresenceExplanation>, WireError>, isStale: Bool, tag: UInt64) {
        guard let waiting = pending.remove(tag), case .httpExplain = waiting.kind else { return }
        switch result {
        case .failure(let error): net.respond(.error(error), to: waiting.connection)
        case .success(let box):
            let explanation = box.value
            let record = explanation.record
            net.respond(
                .json(200) { body in
                    body.presence(record.change)
                    body.key("because")
                    body.string(explanation.because)
                    body.key("now")
                    body.number(record.now)
                    body.key("connections")
                    body.array { list in
                        for (connection, answer) in zip(record.connections, explanation.answers) {
                            list.object {
                                $0.connection(connection)
                                $0.answer(answer)
                            }
                        }
                    }
                    if let graceLeft = record.graceLeft {
                        body.key("graceLeft")
                        body.number(graceLeft)
                    }
                    body.key("transitions")
                    body.array { list in
                        for transition in record.transitions { list.object { $0.transition(transition) } }
                    }
                    body.stale(isStale)
                }, to: waiting.connection)
        }
    }

    /// What this loop knows of a connection that its id names.
    func look(_ id: ConnectionID, _ connection: Name) -> ConnectionAnswer {
        guard isCurrent(id), node.connection(sessions[Int(id.index)].serial) == connection else { return .gone }
        let address = net.clientAddress(id)?.description ?? ""
        return .facts(
            ConnectionFacts(
                address: Array(address.utf8.prefix(ConnectionFacts.addressMax)), heardAgo: net.now.since(net.lastInbound(id)).milliseconds))
    }
}

extension JSONBody {
    fileprivate mutating func answer(_ answer: ConnectionAnswer) {
        field("answer", answer.name)
        guard case .facts(let facts) = answer else { return }
        key("address")
        string(facts.address)
        key("heardAgo")
        number(facts.heardAgo)
    }

    fileprivate mutating func transition(_ transition: PresenceTransition) {
        field("status", transition.status.name)
        key("version")
        number(transition.version)
        key("time")
        number(transition.time)
        field("cause", transition.cause.name)
        for (name, value) in [
            ("connection" as StaticString, transition.connection), ("node", transition.node), ("device", transition.device),
            ("sweptBy", transition.sweeper),
        ] where !value.isEmpty {
            key(name)
            string(value)
        }
    }
}
