import HubBase

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
}
