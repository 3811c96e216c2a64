import HubBase
import HubCore
import HubFetch
import HubRedis
import HubToken

/// What a node would run with, and where each value that isn't a default comes from.
package struct LoadedConfiguration: Sendable {
    package var configuration: Configuration
    /// By setting, "namespaces.chat.dedup".
    package var origins: [String: ConfigurationPlace]
    /// Sentences for the log: it starts, but somebody should know.
    package var warnings: [String]
}

/// Joins the sources of configuration: defaults, then the file, then `HUB_CFG_…` variables, then `--set`, then flags; later ones win.
/// `SettingTable` says what there is. Reads the file, and the files that hold secrets; no other side effect.
package struct ConfigurationLoader {
    package static let fileByteCountMax = 256 * 1024

    /// Settings whose value is, holds or may hold a secret: nothing that's said of it quotes it.
    package static var secretPaths: [String] {
        SettingTable.all.filter { setting in
            switch setting.kind {
            case .secret, .secrets, .tokenKeys, .apiKeys, .certificates, .privateText, .privateList: true
            default: false
            }
        }.map(\.path)
    }

    private struct Assignment {
        var setting: Setting
        var namespace: String
        var value: ConfigurationValue
        var place: ConfigurationPlace
        var shownPath: String { SettingTable.shown(setting.path, namespace: namespace) }
    }

    private var sources: SecretSources
    private var assignments: [Assignment] = []
    private var problems: [String] = []

    /// `sets` are `KEY=VALUE`; `flags` are settings that have a flag of their own. All problems are collected, not only the first.
    package static func load(
        file: String?, environment: [String: String] = [:], sets: [String] = [], flags: [FlagSetting] = [], isDevelopment: Bool = false
    ) throws(ConfigurationError) -> LoadedConfiguration {
        var loader = ConfigurationLoader(sources: SecretSources(environment: environment))
        if let file { loader.take(file: file) }
        loader.take(environment: environment)
        for set in sets { loader.take(set: set) }
        for flag in flags { loader.take(flag) }
        return try loader.finish(isDevelopment: isDevelopment)
    }

    /// A setting by a flag of its own.
    package struct FlagSetting: Sendable {
        package var flag: String
        package var path: String
        package var value: ConfigurationValue

        package init(flag: String, path: String, value: ConfigurationValue) {
            self.flag = flag
            self.path = path
            self.value = value
        }
    }

    private init(sources: SecretSources) { self.sources = sources }

    // MARK: Sources

    private mutating func take(file path: String) {
        let file: SmallFile
        do throws(SmallFile.Failure) { file = try SmallFile.read(path, byteCountMax: Self.fileByteCountMax) } catch {
            return problems.append("the configuration file \(shownPath(path)) \(error.message)")
        }
        let value: ConfigurationValue
        do throws(JSON5Reader.Failure) { value = try JSON5Reader.read(file.bytes) } catch {
            return problems.append("\(path):\(error.line):\(error.column): \(error.message)")
        }
        guard case .object(let members) = value else { return problems.append("\(path): must hold one object, { … }, not \(value.shown)") }
        take(members, below: [], file: path)
        if file.mode & 0o077 != 0, Self.holdsSecret(value) {
            sources.warnings.append(
                "\(shownPath(path)) holds a secret and is open to other users (mode 0\(String(file.mode, radix: 8))): chmod 600, or put the secret elsewhere (file, env)"
            )
        }
    }

    private mutating func take(_ members: [ConfigurationValue.Member], below parents: [String], file: String) {
        for member in members {
            let segments = parents + [member.key]
            let place = ConfigurationPlace.file(file, line: member.line)
            switch SettingTable.find(segments) {
            case .group:
                guard case .object(let inner) = member.value else {
                    problems.append("\(place): \(Self.shown(segments)) must be an object, { … }, not \(member.value.shown)")
                    continue
                }
                take(inner, below: segments, file: file)
            case let match: take(match, segments: segments, place: place) { _ in member.value }
            }
        }
    }

    private mutating func take(environment: [String: String]) {
        for (name, text) in environment.sorted(by: { $0.key < $1.key }) where name.hasPrefix(SettingTable.environmentPrefix) {
            take(SettingTable.find(environmentName: name), segments: [name], place: .variable(name)) {
                setting throws(SettingKind.Problem) in
                try setting.kind.value(fromText: text)
            }
        }
    }

    private mutating func take(set: String) {
        guard let equals = set.firstIndex(of: "=") else {
            return problems.append(
                "--set \(set.utf8.count <= 40 && set.allSatisfy { $0.isLetter || $0 == "." } ? shownText(set) : "of \(set.utf8.count) bytes"): must be KEY=VALUE, such as limits.channels=100"
            )
        }
        let segments = SettingTable.segments(String(set[..<equals]))
        let text = String(set[set.index(after: equals)...])
        take(SettingTable.find(segments), segments: segments, place: .set) { setting throws(SettingKind.Problem) in
            try setting.kind.value(fromText: text)
        }
    }

    private mutating func take(_ flag: FlagSetting) {
        take(SettingTable.find(SettingTable.segments(flag.path)), segments: [flag.path], place: .flag(flag.flag)) { _ in flag.value }
    }

    private mutating func take(
        _ match: SettingTable.Match, segments: [String], place: ConfigurationPlace,
        value: (Setting) throws(SettingKind.Problem) -> ConfigurationValue
    ) {
        // A variable's name is place and path in one.
        var subject = Self.shown(segments)
        if case .variable = place {} else { subject = "\(place): \(subject)" }
        switch match {
        case .unsupported: problems.append("\(subject) isn't supported by this version")
        case .group: problems.append("\(subject) isn't a setting but a group of them")
        case .unknown(let nearest):
            let hint = nearest.map { "; did you mean \($0)?" } ?? "; docs/configuration.md lists all"
            problems.append("\(subject) is unknown\(hint)")
        case .setting(let setting, let namespace):
            if setting.isOfNamespace, !namespace.isEmpty, Name(validating: namespace) == nil || namespace.contains(":") {
                return problems.append(
                    "\(place): \(shownText(namespace)) can't be a namespace: 1 to 255 bytes, no colon, no control characters")
            }
            if setting.isOfNamespace, namespace.isEmpty, segments.count > 1, segments[1].isEmpty {
                return problems.append("\(place): a namespace's name can't be empty; \"*\" stands for every namespace")
            }
            do throws(SettingKind.Problem) {
                assignments.append(Assignment(setting: setting, namespace: namespace, value: try value(setting), place: place))
            } catch {
                problems.append("\(place): \(SettingTable.shown(setting.path, namespace: namespace))\(error.place) \(error.message)")
            }
        }
    }

    // MARK: The result

    private mutating func finish(isDevelopment: Bool) throws(ConfigurationError) -> LoadedConfiguration {
        var configuration = Configuration()
        configuration.isDevelopment = isDevelopment
        var origins: [String: ConfigurationPlace] = [:]
        refuseTwoPasswords()
        // Namespaces begin as a copy of what holds for every one, so that comes first, whichever source it's from.
        let general = assignments.filter { $0.namespace.isEmpty }
        for assignment in general + assignments.filter({ !$0.namespace.isEmpty }) {
            do throws(SettingKind.Problem) {
                let value = try assignment.setting.kind.parse(assignment.value, &sources)
                assignment.setting.write(value, assignment.namespace, &configuration)
                origins[assignment.shownPath] = assignment.place
            } catch {
                problems.append("\(assignment.place): \(assignment.shownPath)\(error.place) \(error.message)")
            }
        }
        guard problems.isEmpty else { throw ConfigurationError(problems: problems) }
        if isDevelopment, origins["diagnostics.echo"] == nil { configuration.diagnostics.echo = true }
        problems = configuration.problems() + Self.listenProblems(configuration) + redisProblems(configuration)
        problems = (problems + snapshotProblems(configuration)).map { Self.withPlaces($0, origins) }
        guard problems.isEmpty else { throw ConfigurationError(problems: problems) }
        sources.warnings += OriginList.warnings(configuration.origins)
        warnOfHooks(configuration)
        warnOfArguments()
        warnOfKeySet(configuration)
        return LoadedConfiguration(configuration: configuration, origins: origins, warnings: sources.warnings)
    }

    /// Of two settings with one meaning neither can win within one source.
    private mutating func refuseTwoPasswords() {
        for assignment in assignments where assignment.setting.path.hasSuffix(".passwordFile") {
            let path = String(assignment.setting.path.dropLast("File".count))
            let other = assignments.first { $0.setting.path == path && Self.isSameSource($0.place, assignment.place) }
            guard other != nil else { continue }
            problems.append("\(assignment.place): \(path)File and \(path) are both given; one of them is enough")
        }
    }

    private static func isSameSource(_ left: ConfigurationPlace, _ right: ConfigurationPlace) -> Bool {
        switch (left, right) {
        case (.file, .file), (.variable, .variable), (.set, .set), (.flag, .flag): true
        default: false
        }
    }

    private mutating func redisProblems(_ configuration: Configuration) -> [String] {
        do throws(RedisPlan.Problem) {
            if try RedisPlan(configuration.redis).trustsAnybody {
                sources.warnings.append(
                    "redis.tls.insecure: no Redis is asked who it is; whoever sits on the line can read and change everything")
            }
            return []
        } catch { return [error.description] }
    }

    /// What stands among the arguments is everybody's to read.
    private mutating func warnOfArguments() {
        for assignment in assignments where Self.isShownByPS(assignment) {
            let variable = SettingTable.environmentName(assignment.setting.path)
            sources.warnings.append(
                "\(assignment.place): \(assignment.shownPath) holds a secret, and ps shows arguments to every user of this machine: put it into a file or into \(variable)"
            )
        }
    }

    private static func isShownByPS(_ assignment: Assignment) -> Bool {
        switch assignment.place {
        case .file, .variable: return false
        case .set, .flag: break
        }
        switch (assignment.setting.kind, assignment.value) {
        case (.secret, _), (.secrets, .text): return true
        case (.privateText, .text(let text)): return SecretArguments.holdsSecret(text)
        case (.privateList, .list(let elements)):
            return elements.contains { if case .text(let text) = $0 { SecretArguments.holdsSecret(text) } else { false } }
        case (.secrets, let value), (.tokenKeys, let value): return holdsSecret(value)
        default: return false
        }
    }

    /// Whoever can write the set can make tokens.
    private mutating func warnOfKeySet(_ configuration: Configuration) {
        guard let path = configuration.keySet.file, let file = try? SmallFile.read(path, byteCountMax: KeySet.byteCountMax) else { return }
        guard file.mode & 0o022 != 0 else { return }
        sources.warnings.append(
            "\(shownPath(path)) holds keys that tokens are believed by and can be written by other users (mode 0\(String(file.mode, radix: 8))): chmod 644"
        )
    }

    private mutating func warnOfHooks(_ configuration: Configuration) {
        guard let text = configuration.hooks.url, let url = try? FetchURL(text), !url.isSecure, !url.isLoopback else { return }
        sources.warnings.append(
            "hooks.url is plain http: whoever sits on the line to \(url.place) reads who is online, and can answer in its place")
    }

    private mutating func snapshotProblems(_ configuration: Configuration) -> [String] {
        guard let path = configuration.embedded.snapshot else { return [] }
        if configuration.redis.isUsed {
            sources.warnings.append("embedded.snapshot has no effect with Redis: that's where history is kept")
            return []
        }
        return SnapshotPlace.problem(path).map { ["embedded.snapshot: \($0)"] } ?? []
    }

    private static func listenProblems(_ configuration: Configuration) -> [String] {
        let (plain, secure) = (configuration.listen, configuration.tls.listen)
        if plain.isEmpty && secure.isEmpty { return ["listen is empty: at least one HOST:PORT is needed"] }
        var problems: [String] = []
        var seen: Set<String> = []
        for (setting, address) in plain.map({ ("listen", $0) }) + secure.map({ ("tls.listen", $0) }) {
            if !address.hasSuffix(":0"), !seen.insert(address).inserted {
                let isBoth = setting == "tls.listen" && plain.contains(address)
                problems.append("\(setting) names \(shownText(address))\(isBoth ? ", as listen does" : " twice")")
            }
            if configuration.isDevelopment, !ListenAddress.isLoopback(address) {
                problems.append(
                    "\(setting) is \(shownText(address)), but development mode (--dev) takes anybody's word for who they are and so listens on loopback only: use 127.0.0.1, or drop --dev"
                )
            }
        }
        return problems
    }

    /// Appends where the settings that a sentence names were set.
    private static func withPlaces(_ sentence: String, _ origins: [String: ConfigurationPlace]) -> String {
        let named = origins.keys.sorted().filter { path in
            sentence.ranges(of: path).contains { range in
                // "listen" is named neither by "listens" nor by "tls.listen".
                let isWhole = range.upperBound == sentence.endIndex || !sentence[range.upperBound].isLetter
                guard isWhole, range.lowerBound > sentence.startIndex else { return isWhole }
                return sentence[sentence.index(before: range.lowerBound)] != "."
            }
        }
        guard !named.isEmpty, !sentence.contains("\n") else { return sentence }
        return sentence + " [" + named.map { "\($0): \(origins[$0]?.description ?? "")" }.joined(separator: ", ") + "]"
    }

    private static func holdsSecret(_ value: ConfigurationValue) -> Bool {
        switch value {
        case .object(let members):
            members.contains { member in
                if case .text(let text) = member.value {
                    return member.key == "secret" || member.key == "password" || (member.key == "url" && text.contains("@"))
                }
                return holdsSecret(member.value)
            }
        case .list(let elements): elements.contains(where: holdsSecret)
        default: false
        }
    }

    /// A path for an error, shortened and without control characters.
    private static func shown(_ segments: [String]) -> String {
        let path = segments.joined(separator: ".")
        let isPlain = path.utf8.count <= 80 && path.utf8.allSatisfy { (0x21...0x7E).contains($0) }
        return isPlain ? path : shownText(path)
    }
}
