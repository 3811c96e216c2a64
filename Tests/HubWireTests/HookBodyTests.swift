import Foundation
import HubBase
import HubWire
import Testing

/// What a webhook's body looks like (docs/hooks.md).
@Suite struct HookBodyTests {
    private func body(_ events: [HookEvent], lost: UInt64 = 0) -> String {
        var buffer = ByteBuffer(capacity: 64)
        HookBody.append(events, partition: 17, lost: lost, to: &buffer)
        return String(decoding: buffer.bytes, as: UTF8.self)
    }

    private func event(_ kind: HookKind, _ status: PresenceStatus = .offline, _ name: Name = "ann", occupancy: UInt64 = 0) -> HookEvent {
        HookEvent(
            id: HookEventID(milliseconds: 1_764_530_000_123, sequence: 4), kind: kind, name: name, status: status,
            version: 1_764_530_000_122_001,
            time: 1_764_530_000_122, occupancy: occupancy)
    }

    @Test("a user's event says who, what, which version and when; an offline one also when last seen")
    func users() {
        #expect(
            body([event(.userOnline, .away), event(.userOffline)])
                == #"{"events":[{"id":"17.1764530000123.4","type":"user.online","user":"ann","status":"away","version":1764530000122001,"#
                + #""time":1764530000123},{"id":"17.1764530000123.4","type":"user.offline","user":"ann","status":"offline","#
                + #""version":1764530000122001,"time":1764530000123,"lastSeen":1764530000122}]}"#)
    }

    @Test("a channel's event says which and how many are there")
    func channels() {
        #expect(
            body([event(.channelOccupied, "room:1", occupancy: 1)].map { $0 })
                == #"{"events":[{"id":"17.1764530000123.4","type":"channel.occupied","channel":"room:1","occupancy":1,"time":1764530000123}]}"#
        )
    }

    private func event(_ kind: HookKind, _ name: Name, occupancy: UInt64) -> HookEvent { event(kind, .offline, name, occupancy: occupancy) }

    @Test("what was lost is told when there is any, and every body is JSON, whatever a user is called")
    func lost() throws {
        #expect(body([], lost: 3) == #"{"lost":3,"events":[]}"#)
        let name = Name(validating: "a\"b\\c\u{2028}é🙂")!
        let parsed = try JSONSerialization.jsonObject(with: Data(body([event(.userStatus, .online, name)]).utf8)) as? [String: Any]
        let events = parsed?["events"] as? [[String: Any]]
        #expect(events?.first?["user"] as? String == "a\"b\\c\u{2028}é🙂")
        #expect(events?.first?["type"] as? String == "user.status")
    }

    @Test("kinds have names and letters of their own, and are found by either")
    func kinds() {
        for kind in HookKind.allCases {
            #expect(HookKind(name: "\(kind.name)") == kind)
            #expect(HookKind(letter: kind.letter) == kind)
        }
        #expect(Set(HookKind.allCases.map(\.letter)).count == HookKind.allCases.count)
        #expect(HookKind(name: "user.Online") == nil)
        #expect(HookKinds([.userOnline, .userOffline]).letters == Array("nf".utf8))
    }

    @Test(
        "a change is online when the user was offline, offline when it is, and status else",
        arguments: [
            (PresenceStatus.offline, PresenceStatus.online, HookKind.userOnline), (.offline, .away, .userOnline),
            (.online, .offline, .userOffline),
            (.away, .offline, .userOffline), (.online, .away, .userStatus), (.away, .online, .userStatus),
        ])
    func changes(before: PresenceStatus, after: PresenceStatus, kind: HookKind) { #expect(HookKind(from: before, to: after) == kind) }
}
