import HubBase
import Glibc

/// Whether a node could keep a snapshot at a path: looked at when the configuration is read, so that `--check` finds what a start would.
/// Nothing is made or written.
enum SnapshotPlace {
    /// What is in the way, and what to do about it; nil: nothing.
    static func problem(_ path: String) -> String? {
        let folder = path.lastIndex(of: "/").map { $0 == path.startIndex ? "/" : String(path[..<$0]) } ?? "."
        var facts = stat()
        guard stat(folder, &facts) == 0 else {
            let isMissing = errno == ENOENT
            return "the folder \(shownText(folder)) "
                + (isMissing
                    ? "doesn't exist: make it, or name a file elsewhere" : "can't be looked at: \(String(cString: strerror(errno)))")
        }
        guard facts.st_mode & S_IFMT == S_IFDIR else { return "\(shownText(folder)) is no folder: name a file in one" }
        // The node writes a new file and renames it, so the folder has to let it.
        guard access(folder, W_OK | X_OK) == 0 else {
            return "the folder \(shownText(folder)) can't be written by this user (\(String(cString: strerror(errno)))): "
                + "give it to the user that runs hubd, or name a file elsewhere"
        }
        guard stat(path, &facts) == 0 else { return nil }
        guard facts.st_mode & S_IFMT == S_IFREG else { return "\(shownText(path)) is no plain file: name one" }
        guard access(path, R_OK | W_OK) == 0 else {
            return "\(shownText(path)) can't be read and written by this user (\(String(cString: strerror(errno)))): "
                + "give it to the user that runs hubd"
        }
        return nil
    }
}
