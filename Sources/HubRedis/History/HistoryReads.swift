import HubBase
import HubCore
import HubWire

/// A read of a channel's history, for a caller or to fill a hole.
struct HistoryCall {
    enum Purpose {
        case request(RequestTag)
        case fill(index: Int, generation: UInt32)
    }

    var channel: Name
    var query: HistoryQuery
    var purpose: Purpose
}

struct MarksCall {
    var channel: Name
    var user: Name
    var limit: Int
    var tag: RequestTag
}

/// Reads that wait for their turn. They're pipelined, but only so many are under way at once: a page costs Redis some hundred microseconds,
/// and publications wait behind it.
struct HistoryReads {
    /// Under way at once, those that fill holes among them; waiting.
    static let window = 128
    static let fillWindow = 64
    static let waitingMax = 10_000
    /// What one page may hold at most, whatever was asked for: it has to pass as one reply.
    static let limitMax = 10_000
    static let bytesMax = 4 << 20

    var waiting = Ring<HistoryCall>()
    private(set) var underWay = 0
    private(set) var fillsUnderWay = 0

    var hasRoom: Bool { underWay < HistoryReads.window }
    var hasRoomToFill: Bool { hasRoom && fillsUnderWay < HistoryReads.fillWindow }

    mutating func sent(_ purpose: HistoryCall.Purpose) {
        underWay += 1
        if case .fill = purpose { fillsUnderWay += 1 }
    }

    mutating func ended(_ purpose: HistoryCall.Purpose) {
        underWay -= 1
        if case .fill = purpose { fillsUnderWay -= 1 }
    }
}
