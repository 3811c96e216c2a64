import HubBase

/// What a bot says: who, the how-many-eth, and when it was *scheduled* (monotonic nanoseconds of this machine), so that whoever hears it
/// knows the latency without asking anybody.
///
/// Always the same fields in the same order, so that reading it is a comparison and three numbers; hubs pass payloads on verbatim.
package struct SwarmPayload: Sendable, Equatable {
    /// Tells this run's messages from those of another swarm in the same room.
    package var run: UInt64
    package var bot: UInt32
    package var sequence: UInt32
    package var scheduled: UInt64

    package init(run: UInt64, bot: UInt32, sequence: UInt32, scheduled: UInt64) {
        self.run = run
        self.bot = bot
        self.sequence = sequence
        self.scheduled = scheduled
    }

    /// Bytes of JSON; filled up to `size` where the fields are shorter.
    package func encode(size: Int, into buffer: inout ByteBuffer) {
        let start = buffer.count
        buffer.append("{\"run\":")
        buffer.append(decimal: run)
        buffer.append(",\"bot\":")
        buffer.append(decimal: UInt64(bot))
        buffer.append(",\"sequence\":")
        buffer.append(decimal: UInt64(sequence))
        buffer.append(",\"scheduled\":")
        buffer.append(decimal: scheduled)
        let missing = size - (buffer.count - start) - 11
        if missing > 0 {
            buffer.append(",\"fill\":\"")
            let target = buffer.reserve(missing)
            for place in 0..<missing { target.storeBytes(of: UInt8(ascii: "x"), toByteOffset: place, as: UInt8.self) }
            buffer.advance(by: missing)
            buffer.append("\"")
        }
        buffer.append("}")
    }

    /// nil for what isn't a bot's.
    package init?(_ bytes: UnsafeRawBufferPointer) {
        var reader = Reader(bytes: bytes)
        guard let run = reader.number(after: "{\"run\":"), let bot = reader.number(after: ",\"bot\":").flatMap(UInt32.init(exactly:)),
            let sequence = reader.number(after: ",\"sequence\":").flatMap(UInt32.init(exactly:)),
            let scheduled = reader.number(after: ",\"scheduled\":")
        else { return nil }
        self.init(run: run, bot: bot, sequence: sequence, scheduled: scheduled)
    }

    private struct Reader {
        let bytes: UnsafeRawBufferPointer
        var place = 0

        mutating func number(after text: StaticString) -> UInt64? {
            let expected = UnsafeRawBufferPointer(start: text.utf8Start, count: text.utf8CodeUnitCount)
            guard bytes.count - place > expected.count, bytes[place..<place + expected.count].elementsEqual(expected) else { return nil }
            place += expected.count
            var value: UInt64 = 0
            let start = place
            while place < bytes.count, bytes[place] >= 48, bytes[place] <= 57 {
                let (product, tooLarge) = value.multipliedReportingOverflow(by: 10)
                let (sum, over) = product.addingReportingOverflow(UInt64(bytes[place] - 48))
                guard !tooLarge, !over else { return nil }
                value = sum
                place += 1
            }
            return place > start ? value : nil
        }
    }
}
