import HubNet

/// The page that development mode serves at `/`: one answer, no outside request. The client in it has a file of its own, to be copied.
enum Page {
    static func response() -> HTTPResponse {
        HTTPResponse(
            status: 200,
            headers: [
                ("Content-Type", "text/html; charset=utf-8"),
                // The page holds its own style and script, and may talk to nobody but this hub.
                (
                    "Content-Security-Policy",
                    "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; connect-src 'self' ws: wss:; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
                ),
                ("Cache-Control", "no-store"),
            ],
            body: body)
    }

    /// The page with the client where its marker stands.
    private static let body: [UInt8] = {
        let marker = Array("/* hub.js */".utf8)
        let page = PackageResources.index_html
        guard let place = page.indices.first(where: { page[$0...].starts(with: marker) }) else {
            preconditionFailure("index.html has no place for hub.js")
        }
        return Array(page[..<place]) + PackageResources.hub_js + Array(page[(place + marker.count)...])
    }()
}
