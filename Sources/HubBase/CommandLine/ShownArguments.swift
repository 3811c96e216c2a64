import Glibc

/// This process's arguments as the system shows them to every user of the machine (`ps`, /proc/PID/cmdline).
package enum ShownArguments {
    /// Overwrites what may not be shown: of each argument the bytes from where `start` says, by the argument and the one before it; nil: nothing.
    /// Before the arguments are overwritten they have to have been read; nobody else may look at them meanwhile.
    package static func hide(from start: (_ argument: String, _ previous: String) -> Int?) {
        var previous = ""
        for index in 1..<max(Int(CommandLine.argc), 1) {
            guard let argument = CommandLine.unsafeArgv[index] else { continue }
            let text = String(cString: argument)
            if let start = start(text, previous) {
                for place in start..<max(strlen(argument), start) { argument[place] = UInt8(ascii: "*").asCharacter }
            }
            previous = text
        }
    }
}

extension UInt8 {
    fileprivate var asCharacter: CChar { CChar(bitPattern: self) }
}
