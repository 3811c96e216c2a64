/// `GET /v1/nodes` for people: a row a node, a column for each field that there is, so that a newer hub's fields show as well.
package enum NodesText {
    private static let titles = ["leaseLeft": "lease left", "notAsked": "not asked"]

    /// nil when `body` isn't such an answer.
    package static func lines(_ body: [UInt8], on terminal: Terminal) -> [String]? {
        guard let nodes = JSONObject(body)?.objects("nodes") else { return nil }
        guard !nodes.isEmpty else { return ["no node has a lease"] }
        var columns: [String] = []
        for node in nodes { for field in node.fields where !columns.contains(field.key) { columns.append(field.key) } }
        let rows = nodes.map { node in
            columns.map { column -> (text: String, colour: Terminal.Colour?) in
                guard let value = node[column] else { return ("", nil) }
                if column == "leaseLeft", let number = value.number { return (SpokenTime.text(milliseconds: number), nil) }
                if column == "notAsked" { return (value.list, .red) }
                return (value.shown, nil)
            }
        }
        return terminal.table(columns.map { Terminal.safe(titles[$0] ?? $0) }, rows, indent: 0)
    }
}
