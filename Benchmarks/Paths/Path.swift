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

/// Chats that differ from one another, as people's do: what a compressor has to look for, and what a processor can't foresee.
enum Prose {
    static let chats: [[UInt8]] = (0..<64).map { chat($0) }

    private static let words = """
        a about after again all and any back be because been before build but by can chat come did do even find first for from get go good have
        here how if in it just know last later let like look make maybe more much need new not now of on one only or other our out people please
        same see server team think
        """.split { $0 == " " || $0 == "\n" }.map(String.init)

    private static func chat(_ number: Int) -> [UInt8] {
        var seed = UInt64(number) &* 0x9E37_79B9_7F4A_7C15 &+ 1
        func chance() -> UInt64 {
            seed = seed &* 6_364_136_223_846_793_005 &+ 1_442_695_040_888_963_407
            return seed >> 33
        }
        let id = String(chance() << 31 | chance(), radix: 16)
        var text = #"{"type":"chat","id":\#(number),"channel":"room:lobby","messageId":"\#(id)","#
        text += #""payload":{"from":"user-\#(chance() % 10_000)","text":""#
        while text.utf8.count < 1_020 { text += words[Int(chance()) % words.count] + " " }
        return Array(text.utf8.prefix(1_020)) + [UInt8](#""}}"#.utf8)
    }
}
