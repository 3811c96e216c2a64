import HubBase
import HubCore
import HubWire

/// What `hub:{hub:nodes}:facts` keeps of a node: connections, a semicolon, its name; behind it, where there's something to say, a line feed and a
/// letter for each kind of question that its backend isn't asked now. A name has no control character, and hubs that don't know of the rest
/// show such a node by its incarnation.
package enum NodeFactsText {
    private static let separator: UInt8 = 0x0A

    package static func text(_ facts: NodeFacts, name: Name) -> [UInt8] {
        let text = [UInt8]("\(facts.connections);".utf8) + name.bytes
        return facts.notAsked.isEmpty ? text : text + [separator] + facts.notAsked.map(\.letter)
    }

    /// nil when it isn't a hub's. Letters that aren't known are passed over.
    package static func parse(_ text: UnsafeRawBufferPointer) -> (facts: NodeFacts, name: Name?)? {
        var rest = text
        guard let connections = rest.take(until: UInt8(ascii: ";"), limit: 19)?.decimal else { return nil }
        let end = rest.firstIndex(of: separator) ?? rest.endIndex
        let letters = rest[end...]
        let notAsked = AskKind.allCases.filter { letters.contains($0.letter) }
        return (NodeFacts(connections: connections, notAsked: notAsked), Name(validating: UnsafeRawBufferPointer(rebasing: rest[..<end])))
    }
}
