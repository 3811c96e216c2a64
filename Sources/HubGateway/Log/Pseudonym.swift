/// Stands for a user, an address or a channel in a log that is to name nobody (`log.personal: false`): the same for the same one while the process
/// runs, another one in every process.
enum Pseudonym {
    static func of(_ text: String) -> String {
        var hasher = Hasher()
        hasher.combine(text)
        return "#" + String(UInt64(bitPattern: Int64(hasher.finalize())), radix: 36)
    }
}
