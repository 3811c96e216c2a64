/// A failed call to the system, with what was tried and on what: "bind 127.0.0.1:8080: Address already in use".
package struct NetError: Error, Sendable, Equatable, CustomStringConvertible {
    /// The system's error number; 0 where none applies.
    package let number: Int32
    package let description: String

    package init(number: Int32, description: String) {
        self.number = number
        self.description = description
    }
}
