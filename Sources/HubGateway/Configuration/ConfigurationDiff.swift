import HubCore

/// What a re-read configuration changes: what takes effect at once, and what needs a restart.
package struct ConfigurationDiff: Sendable {
    package struct Change: Sendable, Equatable, CustomStringConvertible {
        /// "limits.channels".
        package var path: String
        /// As text; a secret shows as redacted.
        package var before: String
        package var after: String

        package var description: String { before == after ? "\(path) (a secret changed)" : "\(path): \(before) → \(after)" }
    }

    package private(set) var live: [Change] = []
    package private(set) var needsRestart: [Change] = []
    /// The running configuration with the live changes in it.
    package private(set) var merged: Configuration

    package init(from running: Configuration, to next: Configuration) {
        merged = running
        for setting in SettingTable.all {
            let names = setting.isOfNamespace ? Set(running.namespaces.keys).union(next.namespaces.keys).sorted() : [""]
            for name in names {
                let before = setting.read(name, running)
                let after = setting.read(name, next)
                guard !before.isSame(as: after) else { continue }
                let change = Change(path: SettingTable.shown(setting.path, namespace: name), before: before.shown, after: after.shown)
                if setting.isLive {
                    live.append(change)
                    setting.write(after, name, &merged)
                } else {
                    needsRestart.append(change)
                }
            }
        }
        // As a whole: a namespace that is gone from the file has no setting left to be written.
        merged.namespaces = next.namespaces
    }

    package var isEmpty: Bool { live.isEmpty && needsRestart.isEmpty }
}
