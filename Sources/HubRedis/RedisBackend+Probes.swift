import HubBase
import HubCore
import HubWire

// Messages to ourselves that prove the data path (redis-design §5), each behind a write that changes nothing: PUBLISH works also where
// nothing can be written.
extension RedisBackend {
    /// Through the publish path of each master.
    func probe(tag: RequestTag, at now: Instant) -> WireError? {
        if let refusal = link.refusal() { return refusal }
        guard masters.problem(wasUp: health == .up, at: now) == nil else { return .redisAway }
        for master in masters.all where !master.lanes.isEmpty && master.isUp {
            guard let partition = probePartition(of: master) else { continue }
            let number = probes.add(tag, master: master.number, deadline: now + RedisBackend.probeDeadline)
            link.send(.trial(number, partition: partition))
            link.send(.probe(number, partition: partition))
        }
        // All of them wait for a subscription just now, which has a deadline of its own.
        return probes.isPending(tag) ? nil : .redisAway
    }

    private func probePartition(of master: Master) -> Int? {
        guard masters.isCluster else { return Partition.of(incarnation) }
        return master.lanes.first { lane in
            guard lane < Partition.count, let index = subscriber.set.find(keys.probeChannel(incarnation, lane)) else { return false }
            return subscriber.set[index].state == .live
        }
    }

    func probeCameBack(_ body: UnsafeRawBufferPointer) {
        if let number = body.decimal { probeProven(probes.cameBack(number)) }
    }

    func probeTried(_ number: UInt64, isFull: Bool) { probeProven(probes.tried(number, isFull: isFull)) }

    private func probeProven(_ tag: RequestTag?) {
        guard let tag else { return }
        let isFull = masters.all.contains { !$0.lanes.isEmpty && probes.full.contains($0.number) }
        broker?.delegate?.probed(isFull ? .failure(.redisOutOfMemory) : .success(()), tag: tag)
    }

    func tellProbes(_ failed: [RequestTag]) { for tag in failed { broker?.delegate?.probed(.failure(.redisAway), tag: tag) } }
}
