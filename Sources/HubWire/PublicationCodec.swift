import HubBase

/// How a publication travels between nodes and lies in history: a version byte, then length-prefixed fields, then the payload.
/// Binary and internal: clients never see it. The layout: docs/redis.md.
package enum PublicationCodec {
    package static func encode(_ publication: Publication, into buffer: inout ByteBuffer) { fatalError("skeleton") }

    /// nil for anything that isn't ours: the bytes come from Redis, where others may write.
    package static func decode(_ bytes: UnsafeRawBufferPointer) -> Publication? { fatalError("skeleton") }
}
