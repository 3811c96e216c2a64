/// Why a command ends with another code than 0. The text says what happened, where, and what to do.
struct Failure: Error {
    enum Kind: Int32 {
        case refused = 1
        case usage = 2
        case unreachable = 3
    }

    var kind: Kind
    var text: String

    static func refused(_ text: String) -> Failure { Failure(kind: .refused, text: text) }
    static func usage(_ text: String) -> Failure { Failure(kind: .usage, text: text) }
    static func unreachable(_ text: String) -> Failure { Failure(kind: .unreachable, text: text) }
}
