import HubBase
import HubCore
import HubWire

/// Publications of one connection about which a backend is asked, in the order in which they came: several are asked about at once, each is carried
/// out when all before it have been. A value; its sizes are what bounds how far a connection may be ahead.
struct AskLine {
    enum Place {
        case waiting
        /// nil: nobody was asked about it.
        case answered(Asking, AskShell.Reply?)
        /// Nothing can be done but to say so.
        case refused(WireError, RequestID)
    }

    private var places = Queue<(place: Place, weight: Int)>()
    /// The number of the first place; numbers go up by one.
    private var first: UInt64 = 0
    /// What all that waits here weighs.
    private(set) var bytes = 0

    /// What a publication weighs beside its payload.
    static let overhead = 256

    var count: Int { places.count }
    var isEmpty: Bool { places.isEmpty }
    /// Of what is appended next.
    var next: UInt64 { first &+ UInt64(places.count) }

    mutating func append(_ place: Place, weight: Int) {
        places.append((place, weight))
        bytes += weight
    }

    /// The answer to the question at that number has come.
    mutating func answer(_ number: UInt64, _ asking: Asking, _ reply: AskShell.Reply) {
        guard number &- first < UInt64(places.count) else { return }
        places.update(Int(number &- first)) { $0.place = .answered(asking, reply) }
    }

    /// The first one, if it can be carried out.
    mutating func popReady() -> Place? {
        switch places.first?.place {
        case nil, .waiting?: return nil
        case .answered?, .refused?: break
        }
        guard let (place, weight) = places.popFirst() else { return nil }
        first &+= 1
        bytes -= weight
        return place
    }

    /// What was taken out can't be carried out yet after all.
    mutating func putBack(_ place: Place) {
        first &-= 1
        places.prepend((place, 0))
    }
}
