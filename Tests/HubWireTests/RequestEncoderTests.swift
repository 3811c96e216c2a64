import HubBase
import HubWire
import Testing

/// What clients of ours write: exact bytes, and what the server's scanner makes of them.
@Suite struct RequestEncoderTests {
    static let requests: [(RequestType, String)] = [
        (.connect, written { RequestEncoder.connect(id: 1, token: "a.b\"c", device: "phone", into: &$0) }),
        (.connect, written { RequestEncoder.connect(id: 1, token: "t", device: nil, into: &$0) }),
        (.subscribe, written { RequestEncoder.subscribe(id: 1, channel: "room:42", position: nil, into: &$0) }),
        (.subscribe, written { RequestEncoder.subscribe(id: 1, channel: "room:42", position: .start, into: &$0) }),
        (.unsubscribe, written { RequestEncoder.unsubscribe(id: 1, channel: "a\"b", into: &$0) }),
        (.chat, written { RequestEncoder.publish(.chat, id: 1, channel: "c", messageId: "m", payload: .literal("{}"), into: &$0) }),
        (
            .typing,
            written {
                RequestEncoder.publish(.typing, id: nil, channel: "c", messageId: nil, payload: .literal(#"{"isTyping":true}"#), into: &$0)
            }
        ),
        (.presence, written { RequestEncoder.presence(id: 1, status: .online, into: &$0) }),
        (.presence, written { RequestEncoder.presence(id: 1, status: .away, into: &$0) }),
        (.presence, written { RequestEncoder.presence(id: 1, status: .invisible, into: &$0) }),
        (.watch, written { RequestEncoder.watch(id: 1, users: ["alice", "b\\b"], isUnwatch: false, into: &$0) }),
        (.unwatch, written { RequestEncoder.watch(id: 1, users: [], isUnwatch: true, into: &$0) }),
        (.leave, written { RequestEncoder.leave(id: nil, into: &$0) }),
        (.ping, written { RequestEncoder.ping(id: 1, into: &$0) }),
    ]

    @Test("the bytes of every request")
    func exact() {
        #expect(
            Self.requests.map(\.1) == [
                #"{"type":"connect","id":1,"token":"a.b\"c","device":"phone"}"#,
                #"{"type":"connect","id":1,"token":"t"}"#,
                #"{"type":"subscribe","id":1,"channel":"room:42"}"#,
                #"{"type":"subscribe","id":1,"channel":"room:42","position":".0."}"#,
                #"{"type":"unsubscribe","id":1,"channel":"a\"b"}"#,
                #"{"type":"chat","id":1,"channel":"c","messageId":"m","payload":{}}"#,
                #"{"type":"typing","channel":"c","payload":{"isTyping":true}}"#,
                #"{"type":"presence","id":1,"payload":{"status":"online"}}"#,
                #"{"type":"presence","id":1,"payload":{"status":"away"}}"#,
                #"{"type":"presence","id":1,"payload":{"status":"invisible"}}"#,
                #"{"type":"watch","id":1,"users":["alice","b\\b"]}"#,
                #"{"type":"unwatch","id":1,"users":[]}"#,
                #"{"type":"leave"}"#,
                #"{"type":"ping","id":1}"#,
            ])
    }

    @Test("the server reads every request as what it was")
    func scanned() {
        for (type, text) in Self.requests {
            let found = scan(text)
            #expect(found.type == type, "\(text): \(found.message)")
            #expect(found.id == (text.contains("\"id\"") ? "1" : ""))
        }
    }
}
