import HubBase
import HubWire
import Testing

/// MessagePack with numbers for names: what its numbers are, and what a scan makes of them. Whole envelopes: `EnvelopeVectorTests`.
@Suite struct ShortFormTests {
    @Test("the numbers are those of docs/vectors/short.json, which only grows at its ends")
    func numbers() throws {
        let numbers = try Vectors.numbers()
        #expect(WireField.allCases.map { "\($0)" } == numbers.fields)
        #expect(WireField.allCases.enumerated().allSatisfy { $0 == Int($1.rawValue) })
        #expect(WireWord.allCases.map { "\($0)" } == numbers.words)
        #expect(WireWord.allCases.enumerated().allSatisfy { $0 == Int($1.rawValue) })
        #expect(numbers.worded == ["type", "event", "status", "code", "class", "reason", "mode"])
        // What is given out stays what it is: these are the first and last of version 1.
        #expect(numbers.fields[0] == "type" && numbers.fields[9] == "payload" && numbers.fields[48] == "age")
        #expect(numbers.words[0] == "ack" && numbers.words[18] == "welcome" && numbers.words[56] == "unknownStream")
        #expect(numbers.fields.count <= 128 && numbers.words.count <= 128, "the next one takes two bytes: is that meant?")
    }

    @Test("every field that the hub reads has a number, and so has every type and code", arguments: RequestField.allCases)
    func fields(field: RequestField) throws {
        let number = try #require(WireField.allCases.first { "\($0)" == "\(field)" }, "\(field)").rawValue
        #expect(RequestField(number: UInt64(number)) == field)
    }

    @Test("every closed list is among the words")
    func words() {
        let words = Set(WireWord.allCases.map { "\($0)" })
        #expect(words.isSuperset(of: RequestType.allCases.map { "\($0)" }))
        #expect(words.isSuperset(of: ErrorCode.allCases.map(\.rawValue)))
        #expect(words.isSuperset(of: PresenceStatus.allCases.map { "\($0)" }))
        #expect(words.isSuperset(of: ServerEnvelope.Kind.allCases.map { "\($0)" }))
        #expect(words.isSuperset(of: MessageClass.allCases.map { "\($0)" }))
    }

    @Test("every type is known by its number", arguments: RequestType.allCases)
    func types(type: RequestType) throws {
        let word = try #require(WireWord.allCases.first { "\($0)" == "\(type)" }).rawValue
        #expect(scanShort([0x81, 0x00, word]).type == type)
        #expect(scanShort([0x81, 0xCD, 0x00, 0x00, 0xCC, word]).type == type, "a number may have any of its forms")
    }

    @Test("names may stand beside numbers; of a repeated field the first counts, whichever way it's written")
    func mixed() {
        let found = scanShort(
            [0x84, 0xA4] + bytes("type") + [0x02, 0x01, 0x07, 0x02, 0xA1, 0x61, 0xA7] + bytes("channel") + [0xA1, 0x62])
        #expect(found.type == .chat && found.idBytes == [7] && found.channel == "a")
        #expect(scanShort([0x82, 0x00, 0xA4] + bytes("ping") + [0x01, 0x07]).type == .ping, "a word may be text")
    }

    @Test(
        "numbers that nobody gave out, and fields of others, are ignored with all that they hold",
        arguments: [
            [0x7F, 0xC0], [0xCD, 0x01, 0x00, 0x81, 0x01, 0x91, 0x02], [0x19, 0x05], [0xCF, 255, 255, 255, 255, 255, 255, 255, 255, 0x01],
        ]
            as [[UInt8]])
    func unknown(field: [UInt8]) {
        #expect(scanShort([0x82] + field + [0x00, 0x11]).type == .ping)
    }

    @Test(
        "a word that is no request's type is unknownType, by its number",
        arguments: [[0x7E], [0xCD, 0x01, 0x2C], [0x00], [0x12]] as [[UInt8]])
    func unknownTypes(word: [UInt8]) {
        let found = scanShort([0x82, 0x01, 0x09, 0x00] + word)
        #expect(found.code == .unknownType && found.idBytes == [9])
        #expect(found.message == "unknown type \(word == [0x7E] ? 126 : word == [0xCD, 0x01, 0x2C] ? 300 : Int(word[0]))")
    }

    @Test(
        "a type that is neither text nor a whole number is malformed",
        arguments: [[0xFF], [0xCB, 0x40, 0x1C, 0, 0, 0, 0, 0, 0], [0xC3], [0xCF, 255, 255, 255, 255, 255, 255, 255, 255], [0x80]]
            as [[UInt8]])
    func badTypes(value: [UInt8]) {
        let found = scanShort([0x82, 0x01, 0x09, 0x00] + value)
        #expect(found.code == .malformed && found.message.contains("\"type\"") && found.idBytes == [9])
    }

    @Test(
        "a name that is neither text nor a whole number from 0 is malformed",
        arguments: [[0xFF], [0xC0], [0xC2], [0xCB, 0, 0, 0, 0, 0, 0, 0, 0]] as [[UInt8]])
    func badNames(name: [UInt8]) {
        let found = scanShort([0x82, 0x00, 0x11] + name + [0x01])
        #expect(found.code == .malformed && found.message.contains("field name"))
    }

    @Test("a payload's names are text: numbers there have nothing in JSON to be")
    func payloads() {
        #expect(scanShort([0x83, 0x00, 0x02, 0x02, 0xA1, 0x61, 0x09, 0x81, 0xA1, 0x61, 0x02]).payloadBytes == [0x81, 0xA1, 0x61, 0x02])
        for name in [[0x09], [0xA7] + bytes("payload")] as [[UInt8]] {
            let found = scanShort([0x83, 0x00, 0x02, 0x02, 0xA1, 0x61] + name + [0x91, 0x81, 0x01, 0x02])
            #expect(found.code == .malformed && found.message.contains("field name"))
        }
    }

    @Test("numbers for names are the short form's alone")
    func alone() {
        #expect(scanPacked([0x81, 0x00, 0x11]).code == .malformed)
        #expect(scanPacked([0x81, 0xA4] + bytes("type") + [0x11]).code == .malformed)
    }

    @Test("20,000 damaged envelopes never trap, and ranges stay inside")
    func damage() throws {
        var chance = Chance(seed: 0x5B08)
        let seeds = try Vectors.envelopes().filter { !$0.isFromHub }.map(\.short)
        var taken = 0
        for round in 0..<20_000 {
            let message = Mutation.messagePack(seeds[round % seeds.count], &chance)
            let found = scanShort(message)
            if found.code == nil { taken += 1 }
            #expect(found.payloadBytes.count <= message.count)
        }
        #expect(taken > 1_000 && taken < 10_000, "\(taken)")
    }
}
