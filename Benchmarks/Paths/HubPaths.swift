import HubBase
import HubCore
import HubRedis
import HubToken
import HubWire

/// Envelopes, channels, Redis's replies, tokens.
func hubPaths() -> [Path] {
    let room = Name(trusted: [UInt8]("room:lobby".utf8))
    let publication = Publication(
        messageClass: .chat, user: Name(trusted: [UInt8]("user-4711".utf8)), device: .empty,
        messageId: Name(trusted: [UInt8]("m-0123456789".utf8)), time: 1_700_000_000_000, payload: payload(128))
    let position = Position(epoch: Mark(chance: 1), offset: 4_711, tag: Mark(chance: 2))

    return [
        Path(name: "scan", what: "an envelope of 211 bytes, payload of 128") { times in
            let text = chat(128)
            return text.withUnsafeBytes { bytes in
                var found = 0
                for _ in 0..<times {
                    if case .request(let request) = EnvelopeScanner.scan(bytes, format: .json, depthMax: 64) {
                        found &+= Int(request.payload.count)
                    }
                }
                return found
            }
        },
        Path(name: "envelope", what: "a publication encoded, payload of 128") { times in
            var out = ByteBuffer(capacity: 4096)
            for _ in 0..<times {
                out.removeAll()
                EnvelopeEncoder.publication(publication, channel: room, position: position, format: .json, into: &out)
            }
            return out.count
        },
        Path(name: "lookup", what: "a channel among 100,000 found by its bytes, and its 10 members visited") { times in
            let rooms = Rooms.some
            var sum = 0
            for turn in 0..<times {
                rooms.names[turn % 1_000].withUnsafeBytes { name in
                    guard let slot = rooms.registry.slot(of: name) else { return }
                    rooms.registry.withMembers(of: slot, .json) { for member in $0 { sum &+= Int(member) } }
                }
            }
            return sum
        },
        Path(name: "reply", what: "a pub/sub message of Redis with a publication of 128 bytes, read and decoded") { times in
            var body = ByteBuffer(capacity: 1024)
            PublicationCodec.encode(publication, into: &body)
            var message = ByteBuffer(capacity: 2048)
            message.append("*3\r\n$7\r\nmessage\r\n$19\r\nhub:{12}:c:room:lob\r\n$")
            message.append(decimal: UInt64(body.count))
            message.append("\r\n")
            message.append(body.bytes)
            message.append("\r\n")
            let reader = ReplyReader()
            var bytes = 0
            for _ in 0..<times {
                reader.feed(message.bytes)
                guard reader.next() == .reply, let text = reader.reply.string(3) else { continue }
                bytes &+= PublicationCodec.decode(text)?.payload.count ?? 0
            }
            return bytes
        },
        Path(name: "token", what: "an HS256 token with two rights verified") { times in
            let key = TokenKey(id: nil, secret: Secret([UInt8]("0123456789abcdef0123456789abcdef".utf8)))
            let claims = #"{"sub":"user-4711","iat":1700000000,"exp":1700003600,"caps":{"room:*":["subscribe","publish"]}}"#
            guard
                let token = try? TokenMinter.sign(
                    header: [UInt8](#"{"alg":"HS256","typ":"JWT"}"#.utf8), claims: [UInt8](claims.utf8), key: key)
            else { return 0 }
            let verifier = TokenVerifier(keys: [key])
            var taken = 0
            for _ in 0..<times {
                if case .success(let claims) = verifier.verify(token, nowMilliseconds: 1_700_000_001_000) {
                    taken &+= claims.user.bytes.count
                }
            }
            return taken
        },
    ]
}

/// 100,000 channels, of which each hundredth has ten members. Made once: what it takes isn't what is measured.
final class Rooms {
    var registry = Registry(seed: 42)
    let names = (0..<1_000).map { [UInt8]("room:\($0 * 100)".utf8) }

    nonisolated(unsafe) static let some = Rooms()

    init() {
        for number in 0..<100_000 {
            let slot = registry.insert(Name(trusted: [UInt8]("room:\(number)".utf8))).slot
            guard number % 100 == 0 else { continue }
            for member in 0..<UInt32(10) { _ = registry.add(UInt32(number / 10) + member, to: slot, .json) }
        }
    }
}
