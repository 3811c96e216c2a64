import HubBase

/// What a client connection keeps until its WebSocket is open.
struct ClientDialogue {
    let endpoint: SocketAddress
    let opening: ClientOpening
    var handshake: ClientHandshake

    static func make(
        _ endpoint: SocketAddress, _ opening: ClientOpening, nonce: (UInt64, UInt64)
    ) -> UnsafeMutablePointer<ClientDialogue> {
        let dialogue = UnsafeMutablePointer<ClientDialogue>.allocate(capacity: 1)
        let handshake = ClientHandshake(key: WebSocketKey(nonce: nonce))
        dialogue.initialize(to: ClientDialogue(endpoint: endpoint, opening: opening, handshake: handshake))
        return dialogue
    }

    static func free(_ dialogue: inout UnsafeMutablePointer<ClientDialogue>?) {
        guard let memory = dialogue else { return }
        memory.deinitialize(count: 1)
        memory.deallocate()
        dialogue = nil
    }
}
