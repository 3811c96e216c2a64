import Glibc
import HubBase

/// Keys from where `ps` doesn't show them.
enum SecretFile {
    private static let bytesMax = 64 * 1024

    /// The file's bytes without a line break at the end.
    static func read(_ path: String) throws(Failure) -> Secret {
        guard let file = fopen(path, "r") else { throw .refused("can't read \(path): \(String(cString: strerror(errno)))") }
        defer { fclose(file) }
        var bytes = [UInt8](repeating: 0, count: bytesMax + 1)
        let count = fread(&bytes, 1, bytes.count, file)
        guard ferror(file) == 0 else { throw .refused("can't read \(path): \(String(cString: strerror(errno)))") }
        guard count <= bytesMax else { throw .refused("\(path) has more than \(bytesMax) bytes, that's no key") }
        bytes.removeLast(bytes.count - count)
        while let last = bytes.last, last == 10 || last == 13 { bytes.removeLast() }
        guard !bytes.isEmpty else { throw .refused("\(path) is empty") }
        return Secret(bytes)
    }

    /// nil when the variable isn't set or empty.
    static func environment(_ name: String) -> Secret? {
        guard let value = getenv(name), value[0] != 0 else { return nil }
        return Secret(Array(String(cString: value).utf8))
    }
}
