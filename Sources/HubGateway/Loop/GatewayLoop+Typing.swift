import HubBase
import HubCore
import HubNet
import HubWire

/// `typing`: what's new of it goes to the channel. The node that took it says when its connection has closed; each loop that handed it on
/// says by itself when it has fallen silent, because the other node may be gone.
extension GatewayLoop {
    private static let stopped = Array(#"{"isTyping":false}"#.utf8)

    func typing(_ request: Request, _ bytes: UnsafeRawBufferPointer, on id: ConnectionID) {
        do throws(WireError) {
            let channel = try channel(of: request, bytes, on: id, allowsDefault: true)
            let session = sessions[Int(id.index)]
            guard session.rights.mayPublish(to: channel) else { throw session.rights.refusal(.publish, in: channel) }
            let payload = request.payload.bytes(in: bytes)
            guard request.payload.isPresent, let isTyping = Payload.isTyping(payload, format: request.format.payload) else {
                throw WireError(.malformed, "payload of typing must be {\"isTyping\": true} or {\"isTyping\": false}")
            }
            let verdict = typingThrottle.judge(isTyping, of: id.index, in: channel, at: net.now)
            if verdict != .tell { numbers.typingThrottled += 1 }
            if verdict != .drop {
                let publication = Publication(
                    messageClass: .typing, user: session.user, device: deviceName(of: id), messageId: .empty, time: wallMilliseconds(),
                    payload: [UInt8](payload), payloadFormat: request.format.payload)
                if verdict == .tell {
                    tellTyping(publication, channel)
                } else {
                    typingThrottle.hold(publication, of: id.index, in: channel)
                }
                timeTyping()
                // What had to make room in the throttle goes at once.
                if typingThrottle.holdsAny, !isHeldTypingTimed { tellHeldTyping() }
            }
            acknowledge(request.id, in: bytes, channel: channel, on: id)
        } catch {
            refuse(error, request.id, in: bytes, on: id)
        }
    }

    private func tellTyping(_ publication: Publication, _ channel: Name) {
        numbers.publications[Int(MessageClass.typing.rawValue)] += 1
        outbox.append(.broadcast(publication, channel: channel))
    }

    /// Hands on what has waited in the throttle long enough, and comes back for the rest.
    private func tellHeldTyping() {
        let (due, next) = typingThrottle.takeHeld(at: net.now)
        for (publication, channel) in due { tellTyping(publication, channel) }
        guard let next else { return }
        isHeldTypingTimed = true
        _ = net.schedule(after: next, kind: TimerKind.heldTyping.rawValue, value: 0)
    }

    func heldTypingIsDue() {
        isHeldTypingTimed = false
        tellHeldTyping()
    }

    /// Whoever is taken to be typing on a connection that closed has stopped.
    func stopTyping(of session: Session, _ index: UInt32) {
        for channel in typingThrottle.closed(index, at: net.now) {
            outbox.append(.broadcast(stopped(session.user, session.device), channel: channel))
        }
    }

    private func stopped(_ user: Name, _ device: Name) -> Publication {
        Publication(
            messageClass: .typing, user: user, device: device, messageId: .empty, time: wallMilliseconds(), payload: GatewayLoop.stopped)
    }

    /// The loop's subscribers are told this.
    func noteTyping(_ publication: Publication, _ channel: Name) {
        let isTyping = publication.payload.withUnsafeBytes { Payload.isTyping($0, format: publication.payloadFormat) } ?? false
        typingBoard.told(
            isTyping, of: TypingBoard.Typist(channel: channel, user: publication.user, device: publication.device), at: net.now)
        timeTyping()
    }

    func typingTimePassed() {
        isTypingTimed = false
        typingThrottle.prune(at: net.now)
        for typist in typingBoard.expired(at: net.now) {
            guard let slot = channels.slot(of: typist.channel), channelStates[slot].isLive else { continue }
            numbers.typingExpired += 1
            deliverTyping(stopped(typist.user, typist.device), typist.channel, slot)
        }
        timeTyping()
    }

    /// Runs a timer while anybody types.
    private func timeTyping() {
        guard !isTypingTimed, !typingBoard.isEmpty || typingThrottle.count > 0 else { return }
        isTypingTimed = true
        _ = net.schedule(after: configuration.typing.expire.scaled(by: 0.125), kind: TimerKind.typing.rawValue, value: 0)
    }
}
