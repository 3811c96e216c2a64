import HubBase

/// Which arguments of `hubd` hold secrets, and from where on.
package enum SecretArguments {
    /// The place of the first byte that nobody may see; nil: all may be seen. `previous`: the argument before it.
    package static func start(of argument: String, after previous: String) -> Int? {
        if argument.hasPrefix("--redis=") { return holdsSecret(argument) ? "--redis=".utf8.count : nil }
        if previous == "--redis" { return holdsSecret(argument) ? 0 : nil }
        let before = argument.hasPrefix("--set=") ? "--set=".utf8.count : 0
        guard before > 0 || previous == "--set" else { return nil }
        let assignment = String(decoding: argument.utf8.dropFirst(before), as: UTF8.self)
        guard let equals = assignment.firstIndex(of: "=") else { return nil }
        let key = String(assignment[..<equals])
        guard case .setting(let setting, _) = SettingTable.find(SettingTable.segments(key)) else { return nil }
        switch setting.kind {
        case .secret, .secrets, .tokenKeys, .apiKeys, .certificates: break
        case .privateText, .privateList:
            guard holdsSecret(assignment) || holdsPath(assignment[equals...].dropFirst()) else { return nil }
        default: return nil
        }
        return before + key.utf8.count + 1
    }

    /// Of an address: a name or a password before its host, or a query.
    static func holdsSecret(_ address: String) -> Bool { address.contains { $0 == "@" || $0 == "?" } }

    /// A path is often a secret that its owner was given (webhooks): it isn't shown, though few are worth a warning.
    private static func holdsPath(_ address: Substring) -> Bool {
        guard address.hasPrefix("http://") || address.hasPrefix("https://") else { return false }
        let rest = address.drop { $0 != "/" }.dropFirst(2)
        return rest.drop { $0 != "/" }.count > 1
    }
}
