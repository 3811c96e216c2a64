import HubBase

extension Position {
    /// nil unless the text is exactly `epoch.offset.tag` with marks of eight characters or none, and an offset below 2^53 without
    /// leading zeros.
    package init?(text: UnsafeRawBufferPointer) {
        guard text.count >= 3, text.count <= Position.textLengthMax else { return nil }
        let point = UInt8(ascii: ".")
        // A mark is eight characters or none, so the outer points can be in two places only.
        let epochEnd = text[0] == point ? 0 : 8
        let tagStart = text[text.count - 1] == point ? text.count : text.count - 8
        guard epochEnd + 1 < tagStart - 1, text[epochEnd] == point, text[tagStart - 1] == point,
            let epoch = Mark(UnsafeRawBufferPointer(rebasing: text[..<epochEnd])),
            let offset = JSONText.unsigned(UnsafeRawBufferPointer(rebasing: text[(epochEnd + 1)..<(tagStart - 1)])),
            let tag = Mark(UnsafeRawBufferPointer(rebasing: text[tagStart...]))
        else { return nil }
        self.init(epoch: epoch, offset: offset, tag: tag)
    }

    package func append(to buffer: inout ByteBuffer) {
        epoch.append(to: &buffer)
        buffer.append(UInt8(ascii: "."))
        buffer.append(decimal: offset)
        buffer.append(UInt8(ascii: "."))
        tag.append(to: &buffer)
    }
}

/// As on the wire.
extension Position: CustomStringConvertible {
    package var description: String { "\(epoch).\(offset).\(tag)" }
}
