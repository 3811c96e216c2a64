import HubBase
import HubNet
import Testing

@Suite("HTTP machines under random input")
struct HTTPMutationTests {
    static let seeds = [
        "GET /v1/ws?channel=a HTTP/1.1\r\nHost: h\r\nUpgrade: websocket\r\nConnection: keep-alive, Upgrade\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n",
        "POST /v1/publish HTTP/1.1\r\nHost: [::1]:80\r\nContent-Length: 17\r\nExpect: 100-continue\r\nAuthorization: Bearer abc\r\n\r\n{\"channel\":\"a\"}xx",
        "\r\nPOST http://h/ HTTP/1.0\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nHello\r\n0\r\n\r\n",
        "OPTIONS * HTTP/1.1\r\nHost:\r\nX:\t\r\nConnection: close\r\n\r\n",
    ]
    static let pieces: [String] = [
        "\r\n", "\r", "\n", "\r\n\r\n", " ", "\t", ":", ",", "Content-Length: 5\r\n", "Transfer-Encoding: chunked\r\n", "Host: h\r\n",
        "\u{0}", "é", "HTTP/1.1", "GET ", "/",
    ]

    private func mutated(_ seed: String, _ chance: inout Chance) -> [UInt8] {
        var bytes = Array(seed.utf8)
        for _ in 0..<chance.roll(4) where !bytes.isEmpty {
            let place = chance.roll(bytes.count)
            switch chance.roll(5) {
            case 0: bytes[place] ^= 1 << UInt8(chance.roll(8))
            case 1: bytes[place] = UInt8(chance.roll(256))
            case 2: bytes.removeSubrange(place..<min(place + 1 + chance.roll(4), bytes.count))
            case 3: bytes.insert(contentsOf: Array(Self.pieces[chance.roll(Self.pieces.count)].utf8), at: place)
            default: bytes.insert(contentsOf: bytes[place..<min(place + chance.roll(20), bytes.count)], at: chance.roll(bytes.count))
            }
        }
        return bytes
    }

    @Test("head parser: no mutation traps, and cuts change nothing", arguments: 0..<8 as Range<UInt64>)
    func heads(seed: UInt64) {
        var chance = Chance(seed: seed)
        var limits = NetLimits()
        limits.headBytes = 220
        limits.headers = 7
        limits.bodyBytes = 100
        for round in 0..<3000 {
            let bytes = mutated(Self.seeds[chance.roll(Self.seeds.count)], &chance)
            let whole = parseHead(bytes, limits: limits)
            let cut = parseHead(bytes, limits: limits) { 1 + chance.roll(chance.roll(3) == 0 ? 60 : 4) }
            if cut != whole { Issue.record("seed \(seed), round \(round): \(whole) or \(cut): \(String(decoding: bytes, as: UTF8.self))") }
            if let head = whole.found {
                if head.headLength > bytes.count || head.headers.count > 7 { Issue.record("seed \(seed), round \(round): \(head)") }
            }
        }
    }

    @Test("chunked decoder: no mutation traps, and cuts change nothing", arguments: 0..<4 as Range<UInt64>)
    func chunks(seed: UInt64) {
        var chance = Chance(seed: seed)
        var limits = NetLimits()
        limits.bodyBytes = 60
        for round in 0..<3000 {
            let bytes = mutated("5\r\nHello\r\n1a;x=y\r\nabcdefghijklmnopqrstuvwxyz\r\n0\r\nExpires: 0\r\n\r\n", &chance)
            let whole = decodeChunked(bytes, limits: limits) { max(bytes.count, 1) }
            let cut = decodeChunked(bytes, limits: limits) { 1 + chance.roll(4) }
            let agree =
                switch (whole, cut) {
                case (.body(let one, _), .body(let other, _)): one == other
                default: whole == cut
                }
            if !agree { Issue.record("seed \(seed), round \(round): \(whole) or \(cut): \(String(decoding: bytes, as: UTF8.self))") }
        }
    }

    @Test("requests: helpers don't trap on whatever was parsed")
    func requests() {
        var chance = Chance(seed: 99)
        for _ in 0..<3000 {
            let text = String(decoding: mutated(Self.seeds[chance.roll(Self.seeds.count)], &chance), as: UTF8.self)
            _ = withRequest(text) { request in
                _ = request.queryValue("channel")
                _ = request.pathSegments()
                _ = request.listContains("upgrade", in: "connection")
                _ = OpeningHandshake.judge(request)
            }
        }
    }
}
