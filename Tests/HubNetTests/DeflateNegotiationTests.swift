import HubBase
import HubNet
import Testing

@Suite("permessage-deflate is negotiated, RFC 7692 §5 and §7.1")
struct DeflateNegotiationTests {
    /// The answer's value; "" when every offer is declined.
    private func answer(_ fields: [String], _ options: DeflateOptions = DeflateOptions(), takesOver: Bool = false) -> String? {
        let lines = fields.map { "Sec-WebSocket-Extensions: \($0)\r\n" }.joined()
        return withRequest("GET /v1/ws HTTP/1.1\r\nHost: h\r\n\(lines)\r\n") { request in
            guard let agreement = DeflateAgreement.negotiate(request, options, takesOver: takesOver) else { return "" }
            var out = ByteBuffer(capacity: 16)
            agreement.write(into: &out)
            return String(decoding: out.copyBytes(), as: UTF8.self)
        }
    }

    static let plain = "permessage-deflate; server_no_context_takeover; client_no_context_takeover"

    static let accepted: [(String, String)] = [
        ("permessage-deflate", plain),
        ("permessage-deflate; client_max_window_bits", plain),
        ("permessage-deflate; client_max_window_bits=15", plain + "; client_max_window_bits=15"),
        ("permessage-deflate; client_max_window_bits=9", plain + "; client_max_window_bits=9"),
        ("permessage-deflate; client_max_window_bits=8", plain + "; client_max_window_bits=8"),
        (#"permessage-deflate; client_max_window_bits="10""#, plain + "; client_max_window_bits=10"),
        (#"permessage-deflate; client_max_window_bits="1\0""#, plain + "; client_max_window_bits=10"),
        ("permessage-deflate; server_max_window_bits=9", plain + "; server_max_window_bits=9"),
        ("permessage-deflate; server_max_window_bits=15", plain + "; server_max_window_bits=15"),
        (
            "permessage-deflate; server_max_window_bits=10; client_max_window_bits=12",
            plain + "; server_max_window_bits=10; client_max_window_bits=12"
        ),
        ("permessage-deflate; server_no_context_takeover", plain),
        ("permessage-deflate; client_no_context_takeover", plain),
        ("permessage-deflate; client_no_context_takeover; server_no_context_takeover", plain),
        ("permessage-deflate;client_max_window_bits;server_no_context_takeover", plain),
        (" \tpermessage-deflate\t ; \t client_max_window_bits \t=\t 11\t ", plain + "; client_max_window_bits=11"),
        (",, permessage-deflate ,,", plain),
        // The first that can be kept wins.
        ("permessage-deflate; server_max_window_bits=10, permessage-deflate", plain + "; server_max_window_bits=10"),
        ("permessage-deflate; server_max_window_bits=8, permessage-deflate", plain),
        (
            "permessage-deflate; client_max_window_bits=7, permessage-deflate; client_max_window_bits=14",
            plain + "; client_max_window_bits=14"
        ),
        ("permessage-deflate; unknown, permessage-deflate", plain),
        ("permessage-deflate; =, permessage-deflate", plain),
        (#"permessage-deflate; client_max_window_bits=", ;=", permessage-deflate"#, plain),
        ("x-webkit-deflate-frame, permessage-deflate", plain),
        ("permessage-bzip2; a=1; b=\"2\"; c, permessage-deflate; client_max_window_bits", plain),
    ]

    @Test("what can be kept is agreed to, B30", arguments: accepted)
    func accepts(offer: String, expected: String) {
        #expect(answer([offer]) == expected)
    }

    static let declined = [
        "", "  ", ",", ";", ";;=", "permessage-deflate;", "permessage-deflate; ;", "permessage-deflate; client_max_window_bits=",
        "permessage-deflate; =10", "permessage-deflate client_max_window_bits", "permessage-deflate; client_max_window_bits=7",
        "permessage-deflate; client_max_window_bits=16", "permessage-deflate; client_max_window_bits=08",
        "permessage-deflate; client_max_window_bits=010", "permessage-deflate; client_max_window_bits=abc",
        "permessage-deflate; client_max_window_bits=-9", "permessage-deflate; client_max_window_bits=+9",
        "permessage-deflate; client_max_window_bits=9.0", "permessage-deflate; client_max_window_bits=1 0",
        "permessage-deflate; client_max_window_bits=99999999999999999999", #"permessage-deflate; client_max_window_bits="""#,
        #"permessage-deflate; client_max_window_bits="1 0""#, #"permessage-deflate; client_max_window_bits="10"#,
        #"permessage-deflate; client_max_window_bits="10\"#, #"permessage-deflate; client_max_window_bits="1"0"#,
        #"permessage-deflate; client_max_window_bits='10'"#, "permessage-deflate; server_max_window_bits",
        "permessage-deflate; server_max_window_bits=7", "permessage-deflate; server_max_window_bits=8",
        "permessage-deflate; server_max_window_bits=16", "permessage-deflate; server_max_window_bits=09",
        "permessage-deflate; server_max_window_bits=0", "permessage-deflate; server_max_window_bits=10; server_max_window_bits=10",
        "permessage-deflate; client_max_window_bits; client_max_window_bits=10",
        "permessage-deflate; server_no_context_takeover; server_no_context_takeover",
        "permessage-deflate; client_no_context_takeover; client_no_context_takeover",
        "permessage-deflate; server_no_context_takeover=1", #"permessage-deflate; client_no_context_takeover="x""#,
        "permessage-deflate; mux", "permessage-deflate; Server_No_Context_Takeover; server_no_context_takeover=",
        "permessage-deflate-2", "xpermessage-deflate", "permessage_deflate", "deflate", "\"permessage-deflate\"", "permessage-deflate\"",
    ]

    @Test("what is bad, or can't be kept, is declined, never refused, B30", arguments: declined)
    func declines(offer: String) {
        #expect(answer([offer]) == "")
    }

    @Test("several lines are one list in their order, RFC 6455 §9.1")
    func severalLines() {
        #expect(
            answer(["permessage-deflate; mux", "foo", "permessage-deflate; server_max_window_bits=12"]) == Self.plain
                + "; server_max_window_bits=12")
        #expect(answer([]) == "")
    }

    @Test("a smaller window of our own is kept without being named, but where the client can be told one or asked for one")
    func smallerWindow() {
        var options = DeflateOptions()
        options.windowBits = 11
        #expect(answer(["permessage-deflate"], options) == Self.plain)
        #expect(answer(["permessage-deflate; client_max_window_bits"], options) == Self.plain + "; client_max_window_bits=11")
        #expect(answer(["permessage-deflate; client_max_window_bits=15"], options) == Self.plain + "; client_max_window_bits=11")
        #expect(answer(["permessage-deflate; client_max_window_bits=10"], options) == Self.plain + "; client_max_window_bits=10")
        #expect(answer(["permessage-deflate; server_max_window_bits=15"], options) == Self.plain + "; server_max_window_bits=11")
        #expect(answer(["permessage-deflate; server_max_window_bits=9"], options) == Self.plain + "; server_max_window_bits=9")
    }

    @Test("where connections may own contexts, a side goes without only if the client asks for it, §7.1.1")
    func takeover() {
        func answer(_ offer: String) -> String? { self.answer([offer], takesOver: true) }
        #expect(answer("permessage-deflate") == "permessage-deflate")
        #expect(answer("permessage-deflate; server_no_context_takeover") == "permessage-deflate; server_no_context_takeover")
        #expect(answer("permessage-deflate; client_no_context_takeover") == "permessage-deflate; client_no_context_takeover")
        #expect(answer("permessage-deflate; server_max_window_bits=10") == "permessage-deflate; server_max_window_bits=10")
    }

    @Test("at level 0 every offer is declined")
    func off() {
        var options = DeflateOptions()
        options.level = 0
        #expect(answer(["permessage-deflate"], options) == "")
    }

    @Test("bytes at random are never agreed to by accident, and never trap")
    func random() {
        var chance = Chance(seed: 7692)
        let pieces = [
            "permessage-deflate", "client_max_window_bits", "server_max_window_bits", "=", ";", ",", "\"", "\\", " ", "10", "8", "\t", "é",
            "x",
        ]
        for _ in 0..<20_000 {
            let offer = (0..<Int(chance.next() % 12)).map { _ in pieces[Int(chance.next() % UInt64(pieces.count))] }.joined()
            let text = answer([offer])
            #expect(text == nil || text == "" || (text?.hasPrefix(Self.plain) == true && offer.contains("permessage-deflate")))
        }
    }
}
