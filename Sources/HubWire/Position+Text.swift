import HubBase

extension Position {
    /// nil unless the text is exactly `epoch.offset.tag` with marks of eight characters or none, and an offset below 2^53 without
    /// leading zeros.
    package init?(text: UnsafeRawBufferPointer) { fatalError("skeleton") }

    package func append(to buffer: inout ByteBuffer) { fatalError("skeleton") }
}
