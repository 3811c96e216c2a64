import Glibc

/// One hot path: what is done, and how to do it many times.
struct Path {
    let name: String
    let what: String
    /// Does it so many times; what comes back depends on all of them, so that none can be left out.
    let run: (Int) -> Int

    /// CPU nanoseconds of one: the median of five rounds of 20 ms at least, rounded to a tenth.
    func nanoseconds() -> Double {
        var times = 64
        precondition(run(1) > 0, "\(name) does nothing")
        while cpu({ _ = run(times) }) < 2e7 { times *= 2 }
        let rounds = (0..<5).map { _ in cpu { _ = run(times) } / Double(times) }.sorted()
        return (rounds[2] * 10).rounded() / 10
    }

    private func cpu(_ body: () -> Void) -> Double {
        let before = Self.now()
        body()
        return Self.now() - before
    }

    /// Of this process: what others do on the machine counts less than on the wall's clock.
    private static func now() -> Double {
        var time = timespec()
        clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time)
        return Double(time.tv_sec) * 1e9 + Double(time.tv_nsec)
    }
}

/// A chat as clients send it, with a payload of `size` bytes.
func chat(_ size: Int) -> [UInt8] {
    [UInt8](#"{"type":"chat","id":17,"channel":"room:lobby","messageId":"m-0123456789","payload":"#.utf8) + payload(size)
        + [UInt8]("}".utf8)
}

/// A JSON value of `size` bytes that deflates about as well as people's words do.
func payload(_ size: Int) -> [UInt8] {
    let words = ["the ", "quick ", "brown ", "fox ", "says ", "hello ", "to ", "nobody ", "in ", "room ", "four "]
    var text = #"{"text":""#
    var seed: UInt32 = 7
    while text.utf8.count < size - 2 {
        seed = seed &* 1_664_525 &+ 1_013_904_223
        text += words[Int(seed >> 16) % words.count]
    }
    return Array(text.utf8.prefix(size - 2)) + [UInt8]("\"}".utf8)
}
