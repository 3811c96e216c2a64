import HubBase
import HubNet

/// How a connection introduces itself, whichever server it goes to.
struct RedisAccess {
    /// Of Redis's ACL; nil: "default".
    var user: [UInt8]?
    var password: Secret?
    var database = 0
    /// CLIENT SETNAME: visible ASCII without spaces.
    var name: [UInt8]
    /// The server has to be a master by its own word (ROLE): an address from a sentinel may be out of date.
    var mustBeMaster = false
    /// nil: plain.
    var tls: TLSClientContext?
    /// What the server's certificate has to stand for; nil: the name or address that it's reached by.
    var tlsName: String?

    func peer(at place: RedisURL.Place?) -> TLSPeer? {
        guard let tls, case .host(let host, _)? = place else { return nil }
        return TLSPeer(tls, name: tlsName ?? host)
    }
}
