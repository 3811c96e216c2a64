/// This process's arguments as the system shows them to every user of the machine (`ps`, /proc/PID/cmdline).
package enum ShownArguments {
    /// Overwrites what may not be shown: of each argument the bytes from where `start` says (at most its length), by the argument and the one before
    /// it; nil: nothing. Before the arguments are overwritten they have to have been read; nobody else may look at them meanwhile.
    package static func hide(from start: (_ argument: String, _ previous: String) -> Int?) {
        var previous = ""
        for index in 1..<max(Int(CommandLine.argc), 1) {
            guard let argument = CommandLine.unsafeArgv[index] else { continue }
            let text = String(cString: argument)
            if var place = start(text, previous) {
                while argument[place] != 0 {
                    argument[place] = CChar(bitPattern: UInt8(ascii: "*"))
                    place += 1
                }
            }
            previous = text
        }
    }
}
