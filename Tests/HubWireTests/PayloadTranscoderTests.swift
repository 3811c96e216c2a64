import Foundation
import HubBase
import HubWire
import Testing

/// A payload for those who speak the other format: docs/vectors/payloads.json, and what chance makes of it.
@Suite struct PayloadTranscoderTests {
    @Test("JSON becomes the MessagePack of the vectors")
    func fromJSON() throws {
        for vector in try Vectors.payloads().fromJSON {
            #expect(rewritten(bytes(vector.json), from: .json, to: .messagePack) == (try Vectors.hex(vector.msgpack)), "\(vector.json)")
        }
    }

    @Test("MessagePack becomes the JSON of the vectors")
    func fromMessagePack() throws {
        for vector in try Vectors.payloads().fromMessagePack {
            let packed = try Vectors.hex(vector.msgpack)
            #expect(packed.withUnsafeBytes { MessagePack.isValue($0, depthMax: 32) }, "\(vector.msgpack)")
            #expect(text(rewritten(packed, from: .messagePack, to: .json)) == vector.json, "\(vector.msgpack)")
            #expect(SlowMessagePack(packed, depthMax: 32)?.json == vector.json, "\(vector.msgpack)")
        }
    }

    @Test("what JSON can't carry is refused: extensions, numbers that aren't finite, field names that aren't text")
    func refused() throws {
        for vector in try Vectors.payloads().refused {
            let packed = try Vectors.hex(vector.msgpack)
            #expect(packed.withUnsafeBytes { !MessagePack.isValue($0, depthMax: 32) }, "\(vector.why)")
            #expect(rewritten(packed, from: .messagePack, to: .json) == nil, "\(vector.why)")
            #expect(SlowMessagePack(packed, depthMax: 32) == nil, "\(vector.why)")
        }
    }

    @Test(
        "what isn't JSON is refused",
        arguments: ["", "[", "[1,]", "{\"a\"}", "{\"a\":1,}", "01", "tru", "1 2", "\"", "\"\\x\"", "{1:2}", "[1 2]"])
    func notJSON(broken: String) {
        #expect(rewritten(bytes(broken), from: .json, to: .messagePack) == nil)
    }

    @Test("64 levels are rewritten, 65 aren't, both ways")
    func depth() {
        func json(_ levels: Int) -> [UInt8] { bytes(String(repeating: "[", count: levels) + String(repeating: "]", count: levels)) }
        func packed(_ levels: Int) -> [UInt8] { [UInt8](repeating: 0x91, count: levels - 1) + [0x90] }
        #expect(rewritten(json(64), from: .json, to: .messagePack) == packed(64))
        #expect(rewritten(json(65), from: .json, to: .messagePack) == nil)
        #expect(rewritten(packed(64), from: .messagePack, to: .json) == json(64))
        #expect(rewritten(packed(65), from: .messagePack, to: .json) == nil)
    }

    @Test("containers of any size come back", arguments: [0, 1, 15, 16, 17, 255, 65_535, 65_536, 70_000])
    func sizes(count: Int) throws {
        let list = "[" + (0..<count).map { "\($0 % 100)" }.joined(separator: ",") + "]"
        // Nested, so that a header which grows moves what another one announced.
        let nested = "[\(list),{\"a\":\(list)},\"\(String(repeating: "ü", count: count / 2))\"]"
        let packed = try #require(rewritten(bytes(nested), from: .json, to: .messagePack))
        #expect(packed.withUnsafeBytes { MessagePack.isValue($0, depthMax: 3) })
        #expect(text(rewritten(packed, from: .messagePack, to: .json)) == nested)
        #expect(SlowMessagePack(packed, depthMax: 3)?.json == nested)
    }

    @Test("rewriting grows a payload at most six times, and the worst case is what we say")
    func growth() {
        let control = [0xDA, 0x03, 0xE8] + [UInt8](repeating: 1, count: 1000)
        #expect(rewritten(control, from: .messagePack, to: .json)?.count == 6002)
        let zeros = "[" + [String](repeating: "-0", count: 1000).joined(separator: ",") + "]"
        #expect(rewritten(bytes(zeros), from: .json, to: .messagePack)?.count == 9003)
        #expect(rewritten(bytes("-0"), from: .json, to: .messagePack)?.count == 9)
    }

