import Foundation
import Testing

/// The tables in docs/field-faults.md and docs/security.md are worth what their tests are: each is named there, and exists.
@Suite("field faults")
struct FieldFaultTests {
    @Test(
        "every test that the page names is in the file that it names", arguments: [("docs/field-faults.md", 50), ("docs/security.md", 30)])
    func proofs(page: String, least: Int) throws {
        let tree = try Tree()
        var proofs = 0
        for row in try tree.lines(page) where row.hasPrefix("| ") && row.contains("`: \"") {
            let named = Self.proofs(in: String(row))
            #expect(!named.isEmpty, "no proof: \(row)")
            for (file, test) in named {
                let places = tree.paths.filter { $0.hasPrefix("Tests/") && $0.hasSuffix("/" + file) }
                #expect(places.count == 1, "\(file) is \(places)")
                for place in places {
                    let text = try tree.text(place)
                    // A name in Swift has its quotes escaped.
                    let wanted = file.hasSuffix(".py") ? "def \(test)(" : "\"\(test)"
                    #expect(text.contains(wanted), "\(place) has no \(test)")
                    proofs += 1
                }
            }
        }
        #expect(proofs >= least)
    }

    @Test("proofs are read from a row: a file in code, then quoted names")
    func reading() {
        let row = "| a rule | `A.swift`: \"one, B1\", \"two\"; `b.py`: \"test_c\" |"
        #expect(Self.proofs(in: row).map { "\($0.0) \($0.1)" } == ["A.swift one, B1", "A.swift two", "b.py test_c"])
    }

    private static func proofs(in row: String) -> [(String, String)] {
        var file = ""
        var found: [(String, String)] = []
        for match in row.matches(of: /`([A-Za-z_+]+\.(?:swift|py))`:|"([^"]+)"/) {
            if let name = match.1 { file = String(name) } else if let test = match.2 { found.append((file, String(test))) }
        }
        return found
    }
}
