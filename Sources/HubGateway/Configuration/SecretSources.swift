import Glibc
import HubBase

/// Where secrets come from while a configuration is loaded: variables and files. Collects warnings.
struct SecretSources {
    let environment: [String: String]
    var warnings: [String] = []

    static let byteCountMax = 64 * 1024

    init(environment: [String: String]) { self.environment = environment }

    func secret(variable: String) throws(SettingKind.Problem) -> Secret {
        guard let text = environment[variable] else { throw .init(message: "names the variable \(Self.shown(variable)), which isn't set") }
        guard !text.isEmpty else { throw .init(message: "names the variable \(Self.shown(variable)), which is empty") }
        return Secret(Array(text.utf8))
    }

    /// A variable's name as people write those; anything else may be the secret itself, in the wrong place.
    private static func shown(_ variable: String) -> String {
        let isName =
            variable.utf8.count <= 64 && variable.utf8.allSatisfy { (0x41...0x5A).contains($0) || (0x30...0x39).contains($0) || $0 == 0x5F }
        return isName ? shownText(variable) : "that has a name of \(variable.utf8.count) bytes (capitals, digits and _ are shown)"
    }

    /// The file without the newline at its end. What `isPublic` others may read, but not write.
    mutating func secret(file path: String, isPublic: Bool = false) throws(SettingKind.Problem) -> Secret {
        let file: SmallFile
        do throws(SmallFile.Failure) { file = try SmallFile.read(path, byteCountMax: Self.byteCountMax) } catch {
            throw .init(message: "names the file \(shownPath(path)): \(error.message)")
        }
        var bytes = file.bytes
        if bytes.last == 0x0A { bytes.removeLast() }
        if bytes.last == 0x0D { bytes.removeLast() }
        guard !bytes.isEmpty else { throw .init(message: "names the file \(shownPath(path)), which is empty") }
        if isPublic, file.mode & 0o022 != 0 {
            warnings.append(
                "\(shownPath(path)) holds a key that tokens are believed by and can be written by other users (mode 0\(String(file.mode, radix: 8))): chmod 644"
            )
        }
        if !isPublic, file.mode & 0o077 != 0 {
            warnings.append(
                "\(shownPath(path)) holds a secret and is open to other users (mode 0\(String(file.mode, radix: 8))): chmod 600")
        }
        return Secret(bytes)
    }
}

/// A file that is read whole.
struct SmallFile {
    var bytes: [UInt8]
    /// The permission bits.
    var mode: UInt32

    struct Failure: Error { var message: String }

    /// Reads with open(2) and read(2); refuses what is longer than `byteCountMax` before keeping it. Blocks: for start and reload.
    static func read(_ path: String, byteCountMax: Int) throws(Failure) -> SmallFile {
        let descriptor = open(path, O_RDONLY | O_CLOEXEC)
        guard descriptor >= 0 else { throw failure("can't be read") }
        defer { close(descriptor) }
        var status = stat()
        guard fstat(descriptor, &status) == 0 else { throw failure("can't be read") }
        var bytes: [UInt8] = []
        var chunk = [UInt8](repeating: 0, count: 16 * 1024)
        while true {
            let count = chunk.withUnsafeMutableBytes { Glibc.read(descriptor, $0.baseAddress, $0.count) }
            if count < 0, errno == EINTR { continue }
            guard count >= 0 else { throw failure("can't be read") }
            if count == 0 { return SmallFile(bytes: bytes, mode: status.st_mode & 0o777) }
            guard bytes.count + count <= byteCountMax else {
                throw Failure(message: "is longer than \(QuantityText.text(byteCount: byteCountMax))")
            }
            bytes += chunk[..<count]
        }
    }

    private static func failure(_ message: String) -> Failure {
        Failure(message: "\(message): \(String(cString: strerror(errno)))")
    }
}
