import HubNet

/// The page that development mode serves at `/`: one file, no outside request.
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
            body: PackageResources.index_html)
    }
}
