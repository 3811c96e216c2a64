import HubCore

/// What `--check` prints: every value that differs from its default, with the place it comes from; and where it would listen, always.
package enum ConfigurationReport {
    package static func text(_ loaded: LoadedConfiguration) -> String {
        let configuration = loaded.configuration
        let defaults = Configuration()
        var rows: [(path: String, value: String, place: String)] = []
        if configuration.isDevelopment { rows.append(("development mode", "on", "--dev")) }
        for setting in SettingTable.all {
            for name in setting.isOfNamespace ? configuration.namespaces.keys.sorted() : [""] {
                let path = SettingTable.shown(setting.path, namespace: name)
                let value = setting.read(name, configuration)
                let place = loaded.origins[path]
                // A namespace of its own is shown where it was set; what it has from every namespace stands there.
                guard place != nil || path == "listen" || (!setting.isOfNamespace && !value.isSame(as: setting.read(name, defaults))) else {
                    continue
                }
                if case .absent = value { continue }
                rows.append((path, value.shown, place?.description ?? derivedPlace(path, loaded)))
            }
        }
        let isDefault = rows.count == 1 && loaded.origins["listen"] == nil
        let width = rows.map(\.path.count).max() ?? 0
        return (isDefault ? "Everything is at its default, among it:\n" : "Set, and where:\n")
            + rows.map { "  \($0.path)\(String(repeating: " ", count: width - $0.path.count))  \($0.value)  (\($0.place))\n" }.joined()
    }

    /// For a value that another setting brought along.
    private static func derivedPlace(_ path: String, _ loaded: LoadedConfiguration) -> String {
        switch path {
        case "redis.password", "redis.user", "redis.sentinel.password":
            let origin = loaded.origins[path + "File"] ?? loaded.origins["redis.url"]
            return origin?.description ?? "unknown"
        case "listen": return "default"
        default: return "--dev"
        }
    }
}
