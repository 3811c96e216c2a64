import HubBase
import HubCore
import HubRedis
import HubWire
import Testing

@Suite("what a node says of itself to the others")
struct NodeFactsTextTests {
    private func parse(_ text: String) -> (facts: NodeFacts, name: Name?)? { Array(text.utf8).withUnsafeBytes { NodeFactsText.parse($0) } }

    @Test("what is written is read, with any name and any kinds that aren't asked about")
    func written() {
        for name: Name in ["north", "a;b;c", "12;", "ö"] {
            for kinds: [AskKind] in [[], [.connect], [.subscribe, .publish], AskKind.allCases] {
                let facts = NodeFacts(connections: 17, notAsked: kinds)
                let text = NodeFactsText.text(facts, name: name)
                let read = text.withUnsafeBytes { NodeFactsText.parse($0) }
                #expect(read?.facts == facts && read?.name == name)
            }
        }
    }

    @Test("while all is well it's what older nodes write and read: connections and the name")
    func older() {
        #expect(NodeFactsText.text(NodeFacts(connections: 3), name: "north") == Array("3;north".utf8))
        #expect(parse("3;north")?.facts == NodeFacts(connections: 3))
    }

    @Test("letters of newer nodes are passed over; what isn't a hub's is none")
    func others() {
        #expect(parse("3;north\nzpq")?.facts.notAsked == [.publish])
        #expect(parse("3;north\n")?.facts.notAsked == [])
        #expect(parse("3;")?.name == nil && parse("3;\u{1}")?.name == nil && parse("3;")?.facts.connections == 3)
        for text in ["", "3", ";north", "x;north", "-1;north", "99999999999999999999;north", "\n", "3\n;north"] {
            #expect(parse(text) == nil, "\(text)")
        }
    }
}
