import Foundation
import HubBase
import HubWire
import Testing

/// The scanner against a slow twin and against Foundation, on texts that chance has damaged. The seed is fixed, so a failure repeats.
@Suite struct ScannerTwinTests {
    static let seeds = [
        #"{"type":"chat","id":7,"channel":"room:42","messageId":"0e4f","payload":{"text":"hi \"é\" \u00e9 \\","n":[1,-2.5e+7,0.1,true,false,null,{}]}}"#,
        #"{ "type" : "subscribe" , "channels" : [ { "channel" : "a" , "position" : ".0." } , { } ] , "id" : "x\\\ud83d\ude00" , "members" : true }"#,
        #"{"payload":[[[[[[]]]]],{"a":{"b":{"c":[]}}}],"type":"typing"}"#,
        #"{"type":"history","before":0,"limit":100,"reverse":false,"since":"","unknown":[-0.0,1E9,""]}"#,
        "{\"type\":\"ping\"}\n",
    ]

    /// What the scanner says of the grammar alone: a refusal for the envelope's own reasons comes only after the whole text was read.
    private static func isJSON(_ text: [UInt8], depthMax: Int) -> Bool {
        let found = scan(text, depthMax: depthMax)
        return found.code == nil || found.code == .unknownType || (found.code == .malformed && !found.message.hasPrefix("not valid JSON"))
    }

    @Test("20,000 damaged envelopes are taken or refused as a slow twin does, RFC 8259", arguments: [6, 32])
    func twin(depthMax: Int) {
        var chance = Chance(seed: 0x0B5E_55ED)
        var taken = 0
        var refused = 0
        for round in 0..<20_000 {
            let text = Mutation.json(bytes(Self.seeds[round % Self.seeds.count]), &chance)
            let expected = SlowJSON.isObject(text, depthMax: depthMax)
            if Self.isJSON(text, depthMax: depthMax) != expected {
                Issue.record("the twin says \(expected) of \(String(decoding: text, as: UTF8.self).debugDescription)")
            }
            if expected { taken += 1 } else { refused += 1 }
        }
        // Both answers must have been given often, or the comparison says nothing.
        #expect(taken > 2_000 && refused > 8_000, "\(taken) taken, \(refused) refused")
    }

    @Test("what the scanner takes, Foundation parses too, and finds the same fields")
    func foundation() throws {
        var chance = Chance(seed: 77)
        var compared = 0
        for round in 0..<5_000 {
            let text = Mutation.json(bytes(Self.seeds[round % Self.seeds.count]), &chance)
            guard text.withUnsafeBytes({ UTF8Check.isValid($0) }), Self.isJSON(text, depthMax: 32) else { continue }
            // Foundation refuses a lone surrogate, which the grammar allows, and keeps the last of two equal names.
            let shown = String(decoding: text, as: UTF8.self)
            if shown.contains("\\u") || shown.contains("\u{0}") { continue }
            let object: [String: Any]
            do {
                object = try #require(try JSONSerialization.jsonObject(with: Data(text)) as? [String: Any])
            } catch {
                // Numbers beyond a double are grammatical; Foundation says so in its own words.
                #expect("\(error)".contains("umber"), "\(error) for \(shown.debugDescription)")
                continue
            }
            compared += 1
            let found = scan(text)
            if found.code == nil, shown.components(separatedBy: "\"type\"").count == 2 {
                #expect("\(found.type!)" == object["type"] as? String)
            }
        }
        #expect(compared > 500)
    }

    @Test("a damaged envelope never traps a walk through its fields or elements, and ranges stay inside")
    func walks() {
        var chance = Chance(seed: 4)
        for round in 0..<5_000 {
            let text = Mutation.json(bytes(Self.seeds[round % Self.seeds.count]), &chance)
            text.withUnsafeBytes { message in
                var fields = JSONFields(message, range: ByteRange(offset: 0, count: message.count), depthMax: 32)
                do throws(WireError) {
                    while let (key, value) = try fields.next() {
                        #expect(Int(key.range.bytes(in: message).count) <= message.count)
                        guard value.kind == .array else { continue }
                        var elements = JSONElements(message, range: value.range, depthMax: 32)
                        while let element = try elements.next() { _ = element.range.bytes(in: message) }
                    }
                } catch {
                    #expect(error.code == .malformed || error.code == .tooDeep)
                }
            }
        }
    }
}
