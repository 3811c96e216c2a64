/// The version of everything in this repository, as `--version`, the welcome and the metrics tell it.
package enum HubVersion {
    package static let text = "0.1.0"
}
