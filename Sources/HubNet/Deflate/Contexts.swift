/// The compression state that one connection owns, from what `DeflateOptions.contexts` has left.
struct Contexts: ~Copyable {
    let deflater: Deflater?
    let inflater: Inflater?
    /// What was taken for them.
    let bytes: Int

    /// What an agreement's takeover costs.
    static func cost(_ agreement: DeflateAgreement) -> Int {
        (agreement.serverTakesOver ? Deflater.cost(windowBits: agreement.serverWindowBits) : 0)
            + (agreement.clientTakesOver ? Inflater.cost(windowBits: agreement.clientWindowBits) : 0)
    }
}
