import HubBase
import HubClient
import HubNet
import HubWire

/// How one of a crowd's connections is opened.
enum CrowdOpening {
    static func make(_ url: HubURL, user: Name, device: String, _ settings: Crowd.Settings) -> ClientOpening {
        var target = url.prefix + "/v1/ws?device=\(device)"
        var headers: [(name: String, value: String)] = []
        if let tokens = settings.tokens {
            headers.append((name: "Authorization", value: "Bearer " + tokens.token(for: "\(user)")))
        } else {
            target += "&user=\(HubURL.encode(user.bytes))"
        }
        var opening = ClientOpening(
            host: url.authority, target: target, subprotocols: ["\(settings.format.subprotocol)"], headers: headers)
        opening.offersDeflate = settings.offersDeflate
        return opening
    }
}
