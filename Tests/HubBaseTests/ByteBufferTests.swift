import HubBase
import Testing

/// The buffer that encoders append to and sockets read from.
@Suite struct ByteBufferTests {
    @Test("what is appended stands there in order, however often it grew")
    func appending() {
        var buffer = ByteBuffer(capacity: 0)
        var twin: [UInt8] = []
        var chance = Chance(seed: 8)
        for round in 0..<2_000 {
            switch Int.random(in: 0..<5, using: &chance) {
            case 0:
                let byte = UInt8.random(in: 0...255, using: &chance)
                buffer.append(byte)
                twin.append(byte)
            case 1:
                let bytes = [UInt8](repeating: UInt8(truncatingIfNeeded: round), count: Int.random(in: 0...100, using: &chance))
                buffer.append(bytes)
                twin += bytes
            case 2:
                buffer.append("literal é")
                twin += Array("literal é".utf8)
            case 3:
                let value = UInt64.random(in: 0...(UInt64.max >> UInt64.random(in: 0...63, using: &chance)), using: &chance)
                buffer.append(decimal: value)
                twin += Array("\(value)".utf8)
            default:
                let length = Int.random(in: 0...twin.count, using: &chance)
                buffer.removeFirst(length)
                twin.removeFirst(length)
            }
            let (bytes, count, capacity) = (buffer.copyBytes(), buffer.count, buffer.capacity)
            if bytes != twin || count != twin.count || capacity < count { Issue.record("differs after round \(round)") }
        }
    }

    @Test("decimal digits of the numbers where their count changes")
    func decimals() {
        var numbers: [UInt64] = [0, .max, 1 << 53, UInt64(Int64.max)]
        var power: UInt64 = 1
        for _ in 0..<19 {
            power *= 10
            numbers += [power - 1, power]
        }
        for number in numbers {
            var buffer = ByteBuffer(capacity: 1)
            buffer.append(decimal: number)
            #expect(buffer.copyBytes() == Array("\(number)".utf8))
        }
        for number in [Int64.min, -1, 0, 1, .max] {
            var buffer = ByteBuffer(capacity: 1)
            buffer.append(decimal: number)
            #expect(buffer.copyBytes() == Array("\(number)".utf8))
        }
    }

    @Test("reserved room counts only once it's advanced over")
    func reserving() {
        var buffer = ByteBuffer(capacity: 16)
        buffer.reserve(1_000).storeBytes(of: 0x41, as: UInt8.self)
        let before = buffer.count
        buffer.advance(by: 1)
        let (after, capacity) = (buffer.copyBytes(), buffer.capacity)
        #expect(before == 0 && after == [0x41] && capacity >= 1_000)
    }

    @Test("an empty buffer gives memory above the limit back, a filled one keeps it")
    func trimming() {
        var buffer = ByteBuffer(capacity: 16)
        buffer.append([UInt8](repeating: 1, count: 100_000))
        buffer.trim(above: 1_024)
        let kept = buffer.capacity
        buffer.removeAll()
        buffer.trim(above: 1_024)
        let (given, count) = (buffer.capacity, buffer.count)
        buffer.append("still works")
        let bytes = buffer.copyBytes()
        #expect(kept >= 100_000 && given == 1_024 && count == 0)
        #expect(bytes == Array("still works".utf8))
    }

    @Test("a range reads its own bytes of a message; absent is empty and not present")
    func ranges() {
        let message: [UInt8] = Array("abcdef".utf8)
        message.withUnsafeBytes { message in
            #expect(Array(ByteRange(offset: 2, count: 3).bytes(in: message)) == Array("cde".utf8))
            #expect(ByteRange(offset: 6, count: 0).bytes(in: message).isEmpty && ByteRange(offset: 6, count: 0).isPresent)
            #expect(ByteRange.absent.bytes(in: message).isEmpty && !ByteRange.absent.isPresent)
        }
        #expect(MemoryLayout<ByteRange>.size == 8)
    }
}