    @Test(
        "a number of any length is the nearest double, beyond their range infinity or nothing",
        arguments: [("1", .infinity), ("-1", -.infinity), ("0.", 7.0 / 9), ("1e", .infinity), ("1e-", 0)] as [(String, Double)])
    func longNumbers(start: String, value: Double) throws {
        let digits = String(repeating: "7", count: 60_000)
        let bits = withUnsafeBytes(of: value.bitPattern.bigEndian) { [UInt8]($0) }
        #expect(rewritten(bytes(start + digits), from: .json, to: .messagePack) == [0xCB] + bits)
    }

    private static let seeds = [
        #"{"text":"hi \"é\" \u00e9 \\ \ud83d\ude00 \ud800","n":[1,-2.5e+7,0.1,true,false,null,{},-129,4294967296,-9223372036854775808]}"#,
        #"[[[[[[]]]]],{"a":{"b":{"c":[]}}},"",[0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17]]"#,
        #" [ -0 , 1E9 , 18446744073709551616 , 1e400 , { "" : "" } ] "#,
    ]

    @Test("10,000 damaged JSON payloads: taken as the scanner does, and the MessagePack means the same to Foundation")
    func damagedJSON() throws {
        var chance = Chance(seed: 0xA5)
        var taken = 0
        var compared = 0
        for round in 0..<10_000 {
            let damaged = Mutation.json(bytes(Self.seeds[round % Self.seeds.count]), &chance)
            let isValue = damaged.withUnsafeBytes { JSONText.isValue($0, depthMax: 64) }
            let packed = rewritten(damaged, from: .json, to: .messagePack)
            #expect((packed != nil) == isValue, "\(text(damaged)!.debugDescription)")
            guard let packed, damaged.withUnsafeBytes({ UTF8Check.isValid($0) }) else { continue }
            taken += 1
            let shown = text(damaged)!
            let tree = SlowMessagePack(packed, depthMax: 64)
            // Infinity stands for what no double holds; it's taken from nobody.
            guard let tree else {
                #expect(packed.contains(0x7F) || packed.contains(0xFF), "\(shown.debugDescription)")
                continue
            }
            // Foundation refuses lone surrogates and keeps one of two equal names; it can't judge those.
            guard !shown.contains("\\u"), !shown.contains("\u{0}") else { continue }
            guard let theirs = try? JSONSerialization.jsonObject(with: Data(damaged), options: .fragmentsAllowed) else { continue }
            compared += 1
            #expect(tree.means(theirs), "\(shown.debugDescription)")
        }
        #expect(compared > 400, "\(compared)")
        #expect(taken > 1_500, "\(taken)")
    }

    @Test("10,000 damaged MessagePack payloads: taken and rewritten as a slow twin does", arguments: [3, 64])
    func damagedMessagePack(depthMax: Int) throws {
        var chance = Chance(seed: 0x5A)
        let seeds = try Self.seeds.map {
            try #require(rewritten(bytes($0.replacing("1e400", with: "1e40")), from: .json, to: .messagePack))
        }
        var taken = 0
        for round in 0..<10_000 {
            let damaged = Mutation.messagePack(seeds[round % seeds.count], &chance)
            let tree = SlowMessagePack(damaged, depthMax: depthMax)
            #expect(damaged.withUnsafeBytes { MessagePack.isValue($0, depthMax: depthMax) } == (tree != nil), "\(damaged)")
            guard let tree else { continue }
            taken += 1
            #expect(text(rewritten(damaged, from: .messagePack, to: .json)) == tree.json, "\(damaged)")
        }
        #expect(taken > 500, "\(taken)")
    }
}

extension SlowMessagePack {
    /// Whether Foundation's tree says the same. Its numbers may be decimals: they are compared as doubles.
    fileprivate func means(_ other: Any) -> Bool {
        switch (self, other) {
        case (.null, is NSNull): true
        case (.bool(let value), let other as Bool): value == other
        case (.unsigned(let value), let other as NSNumber): Double(value) == other.doubleValue
        case (.signed(let value), let other as NSNumber): Double(value) == other.doubleValue
        case (.double(let value), let other as NSNumber): value == other.doubleValue
        case (.string(let value), let other as String): value.utf8.elementsEqual(other.utf8)
        case (.array(let elements), let others as [Any]):
            elements.count == others.count && zip(elements, others).allSatisfy { $0.means($1) }
        case (.map(let fields), let others as [String: Any]):
            // Of equal names Foundation keeps one.
            others.allSatisfy { name, other in fields.contains { $0.0 == name && $0.1.means(other) } }
        default: false
        }
    }
}
