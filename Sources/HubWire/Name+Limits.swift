import HubBase

extension Name {
    /// The longest device name, in bytes (protocol: opening).
    package static let deviceLengthMax = 64
    /// The longest message id, in bytes: a UUID or any text of the sender's.
    package static let messageIdLengthMax = 64
}
