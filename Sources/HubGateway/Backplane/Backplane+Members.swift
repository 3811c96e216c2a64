import HubBase
import HubCore
import HubWire

extension Backplane: MemberStoreDelegate {
    /// Does what the members machine asks, until it asks for nothing more.
    func carryOutMembers() {
        for action in members.takeActions() {
            switch action {
            case .change(let users, let channel, let known, let mayBeLate, let tag):
                memberStore.change(users, in: channel, known: known, mayBeLate: mayBeLate, tag: tag, at: now)
            case .refresh(let channel, let role, let known, let tag):
                memberStore.refresh(channel, as: role, known: known, tag: tag, at: now)
            case .reap(let dead, let channel, let tag):
                log.info("members.reap", ["channel": "\(channel)", "node": "\(dead)"])
                memberStore.reap(dead, in: channel, tag: tag, at: now)
            case .sweep(let partition, let tag): memberStore.sweep(partition: partition, tag: tag, at: now)
            case .list(let channel, let cursor, let limit, let whole, let tag):
                memberStore.list(channel, cursor: cursor, limit: limit, whole: whole, tag: tag, at: now)
            case .followed(let pages, let tag): post(.followed(pages, tag: tag.low), to: tag.high)
            case .page(let result, let channel, let tag): post(.membersPage(Boxed(result), channel: channel, tag: tag.low), to: tag.high)
            case .push(let change, let loops): post(.members(Boxed(change)), toCarriers: loops)
            }
        }
        numbers.members = members.numbers
    }

    func membersChanged(_ result: Result<MembersTip, WireError>, tag: RequestTag) {
        if case .failure(let error) = result { tellFailure("members.refused", error) }
        members.changed(result, tag: tag, at: now)
    }

    func membersRefreshed(_ result: Result<MembersLease, WireError>, tag: RequestTag) {
        if case .failure(let error) = result { tellFailure("members.refused", error) }
        members.refreshed(result, tag: tag, at: now)
    }

    func membersReaped(_ result: Result<Int, WireError>, tag: RequestTag) { members.reaped(result, tag: tag, at: now) }
    func membersSwept(_ result: Result<MembersSwept, WireError>, partition: Int, tag: RequestTag) {
        switch result {
        case .failure(let error): tellFailure("members.refused", error)
        case .success(let swept) where swept.channels > 0:
            log.info("members.swept", ["channels": "\(swept.channels)", "users": "\(swept.users)"])
            hooks.noticed(partition, at: now)
        case .success: break
        }
        members.swept(result, tag: tag, at: now)
    }

    func membersListed(_ result: Result<MembersList, WireError>, tag: RequestTag) { members.listed(result, tag: tag, at: now) }
    func heard(_ news: MembersNews, channel: Name) {
        members.heard(news, channel: channel, at: now)
        // The first member came, or the last one left: there may be something to deliver.
        if news.occupancy <= 1 { hooks.noticed(Partition.of(channel), at: now) }
    }

    func memberStoreHealth(_ health: BackendHealth) { members.storeHealth(health, at: now) }

    /// What only comes of Redis being away, or full, is told by the node's health.
    private func tellFailure(_ event: String, _ error: WireError) {
        guard error.code != .unavailable, error.code != .storeFull else { return }
        log.limited(.warning, event, at: now, ["code": error.code.rawValue, "message": error.message])
    }
}
