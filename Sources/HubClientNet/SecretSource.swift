import Glibc
import HubBase

/// Keys for tools, from places where `ps` doesn't show them.
package enum SecretSource {
    package struct Unreadable: Error, Sendable, CustomStringConvertible {
        package let description: String
    }

    private static let bytesMax = 64 * 1024

    /// The file's bytes without line breaks at the end. Warns when other users can read it, unless it's public anyway.
    package static func file(_ path: String, isPublic: Bool = false) throws(Unreadable) -> Secret {
        guard let file = fopen(path, "re") else { throw Unreadable(description: "can't read \(path): \(String(cString: strerror(errno)))") }
        defer { fclose(file) }
        var facts = stat()
        if !isPublic, fstat(fileno(file), &facts) == 0, facts.st_mode & 0o077 != 0, facts.st_mode & S_IFMT == S_IFREG {
            StandardError.write(
                "warning: \(path) holds a key and is open to other users (mode 0\(String(facts.st_mode & 0o777, radix: 8))): chmod 600\n")
        }
        var bytes = [UInt8](repeating: 0, count: bytesMax + 1)
        let count = fread(&bytes, 1, bytes.count, file)
        guard ferror(file) == 0 else { throw Unreadable(description: "can't read \(path): \(String(cString: strerror(errno)))") }
        guard count <= bytesMax else { throw Unreadable(description: "\(path) has more than \(bytesMax) bytes, that's no key") }
        bytes.removeLast(bytes.count - count)
        while let last = bytes.last, last == 10 || last == 13 { bytes.removeLast() }
        guard !bytes.isEmpty else { throw Unreadable(description: "\(path) is empty") }
        return Secret(bytes)
    }

    /// nil when the variable isn't set or empty.
    package static func environment(_ name: String) -> Secret? {
        guard let value = getenv(name), value[0] != 0 else { return nil }
        return Secret(Array(String(cString: value).utf8))
    }
}
