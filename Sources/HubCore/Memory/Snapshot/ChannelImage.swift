import HubBase
import HubWire

/// What a channel of the embedded broker keeps, at one moment. Taking one costs a few references, whatever its size: the memory is shared
/// until the channel changes, and copied then. So another thread can write it down while the loop goes on.
package struct ChannelImage: Sendable {
    package internal(set) var name: Name
    package internal(set) var position: Position
    var metaEnds = Instant.distantFuture
    package internal(set) var history = Queue<PositionedPublication>()
    var historyEnds = Instant.distantFuture
    /// Message ids in the order of their ends.
    var ids = Queue<RememberedId>()
    var reads: [Name: UInt64] = [:]
    var readsEnd = Instant.distantFuture
}

extension MemoryChannel {
    /// Nothing that anybody would miss.
    var isBlank: Bool { position == .start && history.isEmpty && idCount == 0 && readCount == 0 }
}

/// Keeps what the embedded broker keeps, over restarts: it writes snapshots, at its own pace. Called on the broker's loop.
package protocol BrokerKeeper: AnyObject {
    /// At the end of each turn.
    func turn(_ broker: MemoryBroker, at now: Instant)
    /// The broker stops and changes no more: what it has now is all.
    func stopping(_ broker: MemoryBroker, at now: Instant)
}

extension MemoryBroker {
    /// Begins with what a snapshot held; before `start`, in a broker that's empty. Call it with channels that `SnapshotDecoder` found to be
    /// within the limits.
    ///
    /// `keepsEpochs`: the snapshot holds all that was ever handed out. When it may not, channels get new epochs and the broker a new generation:
    /// what's kept is served, but a position from before can't be continued, and who comes with one is told so (decision 0112).
    package func restore(_ images: [ChannelImage], generation: Generation?, keepsEpochs: Bool, at now: Instant) {
        if keepsEpochs, var generation {
            // Whatever the file says, it's no longer than a life.
            generation.ends = min(generation.ends, now + Generation.life)
            self.generation = generation
        }
        for image in images {
            let epoch = newEpoch()
            add(keepsEpochs ? image : image.moved(to: epoch), at: now)
        }
    }

    // MARK: The walk

    /// Begins to hand out images of all channels. A channel's image is of the moment when it's handed out.
    package func beginImages() {
        imagesPlace = 0
        imagesAhead.removeAll()
    }

    /// The next `count` or some more; `isLast`: there are no more. Channels may come, go and change in between.
    package func takeImages(_ count: Int) -> (images: [ChannelImage], isLast: Bool) {
        guard var place = imagesPlace else { return ([], true) }
        var images = imagesAhead
        imagesAhead.removeAll()
        while place < list.count, images.count < count {
            if !list[place].isBlank { images.append(list[place].image) }
            place += 1
        }
        let isLast = place >= list.count
        imagesPlace = isLast ? nil : place
        return (images, isLast)
    }

    package func endImages() {
        imagesPlace = nil
        imagesAhead.removeAll()
    }

    /// A channel from behind the walk moves to a place that it has passed.
    func willMove(_ channel: MemoryChannel, to place: Int) {
        if let walked = imagesPlace, place < walked, channel.place >= walked, !channel.isBlank { imagesAhead.append(channel.image) }
    }
}

extension ChannelImage {
    /// The same in another epoch, which didn't begin at any origin that somebody may stand at; tags and offsets stay.
    func moved(to epoch: Mark) -> ChannelImage {
        var moved = self
        if position != .start { moved.position.epoch = epoch }
        moved.history = Queue()
        for place in 0..<history.count {
            var one = history[place]
            one.position.epoch = epoch
            if one.position.offset == 1 { one.previous = .none }
            moved.history.append(one)
        }
        moved.ids = Queue()
        for place in 0..<ids.count {
            var one = ids[place]
            // Of the present epoch; an older one's stays what it was.
            if one.position.epoch == position.epoch { one.position.epoch = epoch }
            moved.ids.append(one)
        }
        return moved
    }
}
