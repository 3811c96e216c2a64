import HubBase
import HubCore
import HubRedis
import HubWire
import Testing

@Suite struct LiveMessageTests {
    static func parse(_ text: String) -> String? {
        [UInt8](text.utf8).withUnsafeBytes { bytes in
            switch LiveMessage(bytes) {
            case .positioned(let position, let previous, let body):
                "\(position.epoch).\(position.offset).\(position.tag)<\(previous) \(String(decoding: body, as: UTF8.self))"
            case .ephemeral(let body): "E \(String(decoding: body, as: UTF8.self))"
            case .renewed: "renewed"
            case .members(let news): "\(news.kind) \(news.sequence) \(news.occupancy) \(news.users.map { "\($0.devices)*\($0.user)" })"
            case nil: nil
            }
        }
    }

    @Test("a positioned message is offset:epoch:previous tag:tag:body, redis-design §4")
    func positioned() {
        #expect(Self.parse("1:epochaaa::tagaaaaa:x:y") == "epochaaa.1.tagaaaaa< x:y")
        #expect(Self.parse("9007199254740991:epochaaa:tagaaaaa:tagbbbbb:") == "epochaaa.9007199254740991.tagbbbbb<tagaaaaa ")
        #expect(Self.parse("E:abc") == "E abc")
        #expect(Self.parse("N:5:epochaaa:tagaaaaa") == "renewed")
    }

    @Test("members' messages are a letter, the sequence, the occupancy and entries of devices:length:user")
    func members() {
        #expect(Self.parse("J:1796011158490:2:1:5:alice12:3:a:b") == #"joined 1796011158490 2 ["1*alice", "12*a:b"]"#)
        #expect(Self.parse("L:5:0:0:5:alice") == #"left 5 0 ["0*alice"]"#)
        #expect(Self.parse("U:5:1:3:1:x") == #"updated 5 1 ["3*x"]"#)
        #expect(Self.parse("R:5:0:abc")?.hasPrefix("rejoin") == true)
    }

    @Test(
        "a members' message that is cut, overlong or against the rules isn't ours",
        arguments: [
            "J", "J:", "J:1", "J:1:2", "J:1:2:", "J:0:1:1:1:x", "J:1:1:0:1:x", "L:1:1:1:1:x", "J:1:1:1:2:x", "J:1:1:1:0:", "J:1:1:1:256:x",
            "J:1:1:-1:1:x", "J:1:1:99999999999:1:x", "J:9007199254740992:1:1:1:x", "J:1:1:1:1:\u{7F}", "J:1:1:1:1:xy", "JJ:1:1:1:1:x",
            "K:1:1:1:1:x", "R:1:0:", "R:0:0:abc", "j:1:1:1:1:x", "U:1:1:1:99999:x",
        ])
    func wrongMembers(text: String) {
        #expect(Self.parse(text) == nil)
    }

    @Test(
        "anything else isn't ours",
        arguments: [
            "", ":", "E", "1:epochaaa::tagaaaaa", "0:epochaaa::tagaaaaa:x", "-1:epochaaa::tagaaaaa:x", "1:::tagaaaaa:x", "1:epochaaa:::x",
            "1:epoch::tagaaaaa:x", "1:epochaaa:short:tagaaaaa:x", "1:EPOCHAAA::tagaaaaa:x", "9007199254740992:epochaaa::tagaaaaa:x",
            "99999999999999999999:epochaaa::tagaaaaa:x", "J:1:2:3", "x1:epochaaa::tagaaaaa:x",
        ])
    func foreign(text: String) {
        #expect(Self.parse(text) == nil)
    }

