import HubCore

/// The settings as the documents list them.
package struct SettingReference: Sendable {
    /// "presence.heartbeat".
    package var path: String
    package var environmentName: String
    /// As text: "30s", "none".
    package var standard: String
    /// Whether SIGHUP can change it.
    package var isLive: Bool
    package var help: String

    /// The row of docs/configuration.md.
    package var row: String { "| `\(path)` | \(standard) | \(isLive ? "live" : "restart") | \(help) |" }

    package static let all: [SettingReference] = SettingTable.all.map { setting in
        SettingReference(
            path: setting.path, environmentName: SettingTable.environmentName(setting.path),
            standard: setting.read("", Configuration()).shown, isLive: setting.isLive, help: setting.help)
    }

    /// Settled names that this version refuses.
    package static let unsupported = SettingTable.unsupported
}
