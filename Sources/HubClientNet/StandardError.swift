import Glibc

package enum StandardError {
    /// Text for people; what can't be written (a closed pipe) is dropped, there being nobody to tell.
    package static func write(_ text: String) {
        var rest = Array(text.utf8)[...]
        while !rest.isEmpty {
            let written = rest.withUnsafeBytes { Glibc.write(2, $0.baseAddress, $0.count) }
            if written > 0 { rest.removeFirst(written) } else if errno != EINTR { return }
        }
    }
}
