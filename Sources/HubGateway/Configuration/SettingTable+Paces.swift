import HubBase
import HubCore

/// Limits of so much a second (`RateLimit`), and the counts that belong to them.
extension SettingTable {
    static let paces: [Setting] = [
        rateOfBytes("limits.bytesPerSecond", \.limits.bytesPerSecond, "Bytes of one connection's messages; 0: any number."),
        rate("limits.subscribesPerSecond", \.limits.subscribesPerSecond, "Channels that one connection subscribes to; 0: any number."),
        rate(
            "limits.refusalsPerSecond", \.limits.refusalsPerSecond,
            "Refusals by a rate that one connection may get; past them it's closed with 4009. 0: never."),
        .duration(
            "limits.burst", \.limits.burst, .milliseconds(100) ... .seconds(600), live: true,
            "How much of a rate may be used at once: what it allows in this time (limits.messagesPerSecond has limits.messageBurst)."),
        rate("limits.user.messagesPerSecond", \.limits.user.messages, "Messages of one user, on all nodes together; 0: any number."),
        rateOfBytes("limits.user.bytesPerSecond", \.limits.user.bytes, "Bytes of one user's messages, likewise; 0: any number."),
        rate("limits.user.subscribesPerSecond", \.limits.user.subscribes, "Channels that one user subscribes to, likewise; 0: any number."),
        rate("limits.user.connectsPerSecond", \.limits.user.connects, "Connections that one user opens, likewise; 0: any number."),
        .integer(
            "limits.connectionsPerUser", \.limits.connectionsPerUser, 0...10_000_000, live: true,
            "Connections of one user; 0: any number."),
        rate("limits.address.messagesPerSecond", \.limits.address.messages, "Messages from one client address; 0: any number."),
        rateOfBytes("limits.address.bytesPerSecond", \.limits.address.bytes, "Bytes of messages from one client address; 0: any number."),
        rate(
            "limits.address.subscribesPerSecond", \.limits.address.subscribes,
            "Channels that one client address subscribes to; 0: any number."),
        rate(
            "limits.address.connectsPerSecond", \.limits.address.connects,
            "Sockets, WebSockets and others, that one client address opens; 0: any number."),
        rate(
            "limits.address.failuresPerSecond", \.limits.address.failures,
            "Tokens and API keys of one client address that are refused before all of its are for a moment; 0: any number."),
        rate("limits.key.requestsPerSecond", \.limits.key.requests, "Requests of the HTTP API with one key; 0: any number."),
        rate("limits.key.messagesPerSecond", \.limits.key.messages, "Publications over HTTP with one key; 0: any number."),
    ]

    private static func rate(_ path: String, _ field: any Setting.Field<Int>, _ help: String) -> Setting {
        .integer(path, field, 0...10_000_000, live: true, help)
    }

    private static func rateOfBytes(_ path: String, _ field: any Setting.Field<Int>, _ help: String) -> Setting {
        .size(path, field, 0...1024 * 1024 * 1024 * 1024, live: true, help)
    }
}
