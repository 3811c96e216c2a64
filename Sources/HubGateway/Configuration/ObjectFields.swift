import HubBase

/// One object of a setting that is a list of objects.
struct ObjectFields {
    var members: [String: ConfigurationValue]

    /// The objects of a list; a field that isn't known is an error that names the nearest one.
    static func list(_ value: ConfigurationValue, of things: String, atMost limit: Int, fields known: [String]) throws(SettingKind.Problem)
        -> [ObjectFields]
    {
        guard case .list(let elements) = value else { throw .init(message: "must be a list of objects, not \(value.sort)") }
        guard elements.count <= limit else { throw .init(message: "has \(elements.count) \(things), of at most \(limit)") }
        var objects: [ObjectFields] = []
        for (index, element) in elements.enumerated() {
            guard case .object(let members) = element else {
                throw .init(place: "[\(index)]", message: "must be an object, not \(element.sort)")
            }
            for member in members where !known.contains(member.key) {
                let nearest =
                    Nearest.to(member.key, in: known).map { "; did you mean \($0)?" } ?? ": one of \(known.joined(separator: ", "))"
                throw .init(place: "[\(index)]", message: "has the unknown key \(shownText(member.key))\(nearest)")
            }
            objects.append(ObjectFields(members: Dictionary(members.map { ($0.key, $0.value) }, uniquingKeysWith: { first, _ in first })))
        }
        return objects
    }

    /// A text that isn't empty; nil when it's absent. What was given isn't shown: it may be a secret.
    func text(_ key: String) throws(SettingKind.Problem) -> String? {
        guard let value = members[key] else { return nil }
        guard case .text(let text) = value else { throw .init(place: "." + key, message: "must be a text between quotes") }
        guard !text.isEmpty else { throw .init(place: "." + key, message: "is empty") }
        return text
    }
}

extension SettingKind.Problem {
    func within(_ index: Int) -> SettingKind.Problem { .init(place: "[\(index)]" + place, message: message) }
}
