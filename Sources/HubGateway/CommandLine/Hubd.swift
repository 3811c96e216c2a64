import HubBase
import HubCore

/// How `hubd` starts: from arguments and environment to a configuration, or to an end. The node itself isn't touched.
package enum Hubd {
    package enum Preparation: Sendable {
        /// To run. A reload calls `reload` with the same options.
        case run(LoadedConfiguration, HubdOptions)
        /// To print and end with: 0 done, 2 usage or configuration.
        case exit(code: Int32, output: String, error: String)
    }

    /// `arguments` without the program's name. Reads configuration files; nothing else happens.
    package static func prepare(arguments: [String], environment: [String: String]) -> Preparation {
        let options: HubdOptions
        do throws(CommandLineError) { options = try HubdOptions.parse(arguments) } catch {
            return .exit(code: 2, output: "", error: "hubd: \(error)\nhubd --help says what there is.\n")
        }
        if options.wantsHelp { return .exit(code: 0, output: HubdOptions.parser.helpText(), error: "") }
        if options.wantsVersion { return .exit(code: 0, output: "hubd \(HubVersion.text)\n", error: "") }
        do throws(ConfigurationError) {
            let loaded = try load(options, environment: environment)
            guard options.isCheck else { return .run(loaded, options) }
            let warnings = loaded.warnings.map { "hubd: warning: \($0)\n" }.joined()
            return .exit(code: 0, output: ConfigurationReport.text(loaded) + "ok\n", error: warnings)
        } catch {
            let lines = error.description.split(separator: "\n", omittingEmptySubsequences: false)
            // What belongs to the line above is indented.
            let text = lines.map { $0.hasPrefix(" ") ? "\($0)\n" : "hubd: \($0)\n" }.joined()
            return .exit(code: 2, output: "", error: text)
        }
    }

    /// What a node would run with now, for start and for SIGHUP.
    package static func load(_ options: HubdOptions, environment: [String: String]) throws(ConfigurationError) -> LoadedConfiguration {
        try ConfigurationLoader.load(
            file: options.configFile, environment: environment, sets: options.sets, flags: options.flagSettings,
            isDevelopment: options.isDevelopment)
    }
}
