import HubBase

extension EnvelopeEncoder {
    /// `channels` is an object by channel name; each value is as in a subscribe ack, its name included, so that one reader serves both.
    package static func welcome(_ welcome: Welcome, into buffer: inout ByteBuffer) {
        buffer.append("{\"type\":\"system\",\"event\":\"welcome\"")
        buffer.appendField(",\"connection\":", welcome.connection)
        buffer.appendField(",\"node\":", welcome.node)
        buffer.appendField(",\"user\":", welcome.user)
        buffer.appendField(",\"device\":", welcome.device)
        buffer.appendField(",\"ping\":", welcome.pingMilliseconds)
        buffer.appendField(",\"limits\":{\"messageBytes\":", welcome.messageBytesMax)
        buffer.appendField(",\"channels\":", welcome.channelsMax)
        buffer.append("},\"channels\":{")
        var isFirst = true
        for subscription in welcome.channels {
            buffer.appendField(isFirst ? "" : ",", subscription.channel)
            buffer.append(":{")
            appendFields(of: subscription, &buffer)
            isFirst = false
        }
        buffer.append(UInt8(ascii: "}"))
        if let expires = welcome.tokenExpires { buffer.appendField(",\"tokenExpires\":", expires) }
        buffer.append(UInt8(ascii: "}"))
    }

    package static func system(_ event: SystemEvent, into buffer: inout ByteBuffer) {
        buffer.append("{\"type\":\"system\",\"event\":\"")
        switch event {
        case .degraded(let reason):
            buffer.appendField("degraded\",\"reason\":", reason)
        case .restored:
            buffer.append("restored\"")
        case .resync(let channel, let position, let reason):
            buffer.appendField("resync\",\"channel\":", channel)
            buffer.appendField(",\"position\":", position)
            buffer.appendField(",\"reason\":", reason)
        case .drain(let returnAfter):
            buffer.appendField("drain\",\"returnAfter\":", returnAfter)
        case .tokenExpiring(let remaining):
            buffer.appendField("tokenExpiring\",\"in\":", remaining)
        case .unsubscribed(let channel, let code):
            buffer.appendField("unsubscribed\",\"channel\":", channel)
            buffer.appendField(",\"code\":", code.rawValue)
        case .dropped(let name, let count):
            buffer.appendField("dropped\",\"class\":", name)
            buffer.appendField(",\"count\":", count)
        }
        buffer.append(UInt8(ascii: "}"))
    }
}
