import HubBase
import HubCore
import HubNet
import HubWire

/// Revocations: what their keeper asks for, and the journal that an embedded node with a snapshot has.
extension Backplane {
    func isOfRevocations(_ channel: Name) -> Bool { channel == revocationChannel }

    func carryOut(_ actions: [RevocationKeeper.Action]) {
        guard !actions.isEmpty else { return }
        let tag = Backplane.revocationTag
        for action in actions {
            switch action {
            case .subscribe: broker.subscribe(revocationChannel, tag: tag, at: now)
            case .read(let query): broker.readHistory(of: revocationChannel, query, tag: tag, at: now)
            case .check(let query):
                // The embedded broker loses nothing while the process lives.
                guard ownLoop == nil else { continue }
                broker.readHistory(of: revocationChannel, query, tag: Backplane.revocationCheckTag, at: now)
            case .publish(let publication): broker.publish(publication, to: revocationChannel, attempt: nil, tag: tag, at: now)
            case .tell(let news, let isLive): postToAll(.revoked(news, isLive: isLive))
            case .foreign: numbers.controlForeign += 1
            }
        }
        numbers.revocations = revocations.list.count
    }

    // MARK: The journal

    /// Before `start`: begins with what the journal holds, which may be more than the snapshot does.
    func keep(in journal: RevocationJournal) {
        self.journal = journal
        revocations = RevocationKeeper(known: journal.known, at: now)
    }

    /// False for what needs no disk: connections end with the process.
    func write(_ publication: Publication, into journal: RevocationJournal, tag: RequestTag) -> Bool {
        guard let revocation = Revocation(payload: publication.payload) else { return false }
        if case .connections = revocation.subject { return false }
        let entry = RevocationJournal.Entry(publication: publication, revocation: revocation, tag: tag)
        if !journal.add(entry) {
            post(
                .published(.failure(WireError(.overloaded, "too many revocations are being written", retryAfter: 1000)), tag: tag.low),
                to: tag.high)
        }
        return true
    }

    func journaled(_ entries: [RevocationJournal.Entry], _ error: NetError?) {
        if let error {
            log.limited(.error, "revocations.unwritten", at: now, ["message": error.description])
            let refusal = WireError(
                .storeFull, "the revocation couldn't be written to the disk: see the log, and repeat it", retryAfter: 2000)
            for entry in entries { post(.published(.failure(refusal), tag: entry.tag.low), to: entry.tag.high) }
            return
        }
        for entry in entries { broker.publish(entry.publication, to: revocationChannel, attempt: nil, tag: entry.tag, at: now) }
    }
}
