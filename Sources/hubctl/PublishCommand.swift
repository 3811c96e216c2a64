import HubBase
import HubConsole
import HubWire

/// `hubctl publish CHANNEL TEXT|--json PAYLOAD [--class chat|event] [--user USER] [--id MESSAGEID]`
enum PublishCommand {
    static func run(_ arguments: CommandLineArguments, _ output: inout Output) throws(Failure) {
        let channel = try Names.parse(arguments.operands[0], "channel")
        let user = try arguments.value("user").map { (text) throws(Failure) in try Names.parse(text, "user") }
        let messageClass = arguments.value("class") ?? "chat"
        guard messageClass == "chat" || messageClass == "event" else {
            throw .usage("--class is chat or event, not \(CommandLineError.quoted(messageClass))")
        }
        let payload = try payload(arguments)
        let messageId: Name
        if let id = arguments.value("id") {
            messageId = try Names.parse(id, "message id", limit: 64)
        } else {
            var system = SystemRandomNumberGenerator()
            var chance = Chance(seed: system.next())
            messageId = Name(trusted: Array("hubctl-\(chance.mark())\(chance.mark())".utf8))
        }
        let hub = try Hub(arguments)
        let answer: [UInt8]
        do throws(Failure) {
            answer = try hub.post("/v1/publish", body(channel, messageClass, messageId, user, payload))
        } catch {
            // An answer that didn't come says nothing about the message.
            guard error.kind == .unreachable else { throw error }
            throw .unreachable(error.text + "\nRepeat it with --id \(messageId): if the message was stored after all, it stays one.")
        }
        guard let object = JSONObject(answer), let offset = object.number("offset") else {
            throw .refused("\(hub.url) answered something that is no position; is it a hub?")
        }
        let duplicate = object.isTrue("duplicate") ? ", was stored before" : ""
        output.line("\(channel) #\(offset), message \(messageId)\(duplicate)")
    }

    private static func payload(_ arguments: CommandLineArguments) throws(Failure) -> [UInt8] {
        switch (arguments.operands.dropFirst().first, arguments.value("json")) {
        case (let text?, nil):
            var buffer = ByteBuffer(capacity: 64)
            buffer.append("{\"text\":\"")
            Array(text.utf8).withUnsafeBytes { JSONText.escape($0, into: &buffer) }
            buffer.append("\"}")
            return buffer.copyBytes()
        case (nil, let json?):
            let bytes = Array(json.utf8)
            // As the value of a field, so that a second field smuggled in behind it shows as one too many.
            guard let object = JSONObject(Array("{\"payload\":".utf8) + bytes + [UInt8(ascii: "}")]), object.fields.count == 1 else {
                throw .usage("--json isn't JSON: \(CommandLineError.quoted(json))")
            }
            return bytes
        case (nil, nil): throw .usage("TEXT or --json PAYLOAD is missing")
        case (_?, _?): throw .usage("give TEXT or --json PAYLOAD, not both")
        }
    }

    private static func body(_ channel: Name, _ messageClass: String, _ messageId: Name, _ user: Name?, _ payload: [UInt8]) -> [UInt8] {
        var buffer = ByteBuffer(capacity: 256)
        func field(_ key: StaticString, _ bytes: [UInt8]) {
            buffer.append(key)
            bytes.withUnsafeBytes { JSONText.escape($0, into: &buffer) }
            buffer.append("\"")
        }
        field("{\"channel\":\"", channel.bytes)
        field(",\"class\":\"", Array(messageClass.utf8))
        field(",\"messageId\":\"", messageId.bytes)
        if let user { field(",\"user\":\"", user.bytes) }
        buffer.append(",\"payload\":")
        buffer.append(payload)
        buffer.append("}")
        return buffer.copyBytes()
    }
}