    @Test("a feed body holds its changes one after another, user ids by length")
    func feed() {
        let text = "online:1700000000000001:1700000000000:5:alicaway:7:0:3:a:boffline:8:9:2:\u{E9}"
        // The first length takes one character of what follows: "alica".
        let changes = [UInt8](text.utf8).withUnsafeBytes { FeedPayload.parse($0) }
        #expect(changes == nil)
        let right = "online:1700000000000001:1700000000000:5:aliceaway:7:0:3:a:boffline:8:9:2:\u{E9}"
        #expect(
            [UInt8](right.utf8).withUnsafeBytes { FeedPayload.parse($0) } == [
                PresenceChange(user: "alice", status: .online, version: 1_700_000_000_000_001, lastSeen: 1_700_000_000_000),
                PresenceChange(user: "a:b", status: .away, version: 7, lastSeen: 0),
                PresenceChange(user: Name(trusted: [UInt8]("\u{E9}".utf8)), status: .offline, version: 8, lastSeen: 9),
            ])
    }

    @Test(
        "a feed body that isn't ours is refused as a whole",
        arguments: [
            "x", "online:1:1:5:ali", "online:1:1:0:", "gone:1:1:1:a", "online:1:1:256:a", "online:9007199254740992:1:1:a",
            "online:1:1:1:aonline", "online:1:1:1:\u{7}",
        ])
    func foreignFeed(text: String) {
        #expect([UInt8](text.utf8).withUnsafeBytes { FeedPayload.parse($0) } == nil)
    }

    @Test("what a record keeps of a connection comes back, whatever its names hold")
    func connectionValue() {
        for device in [Name.empty, "phone", "a;b:3|{}", Name(trusted: [UInt8](String(repeating: "\u{E9}", count: 32).utf8))] {
            for state in [ConnectionState.online, .away, .invisible] {
                var buffer = ByteBuffer(capacity: 16)
                ConnectionValue.append(state: state, node: "no:de", device: device, age: .milliseconds(17), to: &buffer)
                #expect(buffer.bytes.prefix(3).elementsEqual([UInt8]("17;".utf8)))
                // The script puts the moment in the place of the age.
                let kept = buffer.copyBytes().dropFirst(3) + [UInt8]("1700000000000".utf8)
                buffer.removeAll()
                buffer.append(Array(kept))
                let parsed = ConnectionValue.parse(buffer.bytes)
                #expect(parsed?.state == state && parsed?.node == "no:de")
                #expect(parsed?.device == device && parsed?.since == 1_700_000_000_000)
                for cut in 0..<buffer.count - 13 {
                    #expect(ConnectionValue.parse(UnsafeRawBufferPointer(rebasing: buffer.bytes[..<cut])) == nil)
                }
            }
        }
    }

    @Test("errors of Redis are sorted by their first word")
    func faults() {
        func fault(_ text: String) -> RedisFault { [UInt8](text.utf8).withUnsafeBytes { RedisFault($0) } }
        #expect(fault("NOSCRIPT No matching script.") == .noScript)
        #expect(fault("OOM command not allowed when used memory > 'maxmemory'.") == .full)
        #expect(fault("READONLY You can't write against a read only replica.") == .wrongServer)
        #expect(fault("LOADING Redis is loading the dataset in memory") == .wrongServer)
        #expect(fault("WRONGTYPE Operation against a key") == .foreign)
        #expect(fault("ERR Error running script (call to f_0): @user_script:7: WRONGTYPE Operation against a key") == .foreign)
        #expect(fault("FOREIGN the stream key") == .foreign)
        #expect(fault("ERR user_script:9: FOREIGN the stream holds") == .foreign)
        #expect(fault("READERS the channel") == .readersFull)
        #expect(fault("") == .other)
        #expect(RedisFault.full.wireError("", foreign: .notOurs).code == .storeFull)
        #expect(RedisFault.wrongServer.wireError("", foreign: .notOurs).code == .unavailable)
    }

    @Test("of why a link is down everybody may be told the kind, and nothing that the server or the configuration said")
    func kinds() {
        func kind(_ problem: String) -> String? { RedisFault.kind(of: problem).map { "\($0)" } }
        #expect(
            kind("10.0.0.7:6379: AUTH is refused: WRONGPASS invalid username-password pair")
                == "Redis refuses the user name or the password")
        #expect(kind("10.0.0.7:6379: NOAUTH Authentication required.") == "Redis refuses the user name or the password")
        #expect(kind("10.0.0.7:6379: NOPERM User bob has no permissions") == "the hub's user lacks a right in Redis")
        #expect(kind("SELECT 9 is refused: ERR DB index is out of range") == "Redis has no database of this number")
        #expect(kind("rediss://10.0.0.7:6379: the server's certificate has expired") == "the TLS connection to Redis fails")
        #expect(kind("rediss://10.0.0.7:6379: connection refused") == nil)
        #expect(
            kind("10.0.0.7:6379: hub:cfg holds LOADING READONLY, this version needs {}; a hub needs a prefix of its own (redis.prefix)")
                == "a key of Redis that the hub needs is somebody else's, or of another version")
    }
}
