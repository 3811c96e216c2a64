import HubBase

extension SettingTable {
    /// What a path means.
    enum Match {
        /// With the namespace it's for, "" elsewhere and for "*".
        case setting(Setting, namespace: String)
        /// There are settings below it.
        case group
        case unsupported
        case unknown(nearest: String?)
    }

    /// In files and `--set` the namespace whose options all others begin with.
    static let everyNamespace = "*"

    static func find(_ segments: [String]) -> Match {
        var known = segments
        var namespace = ""
        if segments.count > 1, segments[0] == "namespaces" {
            namespace = segments[1] == everyNamespace ? "" : segments[1]
            known[1] = "NAME"
        }
        let path = known.joined(separator: ".")
        if let setting = all.first(where: { $0.path == path }) { return .setting(setting, namespace: namespace) }
        if unsupported.contains(where: { path == $0 || path.hasPrefix($0 + ".") }) { return .unsupported }
        if all.contains(where: { $0.path.hasPrefix(path + ".") }) || unsupported.contains(where: { $0.hasPrefix(path + ".") }) {
            return .group
        }
        return .unknown(nearest: nearest(path).map { shown($0, namespace: segments.count > 1 ? segments[1] : "NAME") })
    }

    /// The segments of a path in one text. A namespace's name may hold dots: what stands between the known beginning and the known end.
    static func segments(_ path: String) -> [String] {
        let segments = path.split(separator: ".", omittingEmptySubsequences: false).map(String.init)
        guard segments.count > 3, segments[0] == "namespaces" else { return segments }
        for setting in all where setting.isOfNamespace {
            let end = setting.path.dropFirst(namespacePrefix.count).split(separator: ".").map(String.init)
            let name = segments.dropFirst().dropLast(end.count)
            if segments.suffix(end.count) == end[...], !name.isEmpty { return ["namespaces", name.joined(separator: ".")] + end }
        }
        return segments
    }

    /// The path with the namespace's own name.
    static func shown(_ path: String, namespace: String) -> String {
        guard path.hasPrefix(namespacePrefix) else { return path == "namespaces.NAME" ? "namespaces" : path }
        return "namespaces." + (namespace.isEmpty ? everyNamespace : namespace) + "." + path.dropFirst(namespacePrefix.count)
    }

    /// What has settings below it: "presence", "namespaces.NAME.history".
    private static let groups: [String] = {
        var groups: [String] = []
        for setting in all {
            var parts = setting.path.split(separator: ".").dropLast()
            while !parts.isEmpty {
                let group = parts.joined(separator: ".")
                if !groups.contains(group) { groups.append(group) }
                parts = parts.dropLast()
            }
        }
        return groups
    }()

    private static func nearest(_ path: String) -> String? {
        // The right name in the wrong place first: "heartbeat" for "presence.heartbeat".
        let last = path.split(separator: ".").last.map(String.init) ?? path
        let paths = all.map(\.path)
        if let found = Nearest.to(path, in: paths + groups) { return found }
        let misplaced = paths.filter { $0.hasSuffix("." + last) }
        return misplaced.count == 1 ? misplaced[0] : nil
    }
}

/// Names of environment variables (protocol, "Configuration names").
extension SettingTable {
    static let environmentPrefix = "HUB_CFG_"

    /// "presence.userTTL" is HUB_CFG_PRESENCE__USER_TTL.
    static func environmentName(_ path: String) -> String {
        var name = environmentPrefix
        var previous: UInt8 = 0
        for byte in path.utf8 {
            let isCapital = (0x41...0x5A).contains(byte)
            if isCapital, (0x61...0x7A).contains(previous) { name += "_" }
            if byte == UInt8(ascii: ".") {
                name += "__"
            } else {
                name += String(decoding: [(0x61...0x7A).contains(byte) ? byte & 0xDF : byte], as: UTF8.self)
            }
            previous = byte
        }
        return name
    }

    static func find(environmentName name: String) -> Match {
        for setting in all where !setting.isOfNamespace && environmentName(setting.path) == name { return .setting(setting, namespace: "") }
        let namespaces = environmentPrefix + "NAMESPACES__"
        if name.hasPrefix(namespaces) {
            for setting in all where setting.isOfNamespace {
                let end = "__" + environmentName(String(setting.path.dropFirst(namespacePrefix.count))).dropFirst(environmentPrefix.count)
                let middle = name.dropFirst(namespaces.count).dropLast(end.count)
                if name.hasSuffix(end), name.count > namespaces.count + end.count {
                    return .setting(setting, namespace: namespace(String(middle)))
                }
            }
        }
        for path in unsupported {
            let known = environmentName(path)
            if name == known || name.hasPrefix(known + "__") { return .unsupported }
        }
        return .unknown(nearest: Nearest.to(name, in: all.map { environmentName($0.path) }))
    }

    /// TEAM_CHAT is the namespace "teamChat".
    private static func namespace(_ written: String) -> String {
        var name: [UInt8] = []
        var isCapital = false
        for byte in written.utf8 {
            if byte == UInt8(ascii: "_"), !isCapital, !name.isEmpty {
                isCapital = true
            } else {
                name.append((0x41...0x5A).contains(byte) && !isCapital ? byte | 0x20 : byte)
                isCapital = false
            }
        }
        return String(decoding: name, as: UTF8.self)
    }
}
