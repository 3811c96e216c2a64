package protocol LoopHandler: AnyObject {
    /// Somebody called `wake`: take the mailbox.
    func woken()
    func timerFired(kind: UInt32, value: UInt64)
    /// The last moment to encode: writes leave right after. Called in every turn.
    func turnEnding()
}
