import Glibc
import HubBase
import HubSwarm

/// Finds and reads scenarios: a path, or the name of one that came with the program.
enum ScenarioFile {
    /// - Parameter name: "chat", or a path: with a slash or the ending .json5.
    static func read(_ name: String, overrides: [String]) throws(CommandLineError) -> Scenario {
        let path = try path(of: name)
        guard let bytes = contents(of: path) else {
            throw CommandLineError("the scenario \(shownPath(path)) can't be read: \(String(cString: strerror(errno)))")
        }
        do throws(ScenarioProblem) {
            var scenario = try ScenarioReader.read(bytes, place: path, overrides: overrides)
            if scenario.name == Scenario().name { scenario.name = stem(path) }
            return scenario
        } catch {
            throw CommandLineError(error.description)
        }
    }

    private static func path(of name: String) throws(CommandLineError) -> String {
        if name.contains("/") || name.hasSuffix(".json5") { return name }
        for folder in folders {
            let path = "\(folder)/\(name).json5"
            if access(path, R_OK) == 0 { return path }
        }
        let known = known
        let near = Nearest.to(name, in: known).map { "; did you mean \($0)?" } ?? ""
        throw CommandLineError(
            "no scenario is called \(CommandLineError.quoted(name))\(near) "
                + (known.isEmpty
                    ? "(looked in \(folders.joined(separator: ", ")); HUB_SWARM_SCENARIOS names another folder)"
                    : "There are \(known.joined(separator: ", ")); or give a file's path"))
    }

    /// Where scenarios are: what the variable says, beside an installed program, in the source tree above a built one, here.
    private static var folders: [String] {
        if let named = getenv("HUB_SWARM_SCENARIOS"), named[0] != 0 { return [String(cString: named)] }
        var folders: [String] = []
        if let program = realpath("/proc/self/exe", nil) {
            var folder = Substring(String(cString: program))
            free(program)
            for _ in 0..<5 {
                guard let slash = folder.lastIndex(of: "/") else { break }
                folder = folder[..<slash]
                folders += ["\(folder)/share/hub/swarm", "\(folder)/config/swarm"]
            }
        }
        return folders + ["config/swarm"]
    }

    /// Names of those that there are, sorted.
    private static var known: [String] {
        var names: Set<String> = []
        for folder in folders {
            guard let directory = opendir(folder) else { continue }
            defer { closedir(directory) }
            while let entry = readdir(directory) {
                let name = withUnsafeBytes(of: entry.pointee.d_name) { String(decoding: $0.prefix { $0 != 0 }, as: UTF8.self) }
                if name.hasSuffix(".json5") { names.insert(stem(name)) }
            }
        }
        return names.sorted()
    }

    private static func stem(_ path: String) -> String {
        let name = path.split(separator: "/").last.map(String.init) ?? path
        return name.hasSuffix(".json5") ? String(name.dropLast(6)) : name
    }

    private static func contents(of path: String) -> [UInt8]? {
        guard let file = fopen(path, "re") else { return nil }
        defer { fclose(file) }
        var bytes = [UInt8](repeating: 0, count: ScenarioReader.bytesMax + 1)
        let count = fread(&bytes, 1, bytes.count, file)
        guard ferror(file) == 0 else { return nil }
        return Array(bytes[..<count])
    }
}
