import HubBase

/// What somebody was granted, channel by channel: by the `caps` of a token, or by the rules of the namespaces. Never changes, so that all
/// connections with the same grants share one.
///
/// A question walks one run of bytes and allocates nothing.
package final class Grants: Sendable {
    private enum Kind { case patterns, namespaces }

    /// Lines of permissions, length and text.
    private let lines: [UInt8]
    private let kind: Kind
    /// What holds where no line speaks of the channel.
    private let standard: Permissions
    /// Whose word counts too: the namespaces', where a token says nothing of its own but names channels.
    package let base: Grants?

    /// Patterns of one token.
    package static let patternsMax = 64

    package static let none = Grants(lines: [], kind: .patterns, standard: [], base: nil)

    private init(lines: [UInt8], kind: Kind, standard: Permissions, base: Grants?) {
        self.lines = lines
        self.kind = kind
        self.standard = standard
        self.base = base
    }

    /// The union of all patterns that match a channel counts, and what `channels` may be heard. nil when there are too many patterns, or one
    /// isn't a pattern, or a channel's name would be one that stands for others.
    package convenience init?(patterns: [(pattern: [UInt8], permissions: Permissions)], channels: [Name] = [], base: Grants? = nil) {
        guard patterns.count <= Grants.patternsMax else { return nil }
        var lines: [UInt8] = []
        for (pattern, permissions) in patterns {
            guard pattern.withUnsafeBytes({ ChannelPattern.isValid($0) }) else { return nil }
            Grants.append(pattern, permissions, to: &lines)
        }
        for channel in channels {
            guard !channel.bytes.contains(ChannelPattern.star) else { return nil }
            Grants.append(channel.bytes, .subscribe, to: &lines)
        }
        self.init(lines: lines, kind: .patterns, standard: [], base: base)
    }

    /// The same lines over other rules of the namespaces.
    package func rebased(on base: Grants) -> Grants { Grants(lines: lines, kind: kind, standard: standard, base: base) }

    /// Everything everywhere.
    package static let all = Grants(lines: [], kind: .namespaces, standard: .all, base: nil)

    /// What the namespace of a channel says; `""` speaks for all that aren't named.
    package convenience init(namespaces: [String: Permissions]) {
        var lines: [UInt8] = []
        for (name, permissions) in namespaces.sorted(by: { $0.key < $1.key }) where !name.isEmpty && name.utf8.count <= Name.lengthMax {
            Grants.append(Array(name.utf8), permissions, to: &lines)
        }
        self.init(lines: lines, kind: .namespaces, standard: namespaces[""] ?? [], base: nil)
    }

    private static func append(_ text: [UInt8], _ permissions: Permissions, to lines: inout [UInt8]) {
        lines.append(permissions.rawValue)
        lines.append(UInt8(text.count))
        lines += text
    }

    package func allow(_ wanted: Permissions, in channel: Name) -> Bool {
        channel.bytes.withUnsafeBytes { permissions(in: $0).isSuperset(of: wanted) }
    }

    package func allowWatching(_ user: Name) -> Bool {
        if lines.isEmpty && base == nil { return standard.contains(.watch) }
        // As in the user's inbox, which may have a longer name than channels can have.
        return withUnsafeTemporaryAllocation(byteCount: Inbox.prefix.count + user.bytes.count, alignment: 1) { inbox in
            Inbox.prefix.withUnsafeBytes { inbox.copyMemory(from: $0) }
            user.bytes.withUnsafeBytes { UnsafeMutableRawBufferPointer(rebasing: inbox[Inbox.prefix.count...]).copyMemory(from: $0) }
            return permissions(in: UnsafeRawBufferPointer(inbox)).contains(.watch)
        }
    }

    private func permissions(in channel: UnsafeRawBufferPointer) -> Permissions {
        lines.withUnsafeBytes { lines in
            let namespace = kind == .namespaces ? channel.prefix { $0 != UInt8(ascii: ":") } : channel[...]
            var found = base?.permissions(in: channel) ?? standard
            var place = 0
            while place < lines.count {
                let permissions = Permissions(rawValue: lines[place])
                let text = UnsafeRawBufferPointer(rebasing: lines[(place + 2)..<(place + 2 + Int(lines[place + 1]))])
                place += 2 + text.count
                switch kind {
                case .namespaces: if text.elementsEqual(namespace) { return permissions }
                case .patterns: if ChannelPattern.matches(text, channel) { found.formUnion(permissions) }
                }
            }
            return found
        }
    }
}

extension Grants: Hashable {
    package static func == (left: Grants, right: Grants) -> Bool {
        left === right
            || (left.kind == right.kind && left.standard == right.standard && left.lines == right.lines && left.base === right.base)
    }

    package func hash(into hasher: inout Hasher) { hasher.combine(lines) }
}
