import COpenSSL

/// What OpenSSL left in the calling thread's error queue.
enum OpenSSLError {
    /// Each call that may leave errors begins with this: an old one would be taken for its own.
    static func clear() { ERR_clear_error() }

    /// The innermost error in OpenSSL's words ("no shared cipher"), and an empty queue.
    static func take() -> String {
        let code = ERR_get_error()
        ERR_clear_error()
        guard code != 0 else { return "an unknown error" }
        guard let reason = ERR_reason_error_string(code) else { return "error \(code)" }
        return String(cString: reason)
    }

    /// The reason of the innermost error, without taking it.
    static var reason: Int32 { Int32(truncatingIfNeeded: ERR_peek_error() & UInt(ERR_REASON_MASK)) }
}
