import HubBase
import HubCore

/// One thing that can be set: a row of `SettingTable`. File, environment, `--set`, flags, `--check`, reload and the check of the
/// documents all go by it.
struct Setting: Sendable {
    /// "presence.heartbeat"; "namespaces.NAME.dedup" where NAME is the operator's.
    let path: String
    let kind: SettingKind
    /// Whether SIGHUP can change it.
    let isLive: Bool
    /// One line.
    let help: String
    /// Sets it; the text is the namespace, or "" where there is none (or where the defaults of all namespaces are meant).
    let write: @Sendable (SettingValue, String, inout Configuration) -> Void
    let read: @Sendable (String, Configuration) -> SettingValue

    var isOfNamespace: Bool { path.hasPrefix(SettingTable.namespacePrefix) }
    var isSecret: Bool {
        switch kind {
        case .secret, .secretFile, .secrets, .tokenKeys, .apiKeys, .certificates: true
        default: false
        }
    }

    init(
        _ path: String, _ kind: SettingKind, isLive: Bool, _ help: String,
        read: @escaping @Sendable (String, Configuration) -> SettingValue,
        write: @escaping @Sendable (SettingValue, String, inout Configuration) -> Void
    ) {
        self.path = path
        self.kind = kind
        self.isLive = isLive
        self.help = help
        self.write = write
        self.read = read
    }
}

// Rows by the type of what they set. A kind and its value always agree, so that a mismatch is a fault of the table.
extension Setting {
    typealias Field<Value> = WritableKeyPath<Configuration, Value> & Sendable
    typealias NamespaceField<Value> = WritableKeyPath<HistoryOptions, Value> & Sendable

    static func integer(_ path: String, _ field: any Field<Int>, _ range: ClosedRange<Int>, live: Bool = false, _ help: String) -> Setting {
        Setting(path, .integer(range), isLive: live, help) { _, configuration in
            .integer(configuration[keyPath: field])
        } write: { value, _, configuration in
            configuration[keyPath: field] = value.asInteger
        }
    }

    static func optionalInteger(_ path: String, _ field: any Field<Int?>, _ range: ClosedRange<Int>, _ help: String) -> Setting {
        Setting(path, .integer(range), isLive: false, help) { _, configuration in
            configuration[keyPath: field].map { .integer($0) } ?? .absent
        } write: { value, _, configuration in
            configuration[keyPath: field] = value.asInteger
        }
    }

    static func size(_ path: String, _ field: any Field<Int>, _ range: ClosedRange<Int>, live: Bool = false, _ help: String) -> Setting {
        Setting(path, .size(range), isLive: live, help) { _, configuration in
            .size(configuration[keyPath: field])
        } write: { value, _, configuration in
            configuration[keyPath: field] = value.asInteger
        }
    }

    static func duration(_ path: String, _ field: any Field<Span>, _ range: ClosedRange<Span>, live: Bool = false, _ help: String)
        -> Setting
    {
        Setting(path, .duration(range), isLive: live, help) { _, configuration in
            .duration(configuration[keyPath: field])
        } write: { value, _, configuration in
            configuration[keyPath: field] = value.asSpan
        }
    }

    static func boolean(_ path: String, _ field: any Field<Bool>, live: Bool = false, _ help: String) -> Setting {
        Setting(path, .boolean, isLive: live, help) { _, configuration in
            .boolean(configuration[keyPath: field])
        } write: { value, _, configuration in
            guard case .boolean(let flag) = value else { preconditionFailure("a boolean's kind gave \(value)") }
            configuration[keyPath: field] = flag
        }
    }

    static func text(_ path: String, _ field: any Field<String>, _ help: String, check: @escaping @Sendable (String) -> String?) -> Setting
    {
        Setting(path, .text(check), isLive: false, help) { _, configuration in
            .text(configuration[keyPath: field])
        } write: { value, _, configuration in
            configuration[keyPath: field] = value.asText
        }
    }

    static func optionalText(
        _ path: String, _ field: any Field<String?>, live: Bool = false, _ help: String, check: @escaping @Sendable (String) -> String?
    ) -> Setting {
        Setting(path, .text(check), isLive: live, help) { _, configuration in
            configuration[keyPath: field].map { .text($0) } ?? .absent
        } write: { value, _, configuration in
            if case .absent = value { configuration[keyPath: field] = nil } else { configuration[keyPath: field] = value.asText }
        }
    }

    static func list(
        _ path: String, _ field: any Field<[String]>, live: Bool, _ help: String, check: @escaping @Sendable (String) -> String?
    ) -> Setting {
        Setting(path, .list(check), isLive: live, help) { _, configuration in
            .list(configuration[keyPath: field])
        } write: { value, _, configuration in
            guard case .list(let texts) = value else { preconditionFailure("a list's kind gave \(value)") }
            configuration[keyPath: field] = texts
        }
    }

    static func namespaceInteger(_ path: String, _ field: any NamespaceField<Int>, _ range: ClosedRange<Int>, _ help: String) -> Setting {
        Setting(path, .integer(range), isLive: true, help) { namespace, configuration in
            .integer(configuration.options(ofNamespace: namespace)[keyPath: field])
        } write: { value, namespace, configuration in
            configuration.changeOptions(ofNamespace: namespace) { $0[keyPath: field] = value.asInteger }
        }
    }

    static func namespaceBoolean(_ path: String, _ field: any NamespaceField<Bool>, _ help: String) -> Setting {
        Setting(path, .boolean, isLive: true, help) { namespace, configuration in
            .boolean(configuration.options(ofNamespace: namespace)[keyPath: field])
        } write: { value, namespace, configuration in
            guard case .boolean(let flag) = value else { preconditionFailure("a boolean's kind gave \(value)") }
            configuration.changeOptions(ofNamespace: namespace) { $0[keyPath: field] = flag }
        }
    }

    static func namespaceDuration(_ path: String, _ field: any NamespaceField<Span>, _ range: ClosedRange<Span>, _ help: String) -> Setting
    {
        Setting(path, .duration(range), isLive: true, help) { namespace, configuration in
            .duration(configuration.options(ofNamespace: namespace)[keyPath: field])
        } write: { value, namespace, configuration in
            configuration.changeOptions(ofNamespace: namespace) { $0[keyPath: field] = value.asSpan }
        }
    }
}

extension SettingValue {
    fileprivate var asInteger: Int {
        switch self {
        case .integer(let number), .size(let number): return number
        default: preconditionFailure("a number's kind gave \(self)")
        }
    }

    fileprivate var asSpan: Span {
        guard case .duration(let span) = self else { preconditionFailure("a duration's kind gave \(self)") }
        return span
    }

    fileprivate var asText: String {
        guard case .text(let text) = self else { preconditionFailure("a text's kind gave \(self)") }
        return text
    }
}

extension Configuration {
    /// Those of `name`, or the defaults of every namespace that has none of its own.
    fileprivate func options(ofNamespace name: String) -> HistoryOptions { namespaces[name] ?? namespaces[""] ?? HistoryOptions() }

    /// A namespace begins as a copy of the defaults, so those must be set first.
    fileprivate mutating func changeOptions(ofNamespace name: String, _ change: (inout HistoryOptions) -> Void) {
        var options = options(ofNamespace: name)
        change(&options)
        namespaces[name] = options
    }
}
