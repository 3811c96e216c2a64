import HubBase
import HubClientNet
import HubConsole
import HubToken

/// `hubctl token --user USER [--ttl SPAN] [--key-env VARIABLE | --key-file FILE] [--kid KID]`
enum TokenCommand {
    private static let defaultVariable = "HUB_AUTH_SECRET"

    static func run(_ arguments: CommandLineArguments, _ output: inout Output) throws(Failure) {
        guard let text = arguments.value("user") else { throw .usage("--user USER is missing: whose token?") }
        let user = try Names.parse(text, "user")
        let ttl = arguments.value("ttl") ?? "1h"
        guard let span = QuantityText.span(ttl), span >= .seconds(1) else {
            throw .usage("--ttl is a length of time from 1s, such as 30s, 5m, 1h or 7d, not \(CommandLineError.quoted(ttl))")
        }
        let issued = Output.wallMilliseconds() / 1000
        let key = TokenKey(id: arguments.value("kid"), secret: try secret(arguments))
        let token = TokenMinter.mint(user: user, issued: issued, expires: issued + span.milliseconds / 1000, key: key)
        output.line(token)
    }

    private static func secret(_ arguments: CommandLineArguments) throws(Failure) -> Secret {
        if let path = arguments.value("key-file") {
            guard !arguments.has("key-env") else { throw .usage("give --key-env or --key-file, not both") }
            do throws(SecretSource.Unreadable) { return try SecretSource.file(path) } catch { throw .refused("--key-file: \(error)") }
        }
        let variable = arguments.value("key-env") ?? defaultVariable
        guard let secret = SecretSource.environment(variable) else {
            throw .refused("\(variable) isn't set or empty; it must hold the hub's HS256 secret (or use --key-file FILE)")
        }
        return secret
    }
}
